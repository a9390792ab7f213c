//! Encoded messages of unary calls.

use bytes::Bytes;

use crate::answers::grpc::message::put_field_header;

/// One encoded message, in parts.
#[derive(Clone, Debug, Default)]
pub struct Message {
    /// The parts, in order.
    pub parts: Vec<Bytes>,
    /// Their length together, in bytes.
    pub length: usize,
}

impl Message {
    pub(super) fn push(&mut self, part: Bytes) {
        self.length += part.len();
        self.parts.push(part);
    }

    pub(super) fn push_field_header(&mut self, number: u32, length: usize) {
        let mut header = Vec::with_capacity(8);
        put_field_header(&mut header, number, length as u64);
        self.push(header.into());
    }
}

impl From<Bytes> for Message {
    fn from(bytes: Bytes) -> Self {
        let mut message = Self::default();
        message.push(bytes);
        message
    }
}
