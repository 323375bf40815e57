//! The checks of the Pod Security Standards, with their level and first Kubernetes version. Violations are
//! reported in the order in which the tables list the checks.

mod capabilities;
mod host;
mod kernel;
mod privilege;
mod profiles;
mod users;
mod volumes;

use super::pod::Pod;

/// A violation of a Pod Security check: a short reason, and a detail that names the containers and values.
pub(super) struct PodViolation {
    pub(super) reason: &'static str,
    pub(super) detail: String,
}

impl PodViolation {
    /// Returns a violation with this detail, or `None` if no detail is given because the pod passes the
    /// check.
    fn about(reason: &'static str, detail: Option<String>) -> Option<Self> {
        detail.map(|detail| Self { reason, detail })
    }
}

type CheckFn = fn(&Pod<'_>) -> Option<PodViolation>;

pub(super) struct PodSecurityCheck {
    /// The variants of the check, each with the minor Kubernetes version that introduced it, in ascending
    /// order.
    versions: &'static [(i64, CheckFn)],
    /// The minor Kubernetes version since which the level `restricted` has a stricter check instead of this
    /// baseline check.
    pub(super) replaced_since: Option<i64>,
}

impl PodSecurityCheck {
    const fn new(versions: &'static [(i64, CheckFn)]) -> Self {
        Self { versions, replaced_since: None }
    }

    const fn replaced_since(mut self, version: i64) -> Self {
        self.replaced_since = Some(version);
        self
    }

    /// Returns `None` if that version does not have the check.
    pub(super) fn at(&self, version: i64) -> Option<CheckFn> {
        self.versions.iter().rev().find(|(since, _)| *since <= version).map(|(_, check_fn)| *check_fn)
    }
}

/// The last minor Kubernetes version that changed a Pod Security check.
pub(super) const NEWEST: i64 = 35;

pub(super) const BASELINE: &[PodSecurityCheck] = &[
    PodSecurityCheck::new(&[(0, profiles::app_armor)]),
    PodSecurityCheck::new(&[(0, capabilities::added)]).replaced_since(22),
    PodSecurityCheck::new(&[(0, host::namespaces)]),
    PodSecurityCheck::new(&[(0, volumes::of_the_host)]).replaced_since(0),
    PodSecurityCheck::new(&[(0, host::ports)]),
    PodSecurityCheck::new(&[(34, host::probes)]),
    PodSecurityCheck::new(&[(0, privilege::privileged)]),
    PodSecurityCheck::new(&[(0, privilege::proc_mount), (35, privilege::proc_mount_unless_own_users)])
        .replaced_since(35),
    PodSecurityCheck::new(&[(0, kernel::se_linux), (31, kernel::se_linux_with_engines)]),
    PodSecurityCheck::new(&[(0, profiles::seccomp_annotations), (19, profiles::seccomp)]).replaced_since(19),
    PodSecurityCheck::new(&[
        (0, kernel::sysctls),
        (27, kernel::sysctls_of_27),
        (29, kernel::sysctls_of_29),
        (32, kernel::sysctls_of_32),
    ]),
    PodSecurityCheck::new(&[(0, privilege::host_process)]),
];

pub(super) const RESTRICTED: &[PodSecurityCheck] = &[
    PodSecurityCheck::new(&[(8, privilege::escalation), (25, privilege::escalation_unless_windows)]),
    PodSecurityCheck::new(&[(22, capabilities::dropped), (25, capabilities::dropped_unless_windows)]),
    PodSecurityCheck::new(&[(35, privilege::proc_mount)]),
    PodSecurityCheck::new(&[(0, volumes::restricted)]),
    PodSecurityCheck::new(&[(0, users::not_root), (35, users::not_root_unless_own_users)]),
    PodSecurityCheck::new(&[(23, users::run_as_user), (35, users::run_as_user_unless_own_users)]),
    PodSecurityCheck::new(&[(19, profiles::seccomp_set), (25, profiles::seccomp_set_unless_windows)]),
];
