//! The project of an operator: `informer new` creates it, `informer add` extends it, and `informer manifests`
//! generates its manifests.

mod add;
mod builtin;
mod change;
mod edit;
mod files;
mod manifests;
mod names;
mod project;
mod templates;

pub(crate) use add::AddArguments;
pub(crate) use manifests::ManifestsArguments;
pub(crate) use project::NewArguments;

use crate::failure::Failure;

/// Runs `informer new`, which creates the project of an operator.
pub(crate) fn new(arguments: &NewArguments) -> Result<(), Failure> {
    project::run(arguments)
}

/// Runs `informer add`, which adds a kind, a controller, a version or webhooks to the operator project of the
/// current folder.
pub(crate) fn add(arguments: &AddArguments) -> Result<(), Failure> {
    add::run(arguments)
}

/// Runs `informer manifests`, which writes or checks the generated manifests of the operator project of the
/// current folder.
pub(crate) fn manifests(arguments: &ManifestsArguments) -> Result<(), Failure> {
    manifests::run(arguments)
}
