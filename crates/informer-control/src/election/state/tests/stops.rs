//! Candidates that are stopped.

use super::{
    ElectionAction, ElectionNotice, ElectionResponse, Server, TestElector, seconds, verbs_until_leading,
};

#[test]
fn stopped_leader_that_observed_no_holder_releases_only_its_own_lease() {
    for done in [true, false] {
        let (mut elector, mut server) = (TestElector::new("a"), Server::default());
        verbs_until_leading(&mut elector, &mut server);
        server.lease.as_mut().expect("a Lease").holder = String::new();
        server.version += 1;
        elector.exchange(&mut server);
        elector.exchange(&mut server);
        let write = elector.action();
        if done {
            server.serve(&write);
        }
        elector.state.handle_response(ElectionResponse::Failed("no response".to_owned()), elector.now, 0.0);
        elector.state.stop(elector.now);
        assert!(matches!(elector.exchange(&mut server), ElectionAction::Get));
        if done {
            elector.exchange(&mut server);
        }
        assert_eq!(elector.notices().pop(), Some(ElectionNotice::Stopped));
        assert_eq!(server.lease.expect("a Lease").holder, "");
        assert_eq!(server.version, if done { 4 } else { 2 });
    }
}

#[test]
fn stopped_leader_releases_the_lease_and_retries_on_conflict() {
    let (mut elector, mut server) = (TestElector::new("a"), Server::default());
    verbs_until_leading(&mut elector, &mut server);
    server.version += 1;
    elector.state.stop(elector.now);
    let verbs: Vec<ElectionAction> = (0..3).map(|_| elector.exchange(&mut server)).collect();
    assert!(
        matches!(verbs[..], [ElectionAction::Update(..), ElectionAction::Get, ElectionAction::Update(..)]),
        "{verbs:?}"
    );
    assert_eq!(elector.notices().pop(), Some(ElectionNotice::Stopped));
    let lease = server.lease.expect("a Lease");
    assert_eq!((lease.holder.as_str(), lease.duration), ("", Some(1)));
}

#[test]
fn candidate_stopped_while_acquiring_releases_the_lease() {
    let (mut elector, mut server) = (TestElector::new("a"), Server::default());
    elector.exchange(&mut server);
    let create = elector.action();
    elector.state.stop(elector.now);
    elector.state.handle_response(server.serve(&create), elector.now, 0.0);
    elector.exchange(&mut server);
    assert_eq!(elector.notices().pop(), Some(ElectionNotice::Stopped));
    assert_eq!(server.lease.expect("a Lease").holder, "");
}

#[test]
fn stop_without_response_ends_at_the_renew_deadline() {
    let mut elector = TestElector::new("a");
    let mut server = Server::default();
    verbs_until_leading(&mut elector, &mut server);
    elector.state.stop(elector.now);
    let begun = elector.now;
    elector.action();
    elector.now = elector.state.next_deadline().expect("a deadline");
    elector.state.tick(elector.now);
    assert_eq!(
        (elector.now - begun, elector.notices().pop()),
        (seconds(10.0), Some(ElectionNotice::Stopped))
    );
}

#[test]
fn leader_stopped_during_a_renewal_without_response_has_not_lost_the_election() {
    let (mut elector, mut server) = (TestElector::new("a"), Server::default());
    verbs_until_leading(&mut elector, &mut server);
    let renewal = elector.action();
    assert!(matches!(renewal, ElectionAction::Update(..)), "{renewal:?}");
    drop(elector.notices());
    elector.state.stop(elector.now);
    elector.now = elector.state.next_deadline().expect("a deadline");
    elector.state.tick(elector.now);
    assert_eq!(elector.notices(), [ElectionNotice::Stopped]);
}

#[test]
fn stopped_standby_writes_nothing_and_reports_it_once() {
    let (mut elector, mut server) = (TestElector::new("a"), Server::held_by("b"));
    elector.exchange(&mut server);
    elector.state.stop(elector.now);
    assert_eq!(elector.notices().last(), Some(&ElectionNotice::Stopped));
    elector.state.stop(elector.now);
    elector.state.tick(elector.now + seconds(3600.0));
    assert!(elector.notices().is_empty() && elector.state.poll_action().is_none());
    assert_eq!((elector.state.next_deadline(), server.writes), (None, 0));
}
