//! Candidates of an election in which a coordinator chooses the leader.

use std::time::Instant;

use super::{ElectionNotice, ElectionTimes, ElectorState, LeaseWrite, Server, TestElector, seconds, start};

/// Sends the requests of a candidate until it waits. Returns its notices.
fn drive(state: &mut ElectorState, server: &mut Server, now: Instant) -> Vec<ElectionNotice> {
    state.tick(now);
    while let Some(action) = state.poll_action() {
        let response = server.serve(&action);
        state.handle_response(response, now, 0.0);
    }
    std::iter::from_fn(|| state.poll_notice()).collect()
}

fn coordinated() -> (ElectorState, Server, Instant) {
    let now = start();
    let state = ElectorState::new("a".to_owned(), ElectionTimes::default(), true, now).coordinated();
    (state, Server::default(), now)
}

/// Chooses a holder, like the coordinator.
fn choose(server: &mut Server, holder: &str) {
    let write =
        LeaseWrite { holder: holder.to_owned(), duration: seconds(15.0), transitions: 0, acquired: None };
    drop(server.write(&write));
}

#[test]
fn coordinated_candidate_waits_until_the_coordinator_has_chosen_it() {
    let (mut state, mut server, now) = coordinated();
    for second in 0..120 {
        assert!(drive(&mut state, &mut server, now + seconds(f64::from(second))).is_empty());
    }
    assert!(server.lease.is_none(), "it does not create the Lease");
    choose(&mut server, "b");
    for second in 120..240 {
        let notices = drive(&mut state, &mut server, now + seconds(f64::from(second)));
        assert!(!notices.iter().any(|notice| matches!(notice, ElectionNotice::Leading(_))), "{notices:?}");
    }
    assert_eq!(
        server.lease.as_ref().map(|lease| lease.holder.as_str()),
        Some("b"),
        "also after it has expired"
    );
    choose(&mut server, "a");
    let notices = drive(&mut state, &mut server, now + seconds(250.0));
    assert!(notices.iter().any(|notice| matches!(notice, ElectionNotice::Leading(_))), "{notices:?}");
}

#[test]
fn coordinated_leader_ends_when_the_coordinator_prefers_another_candidate() {
    let (mut state, mut server, now) = coordinated();
    choose(&mut server, "a");
    drop(drive(&mut state, &mut server, now));
    assert!(state.leads());
    drop(drive(&mut state, &mut server, now + seconds(3.0)));
    assert!(state.leads());
    server.lease.as_mut().expect("it exists").preferred = "b".to_owned();
    server.version += 1;
    let notices = drive(&mut state, &mut server, now + seconds(6.0));
    assert!(
        matches!(&notices[..], [ElectionNotice::Lost(lost)] if lost.to_string().contains("prefers b")),
        "{notices:?}"
    );
}

#[test]
fn coordinated_leader_ends_when_the_lease_is_deleted() {
    let (mut state, mut server, now) = coordinated();
    choose(&mut server, "a");
    drop(drive(&mut state, &mut server, now));
    server.lease = None;
    let notices = drive(&mut state, &mut server, now + seconds(3.0));
    assert!(matches!(&notices[..], [ElectionNotice::Lost(_)]), "{notices:?}");
    assert!(server.lease.is_none());
}

#[test]
fn preference_of_a_coordinator_is_not_a_renewal() {
    let (mut elector, mut server) = (TestElector::new("a"), Server::held_by("b"));
    let begun = elector.now;
    for preference in 0..100 {
        if elector.state.leads() {
            break;
        }
        server.lease.as_mut().expect("a Lease").preferred = format!("candidate-{preference}");
        elector.exchange(&mut server);
    }
    assert!(elector.state.leads());
    assert_eq!(elector.now - begun, seconds(15.0));
}
