//! The client's identity, and the terms negotiated with it.

use leveret_types::limits::STREAM_FRAME_BYTES_PREAUTH_MAX;
use std::sync::Arc;

/// Who the client is.
#[derive(Debug)]
pub(crate) struct Client {
    /// What it says of itself.
    pub(crate) properties: Vec<(String, String)>,
    /// How it logs in; empty before it does.
    pub(crate) mechanism: String,
    /// Empty before login.
    pub(crate) user: String,
    /// Empty before it is open.
    pub(crate) vhost: Arc<str>,
}

impl Default for Client {
    fn default() -> Self {
        Self {
            properties: Vec::new(),
            mechanism: String::new(),
            user: String::new(),
            vhost: "".into(),
        }
    }
}

/// What was agreed with the client.
#[derive(Debug)]
pub(crate) struct Terms {
    /// Octets of a frame in force.
    pub(crate) frame_max: u32,
    /// The same once the virtual host is open.
    negotiated_frame_max: u32,
    /// Interval of heartbeats; 0 is none.
    pub(crate) heartbeat_seconds: u32,
    /// The version of `Deliver` that the client reads.
    pub(crate) deliver_version: u16,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            frame_max: STREAM_FRAME_BYTES_PREAUTH_MAX,
            negotiated_frame_max: STREAM_FRAME_BYTES_PREAUTH_MAX,
            heartbeat_seconds: 0,
            deliver_version: 1,
        }
    }
}

impl Terms {
    /// The client asks for frames of so many octets, where 0 is no bound; the broker takes `most`.
    /// Until the virtual host is open, frames are bounded as before.
    pub(crate) fn tune(&mut self, proposed: u32, most: u32, heartbeat_seconds: u32) {
        self.negotiated_frame_max = match proposed {
            0 => most,
            proposed => proposed.min(most),
        };
        self.heartbeat_seconds = heartbeat_seconds;
    }

    /// The virtual host is open.
    pub(crate) const fn open(&mut self) {
        self.frame_max = self.negotiated_frame_max;
    }
}
