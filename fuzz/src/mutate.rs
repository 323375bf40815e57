//! Mutates inputs.

use rand::rngs::StdRng;
use rand::{Rng, RngExt};

/// The maximum size of an input. Larger ones only take longer to find the same failures.
const MAX_INPUT_BYTES: usize = 4096;

/// The maximum number of changes per input. With only a few, most of a text stays well formed.
const MAX_CHANGES: usize = 4;

/// Bytes with a meaning in one of the formats.
const TELLING: &[u8] = b"\"\\{}[]:,0-.eEntf\n \x00\x1f\x7f\x80\xc3\xff";

/// Mutates an input, with pieces of `others` and with `words`.
pub fn mutate(input: &mut Vec<u8>, others: &[Vec<u8>], words: &[&str], rng: &mut StdRng) {
    for _ in 0..rng.random_range(1..=MAX_CHANGES) {
        change(input, others, words, rng);
    }
    input.truncate(MAX_INPUT_BYTES);
}

fn change(input: &mut Vec<u8>, others: &[Vec<u8>], words: &[&str], rng: &mut StdRng) {
    let at = rng.random_range(0..=input.len());
    match rng.random_range(0..9) {
        0 => flip(input, rng),
        1 => replace(input, TELLING[rng.random_range(0..TELLING.len())], rng),
        2 => input.insert(at, TELLING[rng.random_range(0..TELLING.len())]),
        3 => {
            let range = range(input.len(), rng);
            input.drain(range);
        }
        4 => {
            let piece = input[range(input.len(), rng)].to_vec();
            input.splice(at..at, piece);
        }
        5 if !words.is_empty() => {
            let word = words[rng.random_range(0..words.len())];
            input.splice(at..at, word.bytes());
        }
        6 if !others.is_empty() => {
            let other = &others[rng.random_range(0..others.len())];
            let piece = other[range(other.len(), rng)].to_vec();
            input.splice(at..at, piece);
        }
        7 => input.truncate(at),
        // The first bytes are the ends of frames.
        _ => replace_at(input, rng.random_range(0..9), rng.random()),
    }
}

fn flip(input: &mut [u8], rng: &mut StdRng) {
    if !input.is_empty() {
        let at = rng.random_range(0..input.len());
        input[at] ^= 1 << (rng.next_u32() % 8);
    }
}

fn replace(input: &mut [u8], byte: u8, rng: &mut StdRng) {
    if !input.is_empty() {
        let at = rng.random_range(0..input.len());
        input[at] = byte;
    }
}

fn replace_at(input: &mut [u8], at: usize, byte: u8) {
    if let Some(place) = input.get_mut(at) {
        *place = byte;
    }
}

/// Returns a range of at most 64 bytes, mostly short.
fn range(len: usize, rng: &mut StdRng) -> std::ops::Range<usize> {
    let start = rng.random_range(0..=len);
    let longest = 1 << rng.random_range(0..7);
    start..len.min(start + rng.random_range(0..=longest))
}
