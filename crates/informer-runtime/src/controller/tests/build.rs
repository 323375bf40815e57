//! Tests of invalid configurations, names, and the precedence of options.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};

use super::super::options::resolve;
use super::*;

fn problem(builder: ControllerBuilder) -> BuildError {
    let controller = builder.reconcile(|_, _| async { Ok(Outcome::Done) });
    controller.assemble(environment()).map(drop).unwrap_err()
}

#[test]
fn controller_without_sources_is_rejected() {
    assert_eq!(
        problem(Controller::builder().named("test")),
        BuildError::NothingWatched { controller: "test".to_owned() }
    );
}

#[test]
fn second_for_call_is_rejected() {
    assert_eq!(
        problem(Controller::new::<ConfigMap>("test").for_::<Pod>()),
        BuildError::ForTwice { controller: "test".to_owned() }
    );
}

#[test]
fn owns_without_for_is_rejected() {
    let builder = Controller::builder().named("test").owns::<Pod>();
    assert_eq!(problem(builder), BuildError::OwnsWithoutFor { controller: "test".to_owned() });
}

#[test]
fn owns_may_be_called_before_for() {
    let builder = Controller::builder().named("test").owns::<Pod>().for_::<Deployment>();
    let controller = builder.reconcile(|_, _| async { Ok(Outcome::Done) });
    let handle = controller.handle();
    controller.assemble(environment()).unwrap();
    let state = handle.state().unwrap();
    assert_eq!(state.kind, "Deployment.apps");
    assert_eq!(state.sources.len(), 2);
}

#[test]
fn controller_needs_a_name_or_a_reconciled_kind() {
    assert_eq!(problem(Controller::builder().source(of(&[]))), BuildError::NoName);
    assert_eq!(problem(Controller::builder().named("").source(of(&[]))), BuildError::NoName);
    let controller = Controller::builder().for_::<ConfigMap>().reconcile(|_, _| async { Ok(Outcome::Done) });
    let handle = controller.handle();
    controller.assemble(environment()).unwrap();
    assert_eq!(handle.state().unwrap().name, "configmap");
}

#[test]
fn default_options_are_those_of_controller_runtime() {
    let settings = resolve(&ControllerDefaults::default(), &ControllerDefaults::default(), None);
    assert_eq!((settings.workers, settings.sync_timeout), (1, Duration::from_secs(120)));
    assert!(settings.recover_panic && settings.leader_only && settings.priorities);
    assert!(!settings.warm_up && settings.reconcile_timeout.is_none() && !settings.skip_name_validation);
}

fn all(number: u64, flag: bool) -> ControllerDefaults {
    ControllerDefaults {
        workers: usize::try_from(number).ok(),
        sync_timeout: Some(Duration::from_secs(number)),
        reconcile_timeout: Some(Duration::from_secs(number)),
        recover_panic: Some(flag),
        leader_only: Some(flag),
        warm_up: Some(flag),
        priorities: Some(flag),
        drain_within: Some(Duration::from_secs(number)),
        skip_name_validation: Some(flag),
        ..ControllerDefaults::default()
    }
}

#[test]
fn controller_options_override_manager_defaults() {
    let none = ControllerDefaults::default();
    for (number, flag) in [(3, true), (5, false)] {
        let inherited = resolve(&none, &all(number, flag), None);
        let own = resolve(&all(number, flag), &all(9, !flag), None);
        assert_eq!(inherited, own);
        assert_eq!(
            (own.workers, own.drain_within),
            (usize::try_from(number).unwrap(), Duration::from_secs(number))
        );
        assert_eq!(
            [own.recover_panic, own.leader_only, own.warm_up, own.priorities, own.skip_name_validation],
            [flag; 5]
        );
    }
}

#[test]
fn workers_by_kind_apply_to_controllers_of_the_kind() {
    let mut manager = all(2, true);
    manager.workers_by_kind.insert("Website.example.com".to_owned(), 7);
    let none = ControllerDefaults::default();
    assert_eq!(resolve(&none, &manager, Some("Website.example.com")).workers, 7);
    assert_eq!(resolve(&none, &manager, Some("Pod")).workers, 2);
    assert_eq!(resolve(&all(3, true), &manager, Some("Website.example.com")).workers, 3);
    assert_eq!(resolve(&all(0, true), &manager, None).workers, 1, "a controller has at least one worker");
}
