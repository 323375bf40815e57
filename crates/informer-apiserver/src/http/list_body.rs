//! List bodies that reference the stored objects: their bytes go from the storage to the socket without a copy.

use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};

use crate::http::body::{ApiBody, BrokenOff, Framed};
use crate::http::listen::UnderWay;
use crate::registry::storage::{Form, Stored};

/// Bytes that the storage owns, or that were made for one response.
#[derive(Debug)]
enum Piece {
    Fixed(&'static [u8]),
    Made(Bytes),
    /// An object in a representation, without its head and tail.
    Object(Arc<Stored>, Form),
    /// An object as the item of a protobuf list.
    Item(Arc<Stored>),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::Made(bytes) => bytes,
            Self::Object(stored, form) => stored.part(*form),
            // The caller of `put_item` has encoded it before.
            Self::Item(stored) => stored.wired().map_or(&[], |wire| wire.item()),
        }
    }
}

/// A part of a body: a sequence of segments, consumed as a [`Buf`].
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Non-empty segments.
    pieces: Vec<Piece>,
    /// Index of the current segment.
    at: usize,
    /// Bytes consumed of the current segment.
    taken: usize,
    /// Bytes that remain in all segments.
    left: usize,
}

impl Batch {
    pub(crate) fn len(&self) -> usize {
        self.left
    }

    fn push(&mut self, piece: Piece) {
        let length = piece.bytes().len();
        if length > 0 {
            self.left += length;
            self.pieces.push(piece);
        }
    }

    pub(crate) fn put(&mut self, bytes: impl Into<Bytes>) {
        self.push(Piece::Made(bytes.into()));
    }

    pub(crate) fn put_fixed(&mut self, bytes: &'static [u8]) {
        self.push(Piece::Fixed(bytes));
    }

    /// Adds an object in a representation.
    pub(crate) fn put_object(&mut self, stored: Arc<Stored>, form: Form) {
        self.put_fixed(form.head());
        self.push(Piece::Object(stored, form));
        self.put_fixed(form.tail());
    }

    /// Adds an object as the item of a protobuf list. Its encoding must be cached.
    pub(crate) fn put_item(&mut self, stored: Arc<Stored>) {
        self.push(Piece::Item(stored));
    }

    /// Returns all bytes in one buffer.
    pub(crate) fn into_bytes(mut self) -> Bytes {
        if let [Piece::Made(whole)] = &self.pieces[..]
            && whole.len() == self.left
        {
            return whole.clone();
        }
        let mut whole = BytesMut::with_capacity(self.left);
        while self.has_remaining() {
            let chunk = self.chunk();
            whole.put_slice(chunk);
            let length = chunk.len();
            self.advance(length);
        }
        whole.freeze()
    }
}

impl From<Bytes> for Batch {
    fn from(bytes: Bytes) -> Self {
        let mut batch = Self::default();
        batch.put(bytes);
        batch
    }
}

impl Buf for Batch {
    fn remaining(&self) -> usize {
        self.left
    }

    fn chunk(&self) -> &[u8] {
        self.pieces.get(self.at).map_or(&[], |piece| &piece.bytes()[self.taken..])
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let (mut taken, mut filled) = (self.taken, 0);
        for (slice, piece) in slices.iter_mut().zip(&self.pieces[self.at..]) {
            *slice = IoSlice::new(&piece.bytes()[taken..]);
            (taken, filled) = (0, filled + 1);
        }
        filled
    }

    fn advance(&mut self, count: usize) {
        assert!(count <= self.left, "{count} bytes are taken of {}", self.left);
        self.left -= count;
        self.taken += count;
        while let Some(piece) = self.pieces.get(self.at) {
            let length = piece.bytes().len();
            if self.taken < length {
                return;
            }
            self.taken -= length;
            self.at += 1;
        }
    }
}

/// The batches of a body.
pub(crate) type Batches = Box<dyn Iterator<Item = Batch> + Send>;

/// A response body that hands batches to the socket without joining them.
pub(crate) struct SocketBody {
    body: ApiBody,
    /// Ends the in-flight state when the body is dropped.
    _under_way: UnderWay,
}

impl SocketBody {
    pub(crate) fn new(body: ApiBody, under_way: UnderWay) -> Self {
        Self { body, _under_way: under_way }
    }
}

impl Body for SocketBody {
    type Data = Batch;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Batch>, BrokenOff>>> {
        let framed = self.body.poll_framed(context);
        framed.map(|framed| {
            let framed = framed?.map(|framed| match framed {
                Framed::Batch(batch) => batch,
                Framed::Bytes(bytes) => bytes.into(),
            });
            Some(framed.map(Frame::data))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
