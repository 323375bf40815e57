//! Decodes the input of a target.

use bytes::Bytes;

/// The maximum number of frames: enough for one boundary within another, and few enough to leave bytes for
/// the body.
const MAX_FRAMES: usize = 8;

pub(crate) struct Body<'a> {
    pub(crate) whole: &'a [u8],
    /// The boundaries between the frames: positions in `whole`, ascending.
    borders: Vec<usize>,
}

impl<'a> Body<'a> {
    /// Reads the boundaries from the start of the input.
    pub(crate) fn read(input: &'a [u8]) -> Self {
        let Some((&count, rest)) = input.split_first() else {
            return Self { whole: input, borders: Vec::new() };
        };
        let count = (usize::from(count) % MAX_FRAMES).min(rest.len());
        let (choices, whole) = rest.split_at(count);
        let mut borders: Vec<usize> =
            choices.iter().map(|&choice| usize::from(choice) * whole.len() / 256).collect();
        borders.sort_unstable();
        Self { whole, borders }
    }

    /// Returns the body in its frames, some of which may be empty.
    pub(crate) fn frames(&self) -> Vec<Bytes> {
        let ends = self.borders.iter().copied().chain([self.whole.len()]);
        let mut start = 0;
        ends.map(|end| Bytes::copy_from_slice(&self.whole[std::mem::replace(&mut start, end)..end])).collect()
    }

    pub(crate) fn one_frame(&self) -> Vec<Bytes> {
        vec![Bytes::copy_from_slice(self.whole)]
    }
}
