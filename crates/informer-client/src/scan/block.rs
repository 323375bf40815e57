//! Finds quotes, backslashes and brackets of JSON in blocks of 64 bytes. The result is a mask with one bit
//! for each byte.

use wide::u8x16;

/// The number of bytes of one block, which is the number of bits of a mask.
pub(crate) const BLOCK: usize = 64;

/// Bit masks of the special characters in a block. The lowest bit stands for the first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Masks {
    pub(crate) quotes: u64,
    pub(crate) backslashes: u64,
    /// The bits of the opening brackets `{` and `[`.
    pub(crate) opens: u64,
    /// The bits of the closing brackets `}` and `]`.
    pub(crate) closes: u64,
    /// Distinguishes curly from square brackets: the bit of a curly bracket is set. The bits of bytes that
    /// are not brackets have no meaning.
    pub(crate) curly: u64,
}

#[inline]
pub(crate) fn masks(block: &[u8; BLOCK]) -> Masks {
    let bits = |lanes: u8x16, byte: u8| u64::from(lanes.simd_eq(u8x16::splat(byte)).to_bitmask());
    let mut found = Masks::default();
    for (index, lane) in block.as_chunks::<16>().0.iter().enumerate() {
        let (bytes, shift) = (u8x16::new(*lane), index * 16);
        // `{` and `[` differ only in bit 0x20, and so do `}` and `]`; with this bit set, one comparison finds
        // both.
        let fold = u8x16::splat(0x20);
        let folded = bytes | fold;
        found.quotes |= bits(bytes, b'"') << shift;
        found.backslashes |= bits(bytes, b'\\') << shift;
        found.opens |= bits(folded, b'{') << shift;
        found.closes |= bits(folded, b'}') << shift;
        found.curly |= bits(bytes & fold, 0x20) << shift;
    }
    found
}

/// Returns, for each bit, the parity of this bit and all lower bits. With a mask of quotes as input, the bits
/// inside strings are set.
pub(crate) fn parity(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}
