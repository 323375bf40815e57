use proptest::prelude::*;

use super::*;

const VALIDITY: Validity =
    Validity { authority: SignedDuration::from_hours(72), certificate: SignedDuration::from_hours(12) };

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).expect("a valid time")
}

/// Replicas, their Secret and one target. A replica reads both in one event and acts in another one, so that
/// replicas interleave.
#[derive(Default)]
struct World {
    now: i64,
    shared: SecretContent,
    secret_version: u64,
    made: u64,
    /// The authorities that the target trusts, with the time since which it does so.
    trusted: Vec<(i64, Vec<CertificateId>)>,
    replicas: Vec<Member>,
    /// The certificates that were issued before the targets trusted their authority. This is allowed only if
    /// there is no valid certificate.
    emergency: Vec<CertificateId>,
    /// The issuer and the end of each certificate.
    issued: BTreeMap<CertificateId, (CertificateId, Timestamp)>,
}

#[derive(Default)]
struct Member {
    identity: String,
    serves: Option<CertificateId>,
    pending: Option<Pending>,
    last_step: i64,
}

struct Pending {
    step: Step,
    secret_version: u64,
    target_version: usize,
    read: SecretContent,
}

#[derive(Debug, Clone)]
enum Event {
    Read(usize),
    Act(usize),
    Crash(usize),
    Pass(i64),
    /// Another program removes the authorities of the target.
    Delete,
}

impl World {
    fn new(replicas: usize) -> Self {
        let member = |index| Member { identity: format!("replica-{index}"), ..Member::default() };
        Self { replicas: (0..replicas).map(member).collect(), ..Self::default() }
    }

    fn trusts(&self) -> Vec<CertificateId> {
        self.trusted.last().map(|(_, trusted)| trusted.clone()).unwrap_or_default()
    }

    fn bundle(shared: &SecretContent) -> Vec<CertificateId> {
        shared.authorities.iter().map(|authority| authority.id.clone()).collect()
    }

    fn read(&mut self, index: usize) -> Step {
        let injected = self.trusts() == Self::bundle(&self.shared);
        let (target_version, secret_version) = (self.trusted.len(), self.secret_version);
        let (read, now) = (self.shared.clone(), at(self.now));
        let member = &mut self.replicas[index];
        let observed = Observed { identity: &member.identity, serves: member.serves.as_deref(), injected };
        let step = next_step(&read, &observed, now);
        member.pending = Some(Pending { step: step.clone(), secret_version, target_version, read });
        step
    }

    fn act(&mut self, index: usize) {
        let Some(pending) = self.replicas[index].pending.take() else { return };
        self.replicas[index].last_step = self.now;
        match pending.step {
            Step::Wait(_) => {}
            Step::Serve => {
                self.replicas[index].serves = pending.read.certificate.map(|certificate| certificate.id);
            }
            Step::Inject if self.trusted.len() == pending.target_version => {
                self.trusted.push((self.now, Self::bundle(&pending.read)));
            }
            Step::Change(change) if self.secret_version == pending.secret_version => {
                self.change(change, index);
            }
            // The Secret or the target has changed since it was read.
            Step::Inject | Step::Change(_) => {}
        }
    }

    fn change(&mut self, change: Change, index: usize) {
        let (now, made) = (at(self.now), self.made);
        self.made += 1;
        self.secret_version += 1;
        let period = |validity: SignedDuration| Period { from: now, until: later(now, validity) };
        match change {
            Change::AddAuthority => {
                let authority = Authority { id: format!("ca-{made}"), period: period(VALIDITY.authority) };
                self.shared.authorities.insert(0, authority);
                (self.shared.issues, self.shared.trusted_since) = (true, None);
            }
            Change::MarkTrusted => self.shared.trusted_since = Some(now),
            Change::Issue => {
                let valid = self.shared.certificate.as_ref().is_some_and(|old| old.period.contains(now));
                let issuer = self.shared.authorities[0].clone();
                let mut period = period(VALIDITY.certificate);
                period.until = period.until.min(issuer.period.until);
                let id = format!("crt-{made}");
                if !valid {
                    self.emergency.push(id.clone());
                }
                self.issued.insert(id.clone(), (issuer.id.clone(), period.until));
                self.shared.certificate =
                    Some(Certificate { id, issuer: Some(issuer.id), period, usable: true });
            }
            Change::Retire => self.shared.authorities.truncate(1),
            Change::Report(serves) => {
                let report = Replica { serves, reported: now };
                self.shared.replicas.insert(self.replicas[index].identity.clone(), report);
            }
        }
        prune(&mut self.shared, now);
    }

    fn play(&mut self, event: &Event) {
        match *event {
            Event::Read(index) => drop(self.read(index)),
            Event::Act(index) => self.act(index),
            Event::Crash(index) => {
                let generation = self.made;
                let member =
                    Member { identity: format!("replica-{index}-{generation}"), ..Member::default() };
                self.made += 1;
                self.replicas[index] = Member { last_step: self.now, ..member };
            }
            Event::Pass(seconds) => self.now += seconds,
            Event::Delete => self.trusted.push((self.now, Vec::new())),
        }
    }

