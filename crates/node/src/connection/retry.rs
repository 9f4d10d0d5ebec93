//! What is done again once this node knows what others do: behind a read barrier, or when others
//! have told what their clients have open.

use leveret_client::{Consume, Publish, Topology};
use leveret_types::ChannelId;

/// What is done again, once.
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
    OpenChannel(ChannelId),
}
