//! Removes members from the JSON text of an object before it is decoded.
//!
//! `metadata.managedFields` makes up a third of the bytes of a typical object and half of its decoding time,
//! and controllers do not read it. The scan that reads the header of an object also finds the range of the
//! managed fields. Removing any other field needs a separate scan, which runs only if paths of such fields
//! are configured.

use std::ops::Range;

use informer_core::FieldPath;

use crate::scan::{Cursor, ScanError};

/// The fields that are removed from each object before it is cached.
///
/// ```
/// use informer_client::Pruning;
///
/// let pruning = Pruning::default().cut("status.images".parse()?);
/// assert!(pruning.cuts_managed_fields());
/// # Ok::<(), informer_core::ParseFieldPathError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pruning {
    managed_fields: bool,
    paths: Vec<FieldPath>,
}

impl Default for Pruning {
    /// Returns a pruning that removes `metadata.managedFields` and nothing else.
    fn default() -> Self {
        Self { managed_fields: true, paths: Vec::new() }
    }
}

impl Pruning {
    /// Returns a pruning that removes nothing, so that objects are kept as the server sent them.
    pub fn nothing() -> Self {
        Self { managed_fields: false, paths: Vec::new() }
    }

    /// Makes this pruning also remove the member at `path` of each object, if it exists. A path that leads
    /// through a list has no effect.
    pub fn cut(mut self, path: FieldPath) -> Self {
        self.paths.push(path);
        self
    }

    /// Returns true if this pruning removes `metadata.managedFields`.
    pub fn cuts_managed_fields(&self) -> bool {
        self.managed_fields
    }

    /// Returns true if this pruning removes nothing, or only `metadata.managedFields`. The header scan then
    /// finds everything to remove, and no second scan is needed.
    pub(crate) fn is_simple(&self) -> bool {
        self.paths.is_empty()
    }

    pub(crate) fn cuts(&self, text: &str) -> Result<Cuts, ScanError> {
        let mut paths: Vec<Vec<&str>> = self.paths.iter().map(|path| path.segments().collect()).collect();
        if self.managed_fields {
            paths.push(vec!["metadata", "managedFields"]);
        }
        let rests: Vec<&[&str]> = paths.iter().map(Vec::as_slice).collect();
        let (mut cuts, mut cursor) = (Cuts::default(), Cursor::new(text));
        cut_members(&mut cursor, &rests, &mut cuts)?;
        Ok(cuts)
    }
}

/// Scans one object and those of its members that `paths` lead through, and records the members to remove.
/// The recursion depth is at most the length of the longest path.
fn cut_members(cursor: &mut Cursor<'_>, paths: &[&[&str]], cuts: &mut Cuts) -> Result<(), ScanError> {
    if cursor.peek() != Some(b'{') {
        cursor.skip()?;
        return Ok(());
    }
    cursor.object()?;
    let (mut members, mut first) = (Members::begin(cursor.at()), true);
    while let Some(key) = cursor.member(&mut first)? {
        let under: Vec<&[&str]> = paths
            .iter()
            .filter_map(|path| path.split_first().filter(|(name, _)| key.is(name)).map(|(_, rest)| rest))
            .collect();
        if under.iter().any(|rest| rest.is_empty()) {
            let value = cursor.skip()?;
            members.cut(cuts, value.end);
            continue;
        }
        members.keep(cuts, key.start());
        if under.is_empty() {
            cursor.skip()?;
        } else {
            cut_members(cursor, &under, cuts)?;
        }
        members.ended(cursor.at());
    }
    Ok(())
}

/// The byte ranges to remove from a JSON text, ordered and disjoint. Usually there is only one range, for
/// `managedFields` and the members next to it in Go's field order; a single range is stored without an
/// allocation.
#[derive(Debug, Default)]
pub(crate) struct Cuts {
    first: Option<Range<usize>>,
    more: Vec<Range<usize>>,
}

impl Cuts {
    fn ranges(&self) -> impl Iterator<Item = &Range<usize>> {
        self.first.iter().chain(&self.more)
    }

    fn last_mut(&mut self) -> Option<&mut Range<usize>> {
        match self.more.last_mut() {
            Some(last) => Some(last),
            None => self.first.as_mut(),
        }
    }

    fn push(&mut self, range: Range<usize>) {
        match self.first {
            None => self.first = Some(range),
            Some(_) => self.more.push(range),
        }
    }

    /// Returns `text` without the ranges, in an allocation of exactly the needed size.
    pub(crate) fn apply(&self, text: &str) -> Box<str> {
        let cut: usize = self.ranges().map(Range::len).sum();
        let mut kept = String::with_capacity(text.len() - cut);
        let mut at = 0;
        for range in self.ranges() {
            kept.push_str(&text[at..range.start]);
            at = range.end;
        }
        kept.push_str(&text[at..]);
        kept.into_boxed_str()
    }
}

/// Collects the byte ranges of the members to remove from one JSON object, including commas.
///
/// A member is removed with the comma before it. If no member before it is kept, it is removed with the comma
/// after it.
#[derive(Debug)]
pub(crate) struct Members {
    kept: bool,
    /// The offset at which the last scanned member ends, or at which the opening brace ends.
    end: usize,
}

impl Members {
    /// Begins the collection of ranges for one object. `at` is the offset after the opening brace of the
    /// object.
    pub(crate) fn begin(at: usize) -> Self {
        Self { kept: false, end: at }
    }

    /// Records that the member whose key is at the offset `start` is not removed. The caller must call
    /// [`ended`](Self::ended) next.
    pub(crate) fn keep(&mut self, cuts: &mut Cuts, start: usize) {
        if !self.kept
            && let Some(last) = cuts.last_mut()
            && last.end == self.end
        {
            last.end = start;
        }
        self.kept = true;
    }

    pub(crate) fn ended(&mut self, end: usize) {
        self.end = end;
    }

    pub(crate) fn cut(&mut self, cuts: &mut Cuts, end: usize) {
        match cuts.last_mut() {
            Some(last) if last.end == self.end => last.end = end,
            _ => cuts.push(self.end..end),
        }
        self.end = end;
    }
}

#[cfg(test)]
mod tests;