    /// Returns the problem if an API server, which observes the target with a delay of up to [`PROPAGATION`],
    /// may refuse the certificate of a replica.
    fn refused(&self) -> Option<String> {
        let window = self.now - PROPAGATION.as_secs();
        for member in &self.replicas {
            let Some(serves) = &member.serves else { continue };
            let (issuer, until) = &self.issued[serves];
            let starved = self.now - member.last_step > REPLICA_EXPIRY.as_secs();
            if starved || *until <= at(self.now) || self.emergency.contains(serves) {
                continue;
            }
            let observed = self.trusted.iter().enumerate().filter(|(index, _)| {
                let replaced = self.trusted.get(index + 1).map(|(since, _)| *since);
                replaced.is_none_or(|replaced| replaced > window)
            });
            for (_, (_, trusted)) in observed {
                // The empty bundle is the work of another program.
                if !trusted.is_empty() && !trusted.contains(issuer) {
                    return Some(format!("{serves} of {issuer} is served, and {trusted:?} are trusted"));
                }
            }
        }
        None
    }

    /// Runs all replicas until they wait. Returns the time until which they wait.
    fn settle(&mut self) -> i64 {
        let mut until = i64::MAX;
        for index in 0..self.replicas.len() {
            for step in 0.. {
                assert!(step < 50, "the replica does not settle");
                let next = self.read(index);
                self.act(index);
                if let Step::Wait(deadline) = next {
                    until = until.min(deadline.as_second() - at(0).as_second());
                    break;
                }
            }
        }
        until
    }
}

fn events(replicas: usize) -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => (0..replicas).prop_map(Event::Read),
        6 => (0..replicas).prop_map(Event::Act),
        1 => (0..replicas).prop_map(Event::Crash),
        1 => Just(Event::Delete),
        2 => (1..200_i64).prop_map(Event::Pass),
        1 => (1..3 * 3600_i64).prop_map(Event::Pass),
    ];
    prop::collection::vec(event, 1..600)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn served_certificate_is_trusted_whatever_the_order_of_steps(events in events(3)) {
        let mut world = World::new(3);
        for event in &events {
            world.play(event);
            let refused = world.refused();
            prop_assert!(refused.is_none(), "after {event:?}: {refused:?}");
        }
    }
}

#[test]
fn certificates_and_authorities_are_renewed_without_an_interval_in_which_none_is_valid() {
    let mut world = World::new(2);
    let mut authorities = std::collections::BTreeSet::new();
    let end = 10 * 24 * 3600;
    while world.now < end {
        let until = world.settle();
        assert!(until > world.now, "a deadline is in the future");
        assert_eq!(world.refused(), None);
        let certificate = world.shared.certificate.clone().expect("it is issued");
        assert!(certificate.period.contains(at(world.now)), "the certificate has not expired");
        authorities.extend(World::bundle(&world.shared));
        assert!(world.shared.authorities.len() <= 2);
        // A deadline may pass while a replica is busy for a minute.
        world.now = until + 60;
    }
    assert_eq!(world.emergency.len(), 1, "only the first certificate is issued before it is trusted");
    assert!(authorities.len() >= 5, "{authorities:?}");
    assert_eq!(world.shared.replicas.len(), 2);
}

#[test]
fn authority_stays_trusted_until_the_last_replica_serves_the_certificate_of_its_successor() {
    let mut world = World::new(2);
    world.settle();
    let first = World::bundle(&world.shared);
    // The second replica stops acting, and the first one rotates alone.
    let slow = world.replicas.pop().expect("there are two");
    world.now += 49 * 3600;
    while world.shared.authorities.len() == 1 || World::bundle(&world.shared)[1..] == first[..] {
        let own = world.shared.replicas.get_mut(&slow.identity);
        let Some(own) = own else { break };
        // It is alive, and reports the old certificate.
        own.reported = at(world.now);
        world.now = world.settle().min(world.now + 3600);
        if world.now > 60 * 3600 {
            break;
        }
    }
    assert_eq!(World::bundle(&world.shared).len(), 2, "both authorities are trusted");
    world.replicas.push(slow);
    world.settle();
    world.now += 3 * 3600;
    world.settle();
    world.settle();
    let left = World::bundle(&world.shared);
    assert!(left.len() == 1 && left != first, "{left:?}");
    assert_eq!(world.trusts(), left);
}

#[test]
fn report_of_a_replica_that_ended_does_not_keep_an_authority_forever() {
    let mut world = World::new(2);
    world.settle();
    world.replicas.pop();
    world.now += 49 * 3600;
    for _ in 0..60 {
        world.now = world.settle();
    }
    assert_eq!(world.shared.replicas.keys().collect::<Vec<_>>(), ["replica-0"]);
    assert!(world.shared.authorities.len() <= 2);
}
