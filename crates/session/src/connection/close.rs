//! How a connection and its channels end: for an error, as the client asks, or because the socket
//! is gone. Whatever they held is given back by the requests that this makes.

use super::{Connection, End, Phase};
use leveret_amqp::{channel, connection};
use leveret_client::contract::Request;
use leveret_types::{ChannelId, Now, OutBuffer, ProtocolError, ReplyCode, Scope, limits};

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
        self.times.now = now;
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
        use Phase::{Closed, Closing, Lingering};
        if matches!(self.phase, Closing { .. } | Lingering | Closed) {
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
            self.times.begin_closing();
        } // else the deadline of the handshake holds: a stranger gets no more time by a mistake.
        self.phase = Phase::Closing {
            ignoring_input: false,
        };
        self.end = Some(End::Error(error));
        // The client's answer may be behind a publish that waits.
        self.blocked(None);
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
            error: Some(Box::new(error.clone())),
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
        let open = self.channels.remove_all();
        let closed = open.filter(|(_, channel)| !channel.closing);
        requests.extend(closed.map(|(number, _)| Request::ChannelClosed {
            channel: ChannelId(number),
            error: None,
        }));
        self.consumers.clear();
        self.answers.clear();
    }

    /// The socket is gone, or the connection is over.
    pub fn teardown(&mut self, requests: &mut Vec<Request>) {
        self.pending_request = None;
        self.arriving.forget_waiting();
        self.close_channels(requests);
        if self.phase != Phase::Lingering {
            self.phase = Phase::Closed;
        }
    }

    /// The client has closed the connection: it hears so, and that is all.
    pub(crate) fn closed_by_client(&mut self) {
        self.send(0, &connection::CloseOk {});
        self.end = Some(End::Client);
        self.linger();
    }

    /// All is said: waits for the client to close its socket. Who has not opened a virtual host has
    /// until the end of the handshake's time.
    pub(crate) fn linger(&mut self) {
        self.phase = Phase::Lingering;
        self.arriving.forget_partial();
        let is_open = !self.client.vhost.is_empty();
        self.times.begin_lingering(is_open);
    }

    /// For how long the client's answer to the broker's closing is awaited. A client that cannot be
    /// understood, or that is sending more than it may, is not heard for longer than it takes to
    /// tell it.
    pub(crate) fn closing_ms(&self) -> u64 {
        let ignores_input = self.phase
            == Phase::Closing {
                ignoring_input: true,
            };
        let error = match &self.end {
            Some(End::Error(error)) => Some(error.code),
            _ => None,
        };
        if ignores_input || error == Some(ReplyCode::FrameError) {
            limits::FRAME_ERROR_LINGER_MS
        } else {
            limits::CLOSE_MS_MAX
        }
    }

    /// The client is gone, or has had its time: ends at once, and what it has not taken it does not
    /// get.
    pub(crate) fn give_up(&mut self) {
        self.phase = Phase::Closed;
        self.out = OutBuffer::new();
    }

    /// Ends at once, without a word.
    pub(crate) fn end_with(&mut self, end: End) {
        self.phase = Phase::Closed;
        self.end = Some(end);
    }
}
