//! Settings of sessions that an operator may choose.

use leveret_types::unfinished::Unfinished;
use leveret_types::{RABBITMQ_VERSION, ReaderMemory, limits};
use std::sync::Arc;

/// Settings of all sessions of a listener, shared between them.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Octets of a frame that the broker proposes, and accepts at most.
    pub frame_max: u32,
    /// Heartbeat interval that the broker proposes, in seconds; 0 proposes none.
    pub heartbeat_seconds: u32,
    /// SASL mechanisms on offer, in the order of preference.
    pub mechanisms: Vec<String>,
    /// What the broker says of itself. Clients read `version` and use what that version of RabbitMQ
    /// has.
    pub server_properties: Vec<(String, String)>,
    /// Where clients reach this node, as `Open` and `Metadata` say it.
    pub advertised_host: String,
    /// See [`Self::advertised_host`].
    pub advertised_port: u16,
    /// Milliseconds that a client has to log in and open its virtual host.
    pub handshake_ms_max: u64,
    /// What the readers of all sessions of the node hold: one count for all listeners.
    pub memory: ReaderMemory,
    /// What frames that have not arrived whole hold, beside unfinished publishes of AMQP 0-9-1: one
    /// count for all listeners of the node.
    pub unfinished: Arc<Unfinished>,
}

impl Settings {
    /// RabbitMQ's defaults for a node that is reached there.
    #[must_use]
    pub fn new(advertised_host: &str, advertised_port: u16) -> Self {
        Self {
            frame_max: limits::STREAM_FRAME_BYTES_MAX,
            heartbeat_seconds: u32::from(limits::HEARTBEAT_SECONDS),
            mechanisms: ["PLAIN", "AMQPLAIN"].map(str::to_owned).to_vec(),
            server_properties: vec![
                ("product".to_owned(), "Leveret".to_owned()),
                ("version".to_owned(), RABBITMQ_VERSION.to_owned()),
                ("platform".to_owned(), "Rust".to_owned()),
            ],
            advertised_host: advertised_host.to_owned(),
            advertised_port,
            handshake_ms_max: limits::HANDSHAKE_MS_MAX,
            memory: ReaderMemory::default(),
            unfinished: Arc::default(),
        }
    }
}
