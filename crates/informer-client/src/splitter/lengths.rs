use super::{Limits, SplitError};

/// The length of an event, in front of it.
const HEAD: usize = 4;

/// What a buffer that one large event made may keep for the small ones after it.
const MAX_KEPT_CAPACITY: usize = 1 << 20;

/// Cuts a body into the events that follow one another in it, each behind its length.
#[derive(Debug)]
pub(crate) struct Lengths {
    limit: usize,
    /// The beginning of an unfinished event, with its length.
    kept: Vec<u8>,
    kept_max: usize,
    /// True while `kept` holds an event that was handed out.
    spent: bool,
}

impl Lengths {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limit: limits.object_bytes, kept: Vec::new(), kept_max: 0, spent: false }
    }

    /// Returns the next event that ends in `frame[*at..]`; moves `at` past what was used. `None` when the
    /// frame is used up.
    ///
    /// A length is a promise of the server's: what is buffered is what came, not what was promised.
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

    /// Where the event that begins `bytes` ends; `None` where its length is not there yet.
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

    /// Returns true if the body may end: between two events.
    pub(crate) fn may_end(&self) -> bool {
        self.kept.is_empty() || self.spent
    }

    /// Returns the most bytes that were ever buffered at once.
    pub(crate) fn max_buffered(&self) -> usize {
        self.kept_max
    }
}
