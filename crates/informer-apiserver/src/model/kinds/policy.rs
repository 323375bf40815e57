//! The kinds of the group `policy`.

pub(crate) mod pod_disruption_budget;
