use super::block::{BLOCK, masks, parity};

/// Finds the end of a JSON object or array that arrives in arbitrary slices.
///
/// The first byte must be the opening bracket. Opening and closing brackets must match, so that `{]` is an
/// error.
#[derive(Debug)]
pub(crate) struct Structure {
    depth_max: usize,
    depth: usize,
    /// The kinds of the outer 64 open brackets, one bit for each, set for `{`; the outermost bracket is the
    /// lowest bit. They are stored inline, so that usual values need no allocation.
    outer_kinds: u64,
    kinds: Vec<u64>,
    /// All bits are set if the end of the current slice is inside a string; 0 otherwise.
    in_string: u64,
    /// True if the first byte of the next slice is escaped by a backslash.
    escaped: bool,
    /// The number of bytes of the value in earlier slices.
    before: usize,
    spans: Spans,
}

/// The offsets of the objects and arrays in the outer levels of a JSON value, so that a second scan of the
/// value can skip them.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    /// The deepest level whose objects and arrays are recorded; 0 to record none. The value itself is level 0
    /// and is not recorded.
    levels: usize,
    found: Vec<Span>,
    /// The index in `found` of the object or array that is open at each level.
    open: [usize; MAX_SPAN_LEVELS + 1],
}

/// The maximum number of levels whose containers can be recorded. A watch event needs three: the event's
/// members, the object's members and their members.
const MAX_SPAN_LEVELS: usize = 3;

/// The maximum number of recorded containers of one value. Without this limit, recording a value of a million
/// empty arrays would take more memory than the value. Containers that are not recorded are scanned again.
const MAX_SPANS: usize = 1024;

