use super::{Limits, SplitError};

/// The number of bytes of the length prefix of a protobuf watch event.
const HEAD: usize = 4;

/// The maximum capacity, in bytes, that the buffer of unfinished events keeps after a large event.
const MAX_KEPT_CAPACITY: usize = 1 << 20;

/// Splits the body of a protobuf watch into its length-prefixed events.
#[derive(Debug)]
pub(crate) struct Lengths {
    limit: usize,
    /// The received beginning of an unfinished event, including its length prefix.
    kept: Vec<u8>,
    kept_max: usize,
    /// True if `kept` holds an event that was already returned, so that `kept` must be cleared before it is
    /// used again.
    spent: bool,
}

impl Lengths {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limit: limits.object_bytes, kept: Vec::new(), kept_max: 0, spent: false }
    }

    /// Returns the next event whose last byte is in `frame[*at..]`, and advances `at` past the consumed
    /// bytes. Returns `None` once the frame is consumed.
    ///
    /// The buffer grows with the received bytes of an event, and not with the announced length, which may be
    /// wrong.
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

    /// Returns the offset at which the event at the beginning of `bytes` ends; `None` if its length prefix is
    /// incomplete.
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

    /// Returns true if the body may end after the bytes consumed so far: no event is incomplete.
    pub(crate) fn may_end(&self) -> bool {
        self.kept.is_empty() || self.spent
    }

    pub(crate) fn max_buffered(&self) -> usize {
        self.kept_max
    }
}
