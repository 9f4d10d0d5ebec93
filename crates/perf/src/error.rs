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
    /// TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(String),
}

impl Error {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        |error| Self::Io { what, error }
    }
}
