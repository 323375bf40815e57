//! Cutting members out of an object's text before anything is decoded.
//!
//! `metadata.managedFields` is a third of the bytes of a typical object and half of the time to decode it, and no
//! controller reads it: the header scan finds its place in passing. Other paths are cut by a walk of their own, which is only
//! taken where they are asked for.

use std::ops::Range;

use informer_core::FieldPath;

use crate::scan::{Cursor, ScanError};

/// What is cut out of each object before it is kept.
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
    /// Cuts `metadata.managedFields` and nothing else.
    fn default() -> Self {
        Self { managed_fields: true, paths: Vec::new() }
    }
}

impl Pruning {
    /// Cuts nothing: objects are kept as the server sent them.
    pub fn nothing() -> Self {
        Self { managed_fields: false, paths: Vec::new() }
    }

    /// Also cuts the member at `path`, wherever it is there. Paths through lists cut nothing.
    pub fn cut(mut self, path: FieldPath) -> Self {
        self.paths.push(path);
        self
    }

    /// Returns true if `metadata.managedFields` is cut.
    pub fn cuts_managed_fields(&self) -> bool {
        self.managed_fields
    }

    /// Returns true if the header scan alone can do it.
    pub(crate) fn is_simple(&self) -> bool {
        self.paths.is_empty()
    }

    /// Returns the cuts in an object, by a walk along the paths.
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

/// Walks one object and the members on the way of `paths`. Recurses as deep as the longest path.
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
        match under.is_empty() {
            true => {
                cursor.skip()?;
            }
            false => cut_members(cursor, &under, cuts)?,
        }
        members.ended(cursor.at());
    }
    Ok(())
}

/// Ranges of a text to leave out, in order and apart from each other. Mostly it is one, which has a place of
/// its own: managed fields, with what stands beside them in the order of Go.
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

    /// Returns the text without the cuts, in an allocation of its own size.
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

/// The members of one object on their way through a cutter: takes care of the commas.
///
/// A member is cut with the comma before it; where none is kept before it, with the comma behind it.
#[derive(Debug)]
pub(crate) struct Members {
    kept: bool,
    /// Where the last member ended, or the object began.
    end: usize,
}

impl Members {
    /// Returns an object whose first member may follow at `at`.
    pub(crate) fn begin(at: usize) -> Self {
        Self { kept: false, end: at }
    }

    /// The member whose key is at `start` stays. [`ended`](Self::ended) must follow.
    pub(crate) fn keep(&mut self, cuts: &mut Cuts, start: usize) {
        if !self.kept
            && let Some(last) = cuts.last_mut()
            && last.end == self.end
        {
            last.end = start;
        }
        self.kept = true;
    }

    /// The member that was kept ended at `end`.
    pub(crate) fn ended(&mut self, end: usize) {
        self.end = end;
    }

    /// The member that ends at `end` goes.
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
