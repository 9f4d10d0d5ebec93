//! Why a run came to no result.

use crate::spec::SpecError;
use crate::uri::UriError;

/// Why a run came to no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The specification cannot be run.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A URI is none.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// A file, or a process, cannot be used.
    #[error("{what}: {error}")]
    Io {
        /// What was to be done, to what.
        what: String,
        /// Why it was not.
        error: std::io::Error,
    },
    /// A connection failed, or was cut.
    #[error("connection to {place}: {error}")]
    Connection {
        /// Host and port.
        place: String,
        /// Why.
        error: std::io::Error,
    },
    /// The broker closed a channel or a connection.
    #[error("{place} closed the {scope}: {code} {text}")]
    Closed {
        /// Host and port.
        place: String,
        /// `channel` or `connection`.
        scope: &'static str,
        /// Reply code.
        code: u16,
        /// Reply text.
        text: String,
    },
    /// The broker does not let this user in.
    #[error("{place} refused the login of user '{user}': {text}")]
    Login {
        /// Host and port.
        place: String,
        /// The user's name.
        user: String,
        /// Reply text.
        text: String,
    },
    /// The broker cancelled a consumer, as it does when the queue is gone.
    #[error("{place} cancelled a consumer: its queue is gone")]
    Cancelled {
        /// Host and port.
        place: String,
    },
    /// A connection broke, and could not be opened again for as long as was to be tried.
    #[error("no broker for {seconds:.0} s after a connection broke; the last attempt: {last}")]
    Outage {
        /// Seconds since it broke.
        seconds: f64,
        /// Why the last attempt failed.
        last: Box<Error>,
    },
    /// The broker refused a request of the stream protocol.
    #[error("{place} refused {command}: {code} {name}")]
    Refused {
        /// Host and port.
        place: String,
        /// Which.
        command: &'static str,
        /// Response code.
        code: u16,
        /// Its name.
        name: &'static str,
    },
    /// A stream has gone, or is led elsewhere.
    #[error("{place} says that stream '{stream}' is not available any more")]
    StreamGone {
        /// Host and port.
        place: String,
        /// The stream.
        stream: String,
    },
    /// The broker sent what the protocol does not allow there.
    #[error("{place} broke the protocol: {what}")]
    Protocol {
        /// Host and port.
        place: String,
        /// What it sent.
        what: String,
    },
    /// A local broker did not start, or ended.
    #[error("{node}: {what}")]
    Node {
        /// Its name.
        node: String,
        /// What happened.
        what: String,
    },
    /// A signal asked for the end.
    #[error("interrupted")]
    Interrupted,
    /// TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(String),
}

/// Reply codes of brokers that close a connection for reasons of their own: they are stopping, they
/// were told to, or something in them failed.
const FORCED: [u16; 2] = [320, 541];

impl Error {
    /// Whether a connection that ended so may be opened again, here or elsewhere.
    #[must_use]
    pub fn is_break(&self) -> bool {
        match self {
            Self::Connection { .. } | Self::Cancelled { .. } | Self::StreamGone { .. } => true,
            // A stream broker that stops says OK.
            Self::Closed { scope, code, .. } if *scope == "stream connection" => *code == 1,
            Self::Closed { scope, code, .. } => *scope == "connection" && FORCED.contains(code),
            _ => false,
        }
    }

    /// Whether it may pass in a broker that is coming up, or in a cluster that has just lost one:
    /// there, queues and permissions may be unknown for a while.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        self.is_break() || matches!(self, Self::Closed { .. } | Self::Refused { .. })
    }

    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        |error| Self::Io { what, error }
    }
}
