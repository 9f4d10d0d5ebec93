//! A count of messages and of their bytes.

/// Messages, and the bytes of their bodies together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Amount {
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

impl Amount {
    pub(super) const fn add(&mut self, messages: u64, bytes: u64) {
        self.messages += messages;
        self.bytes += bytes;
    }

    pub(super) const fn take(&mut self, messages: u64, bytes: u64) {
        self.messages -= messages;
        self.bytes -= bytes;
    }
}
