//! Compression of the objects of one source, with a dictionary that is trained on them.
//!
//! # Invariants
//!
//! 1. A dictionary is immutable: each object holds the dictionary with which it was compressed.
//! 2. A dictionary is never trained on Secrets, because the dictionary contains parts of its samples, which
//!    would stay in memory after the Secrets are deleted.
//!
//! # Lock order
//!
//! `training`, `writers` and `readers` are never locked together. Nothing is compressed under a lock. A
//! dictionary is trained under `training`, and other tasks that decode objects of the list wait for it:
//! otherwise they would compress without a dictionary.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use zstd::zstd_safe::{CCtx, CDict, DCtx, DDict, compress_bound};

use super::body::{BodyFormat, Encoded};
use super::is_secret;
use crate::ResourceKind;

/// The zstd compression level. Higher levels make objects, which are short, at most some percent smaller.
const LEVEL: i32 = 3;

/// The number of objects on which a dictionary is trained. Training on twice as many objects improves the
/// compression by only one percent.
const SAMPLES: usize = 400;

/// The maximum total size of the objects on which a dictionary is trained. Training time grows with this
/// size, and the best size of a dictionary is a hundredth of this size.
const MAX_SAMPLE_BYTES: usize = 4 << 20;

/// The maximum size of a dictionary. Larger dictionaries save less memory than they take.
const DICTIONARY_BYTES: usize = 64 << 10;

/// The number of compressed objects after which the compression ratio is measured again.
const WINDOW: usize = 1000;

/// The compression ratio, in percent of the ratio after training, above which another dictionary is trained.
const DRIFT_PERCENT: u64 = 150;

/// The maximum number of dictionaries that are trained for one source. A dictionary stays in memory as long
/// as objects use it, so the number must be limited for sources whose objects change constantly.
const MAX_GENERATIONS: u32 = 8;

/// The maximum number of idle zstd contexts that are kept for reuse. A context takes about 200 KB, and more
/// threads than this seldom decode at the same time.
const MAX_CONTEXTS: usize = 4;

#[derive(Default)]
pub(crate) struct Packing {
    training: Mutex<Training>,
    writers: Mutex<Vec<CCtx<'static>>>,
    readers: Mutex<Vec<DCtx<'static>>>,
}

pub(crate) struct Dictionary {
    writer: CDict<'static>,
    reader: DDict<'static>,
}

#[derive(Default)]
struct Training {
    dictionary: Option<Arc<Dictionary>>,
    samples: Vec<u8>,
    lengths: Vec<usize>,
    generations: u32,
    window: Window,
    /// The compression ratio that the current dictionary reached for the first [`WINDOW`] objects after its
    /// training, in compressed bytes per thousand bytes.
    reached: Option<u64>,
}

/// Measures the compression ratio of the last objects, up to [`WINDOW`] objects.
#[derive(Default)]
struct Window {
    objects: usize,
    bytes: u64,
    packed: u64,
}

#[derive(Clone)]
pub(crate) struct PackedBytes {
    bytes: Box<[u8]>,
    length: u32,
    format: BodyFormat,
    dictionary: Option<Arc<Dictionary>>,
}

