//! What an operator reads of the end of a client's connection, whatever protocol it spoke.

use crate::login::Login;
use std::fmt::Display;

/// Who has ended a connection, and why.
pub(crate) enum ConnectionEnd<'a> {
    /// The client, as it should.
    Client,
    /// An operator, or the end of the node.
    Forced(&'a dyn Display),
    /// The broker, for what the client did or did not do.
    Broker(&'a dyn Display),
    /// The socket has gone without a word.
    Socket,
}

impl ConnectionEnd<'_> {
    /// Logs it. Who never logged in is a probe, say, and a refused login has a line of its own.
    pub(crate) fn log(&self, connection: &str, login: &Login) {
        let (user, vhost) = (login.user_name(), login.vhost_name());
        match self {
            _ if user.is_empty() => tracing::debug!(connection, "closed"),
            Self::Client => {
                tracing::info!(connection, user, vhost, "connection closed by the client");
            }
            Self::Forced(reason) => {
                tracing::info!(connection, user, vhost, "connection closed: {reason}");
            }
            Self::Broker(reason) => {
                tracing::warn!(connection, user, vhost, "connection closed: {reason}");
            }
            Self::Socket => {
                let text = "the client's socket ended without a close of the connection";
                tracing::warn!(connection, user, vhost, "connection closed: {text}");
            }
        }
    }
}
