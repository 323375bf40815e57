//! Entity tags of generated documents.

/// Returns the FNV-1a hash of a document as hexadecimal digits. An entity tag need not be collision
/// resistant.
pub(crate) fn hash(document: &[u8]) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    format!("{:016X}", document.iter().fold(0xcbf2_9ce4_8422_2325, step))
}
