//! Events on their way to a client, as the body of an answer.

use bytes::Bytes;
use leveret_types::limits::HTTP_HEAD_BYTES_MAX;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{Notify, mpsc};

/// Events on their way to a client.
#[derive(Debug)]
pub struct Events {
    pub(crate) parts: mpsc::Receiver<Bytes>,
    /// Tells whoever makes them that nobody wants them any more.
    pub(crate) news: Arc<Notify>,
}

impl Drop for Events {
    fn drop(&mut self) {
        self.parts.close();
        self.news.notify_one();
    }
}

impl Events {
    /// What the connection takes of them before it has sent any, in bytes.
    pub(crate) const HELD_BYTES: usize = HTTP_HEAD_BYTES_MAX;

    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.parts.poll_recv(context)
    }
}
