use super::{Limits, SplitError};

/// The size of the length prefix of an event.
const HEAD: usize = 4;

/// The maximum capacity that the buffer keeps after a large event.
const MAX_KEPT_CAPACITY: usize = 1 << 20;

/// Splits a body into its length-prefixed events.
#[derive(Debug)]
pub(crate) struct Lengths {
    limit: usize,
    /// The beginning of an unfinished event, including its length.
    kept: Vec<u8>,
    kept_max: usize,
    /// True while `kept` holds an event that was already returned.
    spent: bool,
}

impl Lengths {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limit: limits.object_bytes, kept: Vec::new(), kept_max: 0, spent: false }
    }

    /// Returns the next event that ends in `frame[*at..]` and advances `at` past the consumed bytes; `None`
    /// if the frame is consumed.
    ///
    /// The buffer grows with the received bytes, not with the announced length.
    pub(crate) fn next<'a>(
        &'a mut self,
        frame: &'a [u8],
        at: &mut usize,
    ) -> Result<Option<&'a [u8]>, SplitError> {
        if std::mem::take(&mut self.spent) {
            self.kept.clear();
            self.kept.shrink_to(MAX_KEPT_CAPACITY);
        }
        if self.kept.is_empty() {
            let rest = &frame[*at..];
            if let Some(end) = self.end(rest)?.filter(|end| *end <= rest.len()) {
                *at += end;
                return Ok(Some(&rest[HEAD..end]));
            }
        }
        while *at < frame.len() {
            let wanted = self.end(&self.kept)?.unwrap_or(HEAD);
            let taken = (wanted - self.kept.len()).min(frame.len() - *at);
            self.kept.extend_from_slice(&frame[*at..*at + taken]);
            *at += taken;
            self.kept_max = self.kept_max.max(self.kept.len());
            if self.end(&self.kept)? == Some(self.kept.len()) {
                self.spent = true;
                return Ok(Some(&self.kept[HEAD..]));
            }
        }
        Ok(None)
    }

    /// Returns the end of the event at the beginning of `bytes`; `None` if its length is incomplete.
    fn end(&self, bytes: &[u8]) -> Result<Option<usize>, SplitError> {
        let Some(length) = informer_schema::frame_length(bytes) else { return Ok(None) };
        match usize::try_from(length) {
            Ok(length) if length <= self.limit => Ok(Some(HEAD + length)),
            _ => {
                let limit = self.limit as u64;
                Err(SplitError::Large { what: "an event", limit, name: "object_bytes" })
            }
        }
    }

    /// Returns true if the body may end here: between two events.
    pub(crate) fn may_end(&self) -> bool {
        self.kept.is_empty() || self.spent
    }

    pub(crate) fn max_buffered(&self) -> usize {
        self.kept_max
    }
}
