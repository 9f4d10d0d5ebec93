//! How a connection and its channels end: for an error, by the client's wish, or because the socket
//! is gone. Whatever they held is given back by the requests that this makes.

use super::{Connection, End, Phase};
use crate::contract::Request;
use bytes::Bytes;
use leveret_amqp::{channel, connection};
use leveret_types::{ChannelId, Now, ProtocolError, Scope};

impl Connection {
    /// Something that was sent off has failed: closes the channel, or the connection, as the error
    /// says.
    pub fn fail(
        &mut self,
        now: Now,
        channel: ChannelId,
        error: ProtocolError,
        requests: &mut Vec<Request>,
    ) {
        self.now = now;
        match error.scope {
            Scope::Connection => {
                self.failed = true;
                self.fail_connection(error, requests);
            }
            Scope::Channel => {
                self.fail_channel(channel.0, &error, requests);
                if let Some(channel) = self.channels.get_mut(&channel.0) {
                    channel.failed = true;
                }
            }
        }
    }

    /// Closes the connection. The requests that this makes come with the next call that takes them.
    pub fn close(&mut self, error: ProtocolError) {
        if matches!(self.phase, Phase::Closing { .. } | Phase::Closed) {
            return;
        }
        if self.phase == Phase::Preamble {
            self.end_with(End::Error(error));
            return;
        }
        self.flush();
        let text = error.reply_text();
        let close = connection::Close {
            reply_code: error.code.code(),
            reply_text: &text,
            class_id: error.class,
            method_id: error.method,
        };
        self.send(0, &close);
        if self.phase == Phase::Running {
            self.until_ms = None;
        } // else the deadline of the handshake holds: a stranger gets no more time by a mistake.
        self.phase = Phase::Closing { deaf: false };
        self.end = Some(End::Error(error));
    }

    /// Closes the connection for an error, and gives back what its channels held.
    pub(crate) fn fail_connection(&mut self, error: ProtocolError, requests: &mut Vec<Request>) {
        self.close(error);
        self.close_channels(requests);
    }

    /// Closes a channel for an error: until the client agrees, nothing it says on it is heard.
    pub(crate) fn fail_channel(
        &mut self,
        number: u16,
        error: &ProtocolError,
        requests: &mut Vec<Request>,
    ) {
        if self.phase != Phase::Running || self.open_channel(number).is_none() {
            return;
        }
        self.flush_channel(number);
        let text = error.reply_text();
        let close = channel::Close {
            reply_code: error.code.code(),
            reply_text: &text,
            class_id: error.class,
            method_id: error.method,
        };
        self.send(number, &close);
        self.forget_consumers(number);
        if let Some(channel) = self.channels.get_mut(&number) {
            channel.begin_closing();
        }
        requests.push(Request::ChannelClosed {
            channel: ChannelId(number),
        });
    }

    /// Takes a channel's consumers from deliveries.
    pub(crate) fn forget_consumers(&mut self, number: u16) {
        let Self {
            channels,
            consumers,
            ..
        } = self;
        for id in channels
            .get(&number)
            .iter()
            .flat_map(|c| c.consumers.values())
        {
            consumers.remove(id);
        }
    }

    /// Ends all channels, in the order of their numbers.
    pub(crate) fn close_channels(&mut self, requests: &mut Vec<Request>) {
        let open = self
            .channels
            .drain()
            .filter(|(_, channel)| !channel.closing);
        let mut numbers: Vec<u16> = open.map(|(number, _)| number).collect();
        numbers.sort_unstable();
        let closed = |number| Request::ChannelClosed {
            channel: ChannelId(number),
        };
        requests.extend(numbers.into_iter().map(closed));
        self.consumers.clear();
        self.awaiting.clear();
        self.confirming.clear();
    }

    /// The socket is gone.
    pub fn teardown(&mut self, requests: &mut Vec<Request>) {
        self.asked = None;
        self.input = Bytes::new();
        self.close_channels(requests);
        self.phase = Phase::Closed;
    }

    /// Ends at once, without a word.
    pub(crate) fn end_with(&mut self, end: End) {
        self.phase = Phase::Closed;
        self.end = Some(end);
    }
}
