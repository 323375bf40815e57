//! How a target reads its bytes.

use bytes::Bytes;

/// Frames of one body: enough for a border inside a border, few enough to leave bytes for the body.
const FRAMES_MAX: usize = 8;

/// A body and the frames in which it comes.
pub(crate) struct Body<'a> {
    pub(crate) whole: &'a [u8],
    /// Positions in `whole`, ascending.
    borders: Vec<usize>,
}

impl<'a> Body<'a> {
    /// Reads the borders from the beginning of the input.
    pub(crate) fn read(input: &'a [u8]) -> Self {
        let Some((&count, rest)) = input.split_first() else {
            return Self { whole: input, borders: Vec::new() };
        };
        let count = (usize::from(count) % FRAMES_MAX).min(rest.len());
        let (choices, whole) = rest.split_at(count);
        let mut borders: Vec<usize> =
            choices.iter().map(|&choice| usize::from(choice) * whole.len() / 256).collect();
        borders.sort_unstable();
        Self { whole, borders }
    }

    /// The body in its frames. Some may be empty.
    pub(crate) fn frames(&self) -> Vec<Bytes> {
        let ends = self.borders.iter().copied().chain([self.whole.len()]);
        let mut start = 0;
        ends.map(|end| Bytes::copy_from_slice(&self.whole[std::mem::replace(&mut start, end)..end])).collect()
    }

    /// The body in one frame.
    pub(crate) fn one_frame(&self) -> Vec<Bytes> {
        vec![Bytes::copy_from_slice(self.whole)]
    }
}
