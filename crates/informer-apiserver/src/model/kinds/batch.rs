//! The kinds of the group `batch`.

pub(crate) mod cron_job;
pub(crate) mod job;