/// The error for bytes that could not be compressed or decompressed. The possible reasons are a lack of
/// memory and an object of 4 GiB or more.
#[derive(Debug, thiserror::Error)]
#[error("zstd failed to {0}")]
pub(crate) struct PackError(&'static str);

impl Packing {
    /// Compresses the bytes of an object with the current dictionary. Objects that are packed before a
    /// dictionary is trained, and Secrets, are compressed without one and therefore take more memory.
    pub(crate) fn pack(&self, kind: &ResourceKind, own: Encoded<'_>) -> Result<PackedBytes, PackError> {
        let (bytes, format) = (own.bytes(), own.format());
        let length =
            u32::try_from(bytes.len()).map_err(|_| PackError("compress an object of 4 GiB or more"))?;
        let dictionary = if is_secret(kind) { None } else { self.training.lock().dictionary(bytes) };
        let mut context = self.writers.lock().pop().unwrap_or_default();
        let mut out = Vec::with_capacity(compress_bound(bytes.len()));
        let written = match &dictionary {
            Some(dictionary) => context.compress_using_cdict(&mut out, bytes, &dictionary.writer),
            None => context.compress(&mut out, bytes, LEVEL),
        };
        give_back(&self.writers, context);
        written.map_err(|_| PackError("compress an object"))?;
        if !is_secret(kind) {
            self.training.lock().note(bytes.len(), out.len());
        }
        Ok(PackedBytes { bytes: out.into(), length, format, dictionary })
    }

    pub(crate) fn unpack(&self, packed: &PackedBytes) -> Result<Vec<u8>, PackError> {
        let mut context = self.readers.lock().pop().unwrap_or_default();
        let mut out = Vec::with_capacity(packed.length as usize);
        let read = match &packed.dictionary {
            Some(dictionary) => context.decompress_using_ddict(&mut out, &packed.bytes, &dictionary.reader),
            None => context.decompress(&mut out, &packed.bytes),
        };
        give_back(&self.readers, context);
        match read {
            Ok(length) if length == packed.length as usize => Ok(out),
            _ => Err(PackError("decompress an object")),
        }
    }
}

fn give_back<T>(contexts: &Mutex<Vec<T>>, context: T) {
    let mut contexts = contexts.lock();
    if contexts.len() < MAX_CONTEXTS {
        contexts.push(context);
    }
}

impl Training {
    /// Adds the bytes of an object to the samples if a dictionary is to be trained, and trains it once there
    /// are enough samples. Returns the current dictionary, if there is one.
    fn dictionary(&mut self, bytes: &[u8]) -> Option<Arc<Dictionary>> {
        if self.wants_samples() {
            self.samples.extend_from_slice(bytes);
            self.lengths.push(bytes.len());
            if self.lengths.len() >= SAMPLES || self.samples.len() >= MAX_SAMPLE_BYTES {
                self.train();
            }
        }
        self.dictionary.clone()
    }

    fn wants_samples(&self) -> bool {
        let drifted = match (self.reached, self.window.ratio()) {
            (Some(reached), Some(now)) => now * 100 > reached * DRIFT_PERCENT,
            _ => false,
        };
        self.generations < MAX_GENERATIONS
            && (self.dictionary.is_none() || drifted || !self.lengths.is_empty())
    }

    fn train(&mut self) {
        let (samples, lengths) = (std::mem::take(&mut self.samples), std::mem::take(&mut self.lengths));
        self.generations += 1;
        (self.reached, self.window) = (None, Window::default());
        // Training fails if the samples have nothing in common. Objects are then compressed without a
        // dictionary.
        if let Ok(trained) = zstd::dict::from_continuous(&samples, &lengths, DICTIONARY_BYTES) {
            let (writer, reader) = (CDict::create(&trained, LEVEL), DDict::create(&trained));
            self.dictionary = Some(Arc::new(Dictionary { writer, reader }));
        }
    }

    fn note(&mut self, bytes: usize, packed: usize) {
        if self.dictionary.is_none() {
            return;
        }
        if self.window.objects == WINDOW {
            self.reached = self.reached.or(self.window.ratio());
            self.window = Window::default();
        }
        self.window.objects += 1;
        self.window.bytes += bytes as u64;
        self.window.packed += packed as u64;
    }
}

impl Window {
    /// Returns the compression ratio of the window, in compressed bytes per thousand bytes, once the window
    /// is full.
    fn ratio(&self) -> Option<u64> {
        (self.objects == WINDOW && self.bytes > 0).then(|| self.packed * 1000 / self.bytes)
    }
}

impl PackedBytes {
    pub(crate) fn format(&self) -> BodyFormat {
        self.format
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.len()
    }

    #[cfg(test)]
    pub(super) fn truncate(&mut self) {
        self.bytes = self.bytes[..self.bytes.len() / 2].into();
    }
}

impl fmt::Debug for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packing")
            .field("generations", &self.training.lock().generations)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
