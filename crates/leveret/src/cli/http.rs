//! A small HTTP/1.1 client: one request, one connection. It speaks to a node's API and to nothing
//! else.

use super::tls::{self, Trust};
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of an answer that are read at most.
const ANSWER_BYTES_MAX: u64 = 1 << 30;

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

/// Bytes to and from a node.
trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

/// An answer of the API.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// The body as it came.
    pub body: Vec<u8>,
}

impl Answer {
    /// Whether the status says that it worked.
    #[must_use]
    pub fn is_good(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body as JSON; null where it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// What the node says went wrong.
    #[must_use]
    pub fn reason(&self) -> String {
        let json = self.json();
        let text = json["reason"].as_str().or_else(|| json["error"].as_str());
        text.map_or_else(|| format!("HTTP status {}", self.status), str::to_owned)
    }
}

impl Client {
    /// Sends one request and reads the whole answer. `path` is already percent-encoded.
    pub fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> io::Result<Answer> {
        let bytes = body.map(|b| b.to_string().into_bytes());
        self.send(method, path, headers, bytes.as_deref())
    }

    /// The same with a body that is JSON text already.
    pub fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> io::Result<Answer> {
        let mut stream = self.connect()?;
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: {}\r\n",
            self.authority,
            self.authorization()
        );
        for (name, value) in headers {
            // A line break would end the header: the node gets a space instead.
            let value = value.replace(['\r', '\n'], " ");
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        let body = body.unwrap_or_default();
        request.push_str(&format!(
            "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        ));
        stream.write_all(request.as_bytes())?;
        stream.write_all(body)?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
        parse_answer(&answer).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "{} does not answer as a node's HTTP API does",
                    self.authority
                ),
            )
        })
    }

    fn connect(&self) -> io::Result<Box<dyn Stream>> {
        if let Some(path) = &self.socket {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(self.timeout))?;
            stream.set_write_timeout(Some(self.timeout))?;
            return Ok(Box::new(stream));
        }
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in self.authority.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, self.timeout) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(self.timeout))?;
                    stream.set_write_timeout(Some(self.timeout))?;
                    let Some(trust) = &self.tls else {
                        return Ok(Box::new(stream));
                    };
                    let host = self.authority.rsplit_once(':').map(|(host, _)| host);
                    return Ok(Box::new(tls::begin(
                        stream,
                        host.unwrap_or_default(),
                        trust,
                    )?));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn authorization(&self) -> String {
        use base64::Engine;
        let engine = base64::engine::general_purpose::STANDARD;
        match &self.credentials {
            Credentials::Token(token) => format!("Bearer {token}"),
            Credentials::User(user, password) => {
                format!("Basic {}", engine.encode(format!("{user}:{password}")))
            }
        }
    }
}

/// Splits an answer that was read to its end; none if it is not HTTP.
fn parse_answer(bytes: &[u8]) -> Option<Answer> {
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.")?.get(2..5)?;
    let chunked = lines.any(|line| {
        let line = line.to_ascii_lowercase();
        line.starts_with("transfer-encoding:") && line.contains("chunked")
    });
    let body = &bytes[end + 4..];
    Some(Answer {
        status: status.parse().ok()?,
        body: if chunked {
            unchunk(body)?
        } else {
            body.to_vec()
        },
    })
}

fn unchunk(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = bytes.windows(2).position(|w| w == b"\r\n")?;
        let size = std::str::from_utf8(&bytes[..line]).ok()?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        bytes = &bytes[line + 2..];
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(bytes.get(..size)?);
        bytes = bytes.get(size + 2..)?;
    }
}

/// A path segment, percent-encoded.
#[must_use]
pub fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_plain_and_chunked() {
        let plain = parse_answer(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
        assert_eq!((plain.status, plain.body.as_slice()), (200, &b"{}"[..]));
        let chunked = b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
        let chunked = parse_answer(chunked).unwrap();
        assert_eq!(
            (chunked.status, chunked.body.as_slice()),
            (404, &b"abcde"[..])
        );
        for broken in [
            &b"SSH-2.0-x\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nabc",
        ] {
            assert!(parse_answer(broken).is_none());
        }
    }

    #[test]
    fn names_become_one_segment() {
        assert_eq!(segment("/"), "%2F");
        assert_eq!(segment("a b/ü?"), "a%20b%2F%C3%BC%3F");
        assert_eq!(segment("amq.topic-1_~"), "amq.topic-1_~");
    }
}
