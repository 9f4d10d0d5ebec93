//! What an operator reads of a client's connection: why it ended, and which errors its channels
//! had.

use super::Connection;
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

    /// The connection has ended. Who never logged in is a probe, say, and a refused login has a
    /// line of its own.
    pub(super) fn note_end(&self) {
        let connection = &self.identity.name;
        let (user, vhost) = (self.login.user_name(), self.login.vhost_name());
        match self.session.end() {
            None | Some(SessionEnd::Client | SessionEnd::Other(_)) if vhost.is_empty() => {
                tracing::debug!(%connection, "closed");
            }
            Some(SessionEnd::Client) => {
                tracing::info!(%connection, user, vhost, "connection closed by the client");
            }
            Some(SessionEnd::Error(error)) if error.code == ReplyCode::ConnectionForced => {
                tracing::info!(%connection, user, vhost, "connection closed: {error}");
            }
            Some(SessionEnd::Error(error)) => {
                tracing::warn!(%connection, user, vhost, "connection closed: {error}");
            }
            Some(SessionEnd::Other(reason)) => {
                tracing::warn!(%connection, user, vhost, "connection closed: {reason}");
            }
            None => {
                let text = "the client's socket ended without a close of the connection";
                tracing::warn!(%connection, user, vhost, "connection closed: {text}");
            }
        }
    }
}
