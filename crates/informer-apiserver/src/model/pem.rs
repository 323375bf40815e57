//! PEM blocks, as Go's encoding/pem finds them. The PEM parser of `rustls-pki-types` rejects a block with
//! headers, and does not skip a block that is not in base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

pub(crate) struct PemBlock<'a> {
    pub(crate) label: &'a str,
    pub(crate) has_headers: bool,
    pub(crate) der: Vec<u8>,
}

impl<'a> PemBlock<'a> {
    /// Returns `None` if the content is not in base64.
    fn read(label: &'a str, content: &[&str]) -> Option<Self> {
        let is_header = |line: &str| line.contains(':');
        let encoded: String = content.iter().copied().filter(|line| !is_header(line)).collect();
        let has_headers = content.iter().any(|line| is_header(line));
        Some(Self { label, has_headers, der: STANDARD.decode(encoded).ok()? })
    }
}

/// Returns the PEM blocks in a text. As in Go, blocks that are incomplete or not in base64 are left out.
pub(crate) fn pem_blocks(pem: &str) -> Vec<PemBlock<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<(&str, Vec<&str>)> = None;
    for line in pem.lines().map(str::trim_end) {
        if let Some(label) = boundary(line, "-----BEGIN ") {
            open = Some((label, Vec::new()));
        } else if let Some(label) = boundary(line, "-----END ") {
            let closed = open.take().filter(|(begin, _)| *begin == label);
            blocks.extend(closed.and_then(|(label, content)| PemBlock::read(label, &content)));
        } else if let Some((_, content)) = &mut open {
            content.push(line);
        }
    }
    blocks
}

/// Returns the label in the first or last line of a PEM block.
fn boundary<'a>(line: &'a str, prefix: &str) -> Option<&'a str> {
    line.strip_prefix(prefix)?.strip_suffix("-----")
}
