use super::block::{BLOCK, masks, parity};

/// Finds where an object or array ends, at whatever borders its bytes arrive.
///
/// The first byte it is given must be the opening bracket. Kinds of brackets are checked, so that `{]` is an error and
/// not the end of something.
#[derive(Debug)]
pub(crate) struct Structure {
    depth_max: usize,
    depth: usize,
    /// One bit for each open bracket, set for `{`; the first bracket in the first bit.
    kinds: Vec<u64>,
    /// All ones inside a string.
    in_string: u64,
    /// The next byte is escaped.
    escaped: bool,
}

/// Why the brackets of a value cannot be matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StructureError {
    /// More brackets are open than allowed.
    Deep,
    /// A closing bracket of the wrong kind, this many bytes into the slice.
    Mismatch(usize),
}

impl Structure {
    pub(crate) fn new(depth_max: usize) -> Self {
        Self { depth_max, depth: 0, kinds: Vec::new(), in_string: 0, escaped: false }
    }

    /// Forgets what was open, for the next value.
    pub(crate) fn reset(&mut self) {
        (self.depth, self.in_string, self.escaped) = (0, 0, false);
    }

    /// Reads on. Answers how many of `bytes` belong to the value, if it ends among them.
    pub(crate) fn find_end(&mut self, bytes: &[u8]) -> Result<Option<usize>, StructureError> {
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        for (index, block) in blocks.iter().enumerate() {
            if let Some(end) = self.block(block, BLOCK).map_err(|error| error.at(index * BLOCK))? {
                return Ok(Some(index * BLOCK + end));
            }
        }
        if rest.is_empty() {
            return Ok(None);
        }
        let mut last = [b' '; BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        let start = blocks.len() * BLOCK;
        let end = self.block(&last, rest.len()).map_err(|error| error.at(start))?;
        Ok(end.map(|end| start + end))
    }

    /// One block, of which the first `length` bytes are real. Answers where the value ends in it.
    fn block(&mut self, block: &[u8; BLOCK], length: usize) -> Result<Option<usize>, StructureError> {
        let found = masks(block);
        let escaped = self.escapes(found.backslashes, length);
        let strings = parity(found.quotes & !escaped) ^ self.in_string;
        self.in_string = if strings >> (BLOCK - 1) == 1 { !0 } else { 0 };
        let (opens, closes) = (found.opens & !strings, found.closes & !strings);
        let mut brackets = opens | closes;
        while brackets != 0 {
            let at = brackets.trailing_zeros() as usize;
            // Braces are 0x7b and 0x7d, brackets 0x5b and 0x5d.
            let brace = block[at] & 0x20 != 0;
            if opens >> at & 1 == 1 {
                self.open(brace)?;
            } else if !self.close(brace) {
                return Err(StructureError::Mismatch(at));
            } else if self.depth == 0 {
                return Ok(Some(at + 1));
            }
            brackets &= brackets - 1;
        }
        Ok(None)
    }

    /// Which bytes of a block are escaped by a backslash before them.
    fn escapes(&mut self, mut backslashes: u64, length: usize) -> u64 {
        let mut escaped = u64::from(self.escaped);
        self.escaped = false;
        backslashes &= !escaped;
        while backslashes != 0 {
            let at = backslashes.trailing_zeros() as usize;
            if at + 1 == length {
                self.escaped = true;
                break;
            }
            let next = 1 << (at + 1);
            escaped |= next;
            backslashes &= !(next | (1 << at));
        }
        escaped
    }

    fn open(&mut self, brace: bool) -> Result<(), StructureError> {
        if self.depth == self.depth_max {
            return Err(StructureError::Deep);
        }
        let (word, bit) = (self.depth / 64, self.depth % 64);
        if word == self.kinds.len() {
            self.kinds.push(0);
        }
        self.kinds[word] = self.kinds[word] & !(1 << bit) | u64::from(brace) << bit;
        self.depth += 1;
        Ok(())
    }

    /// False where the bracket does not match the one that is open.
    fn close(&mut self, brace: bool) -> bool {
        let Some(depth) = self.depth.checked_sub(1) else { return false };
        self.depth = depth;
        self.kinds[depth / 64] >> (depth % 64) & 1 == u64::from(brace)
    }
}

impl StructureError {
    fn at(self, start: usize) -> Self {
        match self {
            Self::Mismatch(at) => Self::Mismatch(start + at),
            Self::Deep => Self::Deep,
        }
    }
}
