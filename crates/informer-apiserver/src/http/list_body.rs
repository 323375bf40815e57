//! Bodies made of what is kept anyway: the objects of a list go from the storage to the socket without a copy between the two.

use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};

use crate::http::body::{ApiBody, BrokenOff, Framed};
use crate::http::listen::UnderWay;
use crate::registry::storage::{Form, Stored};

/// Bytes that somebody else keeps, or that are made for one answer.
#[derive(Debug)]
enum Piece {
    Fixed(&'static [u8]),
    Made(Bytes),
    /// What an object has in a form between the head and the tail of that.
    Object(Arc<Stored>, Form),
    /// An object as the item of a list in protobuf.
    Item(Arc<Stored>),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::Made(bytes) => bytes,
            Self::Object(stored, form) => stored.part(*form),
            // Whoever puts one in has seen to it that it is there.
            Self::Item(stored) => stored.wired().map_or(&[], |wire| wire.item()),
        }
    }
}

/// Part of a body, in pieces that are written one after the other.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// None is empty.
    pieces: Vec<Piece>,
    /// The first that is not taken whole yet, and how much of it is.
    at: usize,
    taken: usize,
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

    /// Adds an object in a form.
    pub(crate) fn put_object(&mut self, stored: Arc<Stored>, form: Form) {
        self.put_fixed(form.head());
        self.push(Piece::Object(stored, form));
        self.put_fixed(form.tail());
    }

    /// Adds an object as the item of a list in protobuf, which it must have.
    pub(crate) fn put_item(&mut self, stored: Arc<Stored>) {
        self.push(Piece::Item(stored));
    }

    /// The same in one piece.
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

/// A body on its way to a socket, which takes it in pieces.
pub(crate) struct SocketBody {
    body: ApiBody,
    /// Goes with it.
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
