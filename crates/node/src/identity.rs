//! Who is at the other end of a connection, and how much it has said and heard: for sessions of
//! every protocol.

use leveret_types::{ConnectionId, Now};
use std::net::SocketAddr;

/// Who is at the other end.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The client's address.
    pub remote: SocketAddr,
    /// The address that it connected to.
    pub local: SocketAddr,
    /// Whether the connection is encrypted.
    pub tls: bool,
}

/// What is known of a connection as soon as it is accepted and, with TLS, encrypted.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) id: ConnectionId,
    /// Its name in logs and listings: `client address -> broker address`.
    pub(crate) name: String,
    pub(crate) peer: Peer,
    pub(crate) connected_at_ms: u64,
    /// What the client has shown in the TLS handshake.
    pub(crate) certificate: Option<Vec<u8>>,
    /// Version and cipher suite of TLS.
    pub(crate) tls_status: Option<(String, String)>,
    is_secured: bool,
}

impl Identity {
    pub(crate) fn new(id: ConnectionId, peer: Peer, now: Now) -> Self {
        Self {
            id,
            name: format!("{} -> {}", peer.remote, peer.local),
            peer,
            connected_at_ms: now.wall_ms,
            certificate: None,
            tls_status: None,
            is_secured: false,
        }
    }

    /// Whether the TLS handshake is over, or there is none.
    pub(crate) const fn is_secured(&self) -> bool {
        self.is_secured || !self.peer.tls
    }

    /// The TLS handshake is over; this is what it showed of the client.
    pub(crate) fn secure(
        &mut self,
        certificate: Option<Vec<u8>>,
        status: Option<(String, String)>,
    ) {
        self.is_secured = true;
        self.certificate = certificate;
        self.tls_status = status;
    }
}

/// Bytes of a connection.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    /// What the output had when it was last flushed or written.
    output_before: usize,
}

impl Traffic {
    /// The output has this before it is written.
    pub(crate) const fn flushed(&mut self, output_bytes: usize) {
        self.output_before = output_bytes;
    }

    /// The socket has left this of the output.
    pub(crate) const fn written(&mut self, left_bytes: usize) {
        self.sent_bytes += self.output_before.saturating_sub(left_bytes) as u64;
        self.output_before = left_bytes;
    }
}
