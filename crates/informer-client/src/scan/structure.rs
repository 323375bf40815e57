use super::block::{BLOCK, masks, parity};

/// Finds where an object or array ends, at whatever borders its bytes arrive.
///
/// The first byte it is given must be the opening bracket. Kinds of brackets are checked, so that `{]` is an
/// error and not the end of something.
#[derive(Debug)]
pub(crate) struct Structure {
    depth_max: usize,
    depth: usize,
    /// One bit for each open bracket, set for `{`; the first bracket in the first bit. The first 64 have a
    /// place of their own, so that usual values allocate nothing.
    outer_kinds: u64,
    kinds: Vec<u64>,
    /// All ones inside a string.
    in_string: u64,
    /// The next byte is escaped.
    escaped: bool,
    /// How many bytes of the value were read before the present slice.
    before: usize,
    /// Where the outer containers of the value stand.
    spans: Spans,
}

/// Where the objects and arrays of the outer levels of a value begin and end, so that a second look at the
/// value jumps over them.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    /// Down to which level containers are recorded; 0 for none. The value itself is level 0 and not recorded.
    levels: usize,
    found: Vec<Span>,
    /// The entry of the container that is open on each level.
    open: [usize; MAX_SPAN_LEVELS + 1],
}

/// The most levels that can be recorded: an event, its object, the object's members.
const MAX_SPAN_LEVELS: usize = 3;

/// How many containers are recorded: a value of a million empty arrays must not cost more than itself. What
/// is not recorded is scanned again.
const MAX_SPANS: usize = 1024;

/// A container, from its opening bracket to behind its closing one.
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
        let (kinds, spans) = (Vec::new(), Spans::default());
        Self { depth_max, depth: 0, outer_kinds: 0, kinds, in_string: 0, escaped: false, before: 0, spans }
    }

    /// Also records where the containers of the outer levels stand.
    pub(crate) fn recording(mut self, levels: usize) -> Self {
        self.spans.levels = levels.min(MAX_SPAN_LEVELS);
        self
    }

    /// Returns the containers that were recorded in the value that ended last, by where they begin.
    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans.found
    }

    /// Forgets what was open, for the next value.
    pub(crate) fn reset(&mut self) {
        (self.depth, self.in_string, self.escaped, self.before) = (0, 0, false, 0);
        self.spans.found.clear();
    }

    /// Reads on. Answers how many of `bytes` belong to the value, if it ends among them.
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

    /// One block, which begins at `start` of the slice and of which the first `length` bytes are real.
    /// Answers where the value ends in it.
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

    /// Passes the brackets of a block deep inside a value, where nothing is recorded and nothing ends,
    /// without a branch for each; which bracket comes next cannot be foretold. False, and nothing is passed,
    /// where there is anything else to do.
    fn passes(&mut self, opens: u64, closes: u64, curly: u64) -> bool {
        let (mut kinds, mut depth, mut wrong) = (self.outer_kinds, self.depth, 0);
        let (mut least, mut most) = (depth, depth);
        // Two of a kind side by side hold nothing.
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
        // One less than the first word of kinds has place for: an empty pair needs one more.
        let fits = wrong == 0 && least > self.spans.levels && most < self.depth_max.min(64);
        if fits {
            (self.outer_kinds, self.depth) = (kinds, depth);
        }
        fits
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

    /// False where the bracket does not match the one that is open.
    fn close(&mut self, brace: bool) -> bool {
        let Some(depth) = self.depth.checked_sub(1) else { return false };
        self.depth = depth;
        let word = (depth / 64).checked_sub(1).map_or(self.outer_kinds, |word| self.kinds[word]);
        word >> (depth % 64) & 1 == u64::from(brace)
    }
}
