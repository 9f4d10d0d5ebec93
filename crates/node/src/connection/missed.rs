//! What is done again once this node has looked at what the cluster has agreed on.

use leveret_client::{Consume, Publish, Topology};
use leveret_types::ChannelId;

/// What is done again once this node has looked.
#[derive(Debug)]
pub(super) enum Missed {
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
