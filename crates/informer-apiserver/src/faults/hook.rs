use std::fmt::Debug;

use super::FaultAction;
use crate::requests::RequestRecord;

/// Observes all requests of a server, and chooses the faults to inject; see
/// [`Faults::set_hook`](super::Faults::set_hook).
///
/// The methods run on the task of the request, so they must not block. They may call the methods of
/// [`Faults`](super::Faults).
pub trait RequestHook: Debug + Send + Sync {
    /// Returns the faults of a request, before it is authorized and executed.
    ///
    /// [`RequestRecord::number`] is 0 for a request whose authentication fails.
    fn request(&self, request: &RequestRecord) -> Vec<FaultAction>;

    /// Handles the end of a request, or the start of a watch. `status` is the HTTP status of the response.
    /// It is called before the response is sent, also if the response is then lost because of a fault. It is
    /// not called if the client disconnects earlier.
    fn response(&self, request: &RequestRecord, status: u16) {
        let _ = (request, status);
    }
}
