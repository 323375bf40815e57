//! Removes fields from the `metadata` of a protobuf object and restores them; all other bytes stay unchanged.

use super::METADATA;
use crate::error::Problem;
use crate::wire::{Raw, Reader};

/// Copies a protobuf object without those fields of its `metadata` whose numbers are in `unwanted`. Only the
/// result is allocated.
pub(super) fn without(object: &[u8], unwanted: &[u32]) -> Result<Vec<u8>, Problem> {
    let mut length = object.len();
    each_metadata(object, |whole, metadata| {
        if let Some(metadata) = metadata {
            length = length - whole.len() + block_length(kept_length(metadata, unwanted)?);
        }
        Ok(())
    })?;
    let mut out = Vec::with_capacity(length);
    each_metadata(object, |whole, metadata| match metadata {
        None => {
            out.extend_from_slice(whole);
            Ok(())
        }
        Some(metadata) => {
            push_head(&mut out, kept_length(metadata, unwanted)?);
            each_field(metadata, |number, whole, _| {
                if !unwanted.contains(&number) {
                    out.extend_from_slice(whole);
                }
                Ok(())
            })
        }
    })?;
    Ok(out)
}

fn kept_length(metadata: &[u8], unwanted: &[u32]) -> Result<usize, Problem> {
    let mut kept = 0;
    each_field(metadata, |number, whole, _| {
        kept += if unwanted.contains(&number) { 0 } else { whole.len() };
        Ok(())
    })?;
    Ok(kept)
}

/// The byte range that all occurrences of one field have in a message.
#[derive(Clone, Copy)]
enum Run {
    /// The field does not occur.
    Not,
    /// All occurrences are contiguous, from the first to the second offset.
    Piece(usize, usize),
    /// Other fields are between the occurrences.
    Scattered,
}

impl Run {
    fn with(self, start: usize, end: usize) -> Self {
        match self {
            Self::Not => Self::Piece(start, end),
            Self::Piece(begin, until) if until == start => Self::Piece(begin, end),
            Self::Piece(..) | Self::Scattered => Self::Scattered,
        }
    }
}

/// Returns, for each field number of `wanted`, the bytes of all `metadata` fields with this number. An
/// element is `None` if `metadata` has no such field, or if these fields are not contiguous. All elements are
/// `None` if the object has more than one `metadata` field.
pub(super) fn runs<const N: usize>(object: &[u8], wanted: [u32; N]) -> Result<[Option<&[u8]>; N], Problem> {
    let mut found: Option<&[u8]> = None;
    let mut several = false;
    each_metadata(object, |_, metadata| {
        if let Some(metadata) = metadata {
            several |= found.replace(metadata).is_some();
        }
        Ok(())
    })?;
    let Some(metadata) = found.filter(|_| !several) else { return Ok([None; N]) };
    let (mut runs, mut at) = ([Run::Not; N], 0);
    each_field(metadata, |number, whole, _| {
        if let Some(place) = wanted.iter().position(|wanted| *wanted == number) {
            runs[place] = runs[place].with(at, at + whole.len());
        }
        at += whole.len();
        Ok(())
    })?;
    Ok(runs.map(|run| match run {
        Run::Piece(start, end) => Some(&metadata[start..end]),
        Run::Not | Run::Scattered => None,
    }))
}

/// Returns a protobuf object whose only field is `metadata`, with `fields` as the encoded content.
pub(super) fn object(fields: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(block_length(fields.len()));
    push_head(&mut out, fields.len());
    out.extend_from_slice(fields);
    out
}

/// Restores metadata fields that [`without`] removed from `object`: appends the metadata fields of all
/// `others` to the metadata of `object`.
pub(super) fn join<'a>(
    object: &[u8],
    others: impl Iterator<Item = &'a [u8]> + Clone,
) -> Result<Vec<u8>, Problem> {
    let each_other = |mut fields: &mut dyn FnMut(&[u8])| {
        for other in others.clone() {
            each_metadata(other, |_, metadata| {
                metadata.map(&mut fields);
                Ok(())
            })?;
        }
        Ok::<(), Problem>(())
    };
    let mut added = 0;
    each_other(&mut |fields| added += fields.len())?;
    let mut out = Vec::with_capacity(object.len() + added + head_length(added));
    let mut is_joined = false;
    each_metadata(object, |whole, metadata| {
        let Some(metadata) = metadata.filter(|_| !std::mem::replace(&mut is_joined, true)) else {
            out.extend_from_slice(whole);
            return Ok(());
        };
        push_head(&mut out, metadata.len() + added);
        out.extend_from_slice(metadata);
        each_other(&mut |fields| out.extend_from_slice(fields))
    })?;
    if !is_joined {
        push_head(&mut out, added);
        each_other(&mut |fields| out.extend_from_slice(fields))?;
    }
    Ok(out)
}

/// Calls `part` for each field of an object, with the complete bytes of the field and, for `metadata`, its
/// content.
fn each_metadata<'a>(
    object: &'a [u8],
    mut part: impl FnMut(&'a [u8], Option<&'a [u8]>) -> Result<(), Problem>,
) -> Result<(), Problem> {
    each_field(object, |number, whole, raw| match number {
        METADATA => part(whole, Some(raw.bytes()?)),
        _ => part(whole, None),
    })
}

/// Calls `field` for each field of a message, with its number, its complete bytes and its value.
fn each_field<'a>(
    message: &'a [u8],
    mut field: impl FnMut(u32, &'a [u8], Raw<'a>) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let mut reader = Reader::new(message);
    let mut start = 0;
    while let Some((number, raw)) = reader.next()? {
        field(number, &message[start..reader.position()], raw)?;
        start = reader.position();
    }
    Ok(())
}

/// Returns the size of a length-delimited field with this content length, including its tag and length.
fn block_length(length: usize) -> usize {
    head_length(length) + length
}

fn head_length(length: usize) -> usize {
    1 + (usize::BITS - (length | 1).leading_zeros()).div_ceil(7) as usize
}

fn push_head(out: &mut Vec<u8>, mut length: usize) {
    out.push((METADATA << 3 | 2) as u8);
    while length > 0x7f {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}