/// The byte range of an object or array, from its opening bracket to the byte after its closing bracket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Spans {
    fn open(&mut self, level: usize, start: usize) {
        if level == 0 || level > self.levels {
            return;
        }
        self.open[level] = self.found.len();
        if self.found.len() < MAX_SPANS {
            self.found.push(Span { start, end: start });
        }
    }

    fn close(&mut self, level: usize, end: usize) {
        if level == 0 || level > self.levels {
            return;
        }
        if let Some(span) = self.found.get_mut(self.open[level]) {
            span.end = end;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StructureError {
    /// The value is nested more deeply than the configured limit.
    Deep,
    /// A closing bracket does not match the open bracket. Contains the bracket's offset in the slice.
    Mismatch(usize),
}

impl Structure {
    pub(crate) fn new(depth_max: usize) -> Self {
        let (kinds, spans) = (Vec::new(), Spans::default());
        Self { depth_max, depth: 0, outer_kinds: 0, kinds, in_string: 0, escaped: false, before: 0, spans }
    }

    /// Returns a scanner that also records the objects and arrays of the outer `levels` levels.
    pub(crate) fn recording(mut self, levels: usize) -> Self {
        self.spans.levels = levels.min(MAX_SPAN_LEVELS);
        self
    }

    /// Returns the recorded objects and arrays of the last value, ordered by their start.
    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans.found
    }

    pub(crate) fn reset(&mut self) {
        (self.depth, self.in_string, self.escaped, self.before) = (0, 0, false, 0);
        self.spans.found.clear();
    }

    /// Continues the scan with the next slice of the value. Returns the number of bytes that belong to the
    /// value, if the value ends in this slice.
    pub(crate) fn find_end(&mut self, bytes: &[u8]) -> Result<Option<usize>, StructureError> {
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        for (index, block) in blocks.iter().enumerate() {
            if let Some(end) = self.block(block, BLOCK, index * BLOCK)? {
                return Ok(Some(index * BLOCK + end));
            }
        }
        if rest.is_empty() {
            self.before += bytes.len();
            return Ok(None);
        }
        let mut last = [b' '; BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        let start = blocks.len() * BLOCK;
        let end = self.block(&last, rest.len(), start)?;
        self.before += bytes.len();
        Ok(end.map(|end| start + end))
    }

    /// Scans one block of 64 bytes, which begins at the offset `start` of the slice. Only the first `length`
    /// bytes belong to the slice; the rest is padding. Returns the offset in the block at which the value
    /// ends.
    fn block(
        &mut self,
        block: &[u8; BLOCK],
        length: usize,
        start: usize,
    ) -> Result<Option<usize>, StructureError> {
        let found = masks(block);
        let escaped = self.escapes(found.backslashes, length);
        let strings = parity(found.quotes & !escaped) ^ self.in_string;
        self.in_string = if strings >> (BLOCK - 1) == 1 { !0 } else { 0 };
        let (opens, closes) = (found.opens & !strings, found.closes & !strings);
        if self.depth > self.spans.levels && self.passes(opens, closes, found.curly) {
            return Ok(None);
        }
        let mut brackets = opens | closes;
        while brackets != 0 {
            let at = brackets.trailing_zeros() as usize;
            let brace = found.curly >> at & 1 == 1;
            let place = self.before + start + at;
            if opens >> at & 1 == 1 {
                self.spans.open(self.depth, place);
                self.open(brace)?;
            } else if !self.close(brace) {
                return Err(StructureError::Mismatch(start + at));
            } else if self.depth == 0 {
                return Ok(Some(at + 1));
            } else {
                self.spans.close(self.depth, place + 1);
            }
            brackets &= brackets - 1;
        }
        Ok(None)
    }

    /// Processes the brackets of a block that is deep inside a value: no object or array of the block is
    /// recorded, and the value does not end in the block. There is no branch for each bracket, because such
    /// branches are mispredicted. Returns false and changes nothing if the block must be processed by the
    /// slow path instead.
    fn passes(&mut self, opens: u64, closes: u64, curly: u64) -> bool {
        let (mut kinds, mut depth, mut wrong) = (self.outer_kinds, self.depth, 0);
        let (mut least, mut most) = (depth, depth);
        // An opening bracket and an adjacent closing bracket of the same kind are an empty container, which
        // leaves the depth unchanged.
        let pairs = opens & (closes >> 1) & !(curly ^ (curly >> 1));
        let mut brackets = (opens | closes) & !(pairs | pairs << 1);
        while brackets != 0 {
            let at = brackets.trailing_zeros();
            let open = opens >> at & 1;
            let close = open ^ 1;
            let place = depth.wrapping_sub(close as usize) & 63;
            let differs = (kinds >> place ^ curly >> at) & 1;
            kinds ^= (differs & open) << place;
            wrong |= differs & close;
            depth = depth.wrapping_add(open as usize).wrapping_sub(close as usize);
            (least, most) = (least.min(depth), most.max(depth));
            brackets &= brackets - 1;
        }
        // The loop skips the brackets of empty containers, which are one level deeper than the containers
        // around them. The depth must therefore be at most 63, one less than the number of bits of
        // `outer_kinds`.
        let fits = wrong == 0 && least > self.spans.levels && most < self.depth_max.min(64);
        if fits {
            (self.outer_kinds, self.depth) = (kinds, depth);
        }
        fits
    }

    /// Returns a mask of the bytes in a block that are escaped by a preceding backslash.
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
        let bit = self.depth % 64;
        let word = match (self.depth / 64).checked_sub(1) {
            None => &mut self.outer_kinds,
            Some(word) => {
                if word == self.kinds.len() {
                    self.kinds.push(0);
                }
                &mut self.kinds[word]
            }
        };
        *word = *word & !(1 << bit) | u64::from(brace) << bit;
        self.depth += 1;
        Ok(())
    }

    /// Closes the innermost open bracket. Returns false if the closing bracket does not match it.
    fn close(&mut self, brace: bool) -> bool {
        let Some(depth) = self.depth.checked_sub(1) else { return false };
        self.depth = depth;
        let word = (depth / 64).checked_sub(1).map_or(self.outer_kinds, |word| self.kinds[word]);
        word >> (depth % 64) & 1 == u64::from(brace)
    }
}
