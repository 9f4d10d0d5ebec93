//! What is done again once a connection has passed its read barrier.

use leveret_client::{Consume, Publish, Topology};
use leveret_types::ChannelId;

/// What is done again behind the read barrier.
#[derive(Debug)]
pub(super) enum Retry {
    Topology(Topology),
    Consume(Consume),
    Get {
        channel: ChannelId,
        queue: String,
        no_ack: bool,
    },
    Publish(Publish),
    Check(Publish),
    Login {
        mechanism: String,
        response: Vec<u8>,
    },
    OpenVhost(String),
}
