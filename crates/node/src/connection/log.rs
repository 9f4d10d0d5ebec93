//! What an operator reads of a client's connection: why it ended, and which errors its channels
//! had.

use super::Connection;
use crate::connection_end::ConnectionEnd;
use leveret_client::{Session, SessionEnd};
use leveret_types::{ChannelId, ProtocolError, ReplyCode};

impl<S: Session> Connection<S> {
    /// An error has closed a channel.
    pub(super) fn note_channel_error(&self, channel: ChannelId, error: &ProtocolError) {
        tracing::warn!(
            connection = %self.identity.name,
            user = self.login.user_name(),
            vhost = self.login.vhost_name(),
            channel = channel.0,
            "channel closed: {error}",
        );
    }

    /// The connection has ended.
    pub(super) fn note_end(&self) {
        let ended = self.session.end();
        let end = match &ended {
            None => ConnectionEnd::Socket,
            Some(SessionEnd::Client) => ConnectionEnd::Client,
            Some(SessionEnd::Error(error)) if error.code == ReplyCode::ConnectionForced => {
                ConnectionEnd::Forced(error)
            }
            Some(SessionEnd::Error(error)) => ConnectionEnd::Broker(error),
            Some(SessionEnd::Other(reason)) => ConnectionEnd::Broker(reason),
        };
        end.log(&self.identity.name, &self.login);
    }
}
