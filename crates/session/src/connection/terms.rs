//! The terms that the broker and a client have negotiated.

use crate::settings::Settings;
use leveret_amqp::connection::TuneOk;
use leveret_types::{ProtocolError, ReplyCode, limits};

/// See the module's description.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Octets of a frame: before login, or as negotiated.
    pub(crate) frame_max: u32,
    /// Channels; 0 before they are negotiated.
    pub(crate) channel_max: u16,
    /// Seconds between heartbeats; 0 is none.
    pub(crate) heartbeat_seconds: u16,
}

impl Default for Terms {
    /// Those of a client that has not logged in.
    fn default() -> Self {
        Self {
            frame_max: limits::FRAME_BYTES_PREAUTH_MAX,
            channel_max: 0,
            heartbeat_seconds: 0,
        }
    }
}

impl Terms {
    /// The client has chosen of what was proposed to it.
    pub(crate) fn agree(
        &mut self,
        proposed: &Settings,
        chosen: &TuneOk,
    ) -> Result<(), ProtocolError> {
        negotiate(
            "frame_max",
            chosen.frame_max,
            limits::FRAME_BYTES_MIN,
            proposed.frame_max,
        )?;
        self.frame_max = chosen.frame_max;
        self.channel_max = match (proposed.channel_max, chosen.channel_max) {
            // Neither has a bound: a channel's number has 16 bits.
            (0, 0) => u16::MAX,
            (0, chosen) => chosen,
            (max, chosen) => {
                negotiate("channel_max", chosen.into(), 1, max.into())?;
                chosen
            }
        };
        self.heartbeat_seconds = chosen.heartbeat;
        Ok(())
    }

    /// Milliseconds between heartbeats; nothing if there are none.
    pub(crate) fn heartbeat_ms(&self) -> Option<u64> {
        let interval = u64::from(self.heartbeat_seconds) * 1000;
        (interval > 0).then_some(interval)
    }
}

/// Whether a value that the client chose lies within the bounds: 0 would say "unlimited".
fn negotiate(name: &str, value: u32, min: u32, max: u32) -> Result<(), ProtocolError> {
    let (relation, kind, bound) = match value {
        0 => ("higher", "maximum", max),
        _ if value < min => ("lower", "minimum", min),
        _ if value > max => ("higher", "maximum", max),
        _ => return Ok(()),
    };
    let detail = if value == 0 { " (no limit)" } else { "" };
    let text = format!(
        "negotiated {name} = {value}{detail} is {relation} than the {kind} allowed value ({bound})"
    );
    // RabbitMQ blames `connection.tune`.
    Err(ProtocolError::connection(ReplyCode::NotAllowed, text).at(10, 30))
}
