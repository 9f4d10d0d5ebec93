//! What all methods have in common.

/// Who may send a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// Clients only.
    Client,
    /// The broker only.
    Server,
    /// Either.
    Both,
}

/// A method that can be written.
pub trait EncodeMethod {
    /// Class id.
    const CLASS: u16;
    /// Method id.
    const METHOD: u16;

    /// Appends the fields.
    fn encode_fields(&self, out: &mut Vec<u8>);

    /// Appends a method frame's payload: ids and fields.
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&Self::CLASS.to_be_bytes());
        out.extend_from_slice(&Self::METHOD.to_be_bytes());
        self.encode_fields(out);
    }
}

/// Class id and method id of a method frame's payload, before anything else of it is read.
#[must_use]
pub fn peek_ids(payload: &[u8]) -> (u16, u16) {
    match payload {
        [a, b, c, d, ..] => (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])),
        _ => (0, 0),
    }
}
