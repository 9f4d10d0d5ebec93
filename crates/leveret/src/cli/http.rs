//! How the command line asks a node's HTTP API, and nothing else.

use crate::http::{self, Answer, ServerAddress};
use crate::trust::Trust;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of an answer's body that are read at most.
const BODY_BYTES_MAX: usize = 1 << 30;

/// What a segment of a path may not have as it is (RFC 3986, 2.3).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// The token that a node leaves in its data folder.
    Token(String),
    /// A user of the broker.
    User(String, String),
}

/// A node's HTTP API.
#[derive(Clone, Debug)]
pub struct Client {
    /// Host and port.
    pub authority: String,
    /// The node's socket file, which is taken before host and port.
    pub socket: Option<PathBuf>,
    /// Whose word is taken for who the node is, where it speaks TLS.
    pub tls: Option<Trust>,
    /// Who asks.
    pub credentials: Credentials,
    /// How long one request may take.
    pub timeout: Duration,
}

impl Client {
    /// Sends one request and reads the whole answer. `path` is already percent-encoded.
    ///
    /// # Errors
    /// If there is no answer, or none of a node's.
    pub fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> io::Result<Answer> {
        let bytes = body.map(|body| body.to_string().into_bytes());
        self.send(method, path, headers, bytes.unwrap_or_default())
    }

    /// The same with a body that is JSON text already.
    ///
    /// # Errors
    /// If there is no answer, or none of a node's.
    pub fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> io::Result<Answer> {
        let address = match &self.socket {
            Some(path) => ServerAddress::File(path.clone()),
            None => ServerAddress::Tcp {
                authority: self.authority.clone(),
                tls: self.tls.as_ref().map(Trust::client).transpose()?,
            },
        };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.authority)
            .header(CONNECTION, "close")
            .header(AUTHORIZATION, self.authorization())
            .header(CONTENT_TYPE, "application/json");
        for (name, value) in headers {
            // A line break would end the header: the node gets a space instead.
            request = request.header(*name, value.replace(['\r', '\n'], " "));
        }
        let request = request
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        http::ask(&address, request, self.timeout, BODY_BYTES_MAX)
    }

    fn authorization(&self) -> String {
        match &self.credentials {
            Credentials::Token(token) => format!("Bearer {token}"),
            Credentials::User(user, password) => {
                format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
            }
        }
    }
}

/// A path segment, percent-encoded.
#[must_use]
pub fn segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_one_segment() {
        assert_eq!(segment("/"), "%2F");
        assert_eq!(segment("a b/ü?"), "a%20b%2F%C3%BC%3F");
        assert_eq!(segment("amq.topic-1_~"), "amq.topic-1_~");
    }
}
