//! HTTP/1.1 as a client: one request over a connection of its own. The command line asks nodes so,
//! the load generator samples them so, and spans of traced messages go so to their collector.
//!
//! Invariant: an answer is bounded, in time and in bytes.

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

/// A request with its body.
pub type Asked = Request<Full<Bytes>>;

/// Where requests go.
#[derive(Clone, Debug)]
pub enum ServerAddress {
    /// A socket file.
    File(PathBuf),
    /// A host and a port.
    Tcp {
        /// Both, as a URL has them.
        authority: String,
        /// How TLS is spoken there, if it is.
        tls: Option<Arc<ClientConfig>>,
    },
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// The body as it came.
    pub body: Bytes,
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

    /// What a node says went wrong.
    #[must_use]
    pub fn reason(&self) -> String {
        let json = self.json();
        let text = json["reason"].as_str().or_else(|| json["error"].as_str());
        text.map_or_else(|| format!("HTTP status {}", self.status), str::to_owned)
    }
}

/// Bytes to and from a server.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Sends a request and reads the whole answer, within `patience` for all of it.
///
/// # Errors
/// If the server cannot be reached or is not believed, if it takes too long, or if what it says is
/// no HTTP or has a body of more than `body_bytes_max`.
pub fn ask(
    address: &ServerAddress,
    request: Asked,
    patience: Duration,
    body_bytes_max: usize,
) -> io::Result<Answer> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let answer = runtime.block_on(async {
        tokio::time::timeout(patience, exchange(address, request, body_bytes_max)).await
    });
    // A name that is still being looked up is not waited for.
    runtime.shutdown_background();
    answer.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "no answer in time"))?
}

/// Gets what is at a path of a host and port without TLS, with these headers, as [`ask`] does.
///
/// # Errors
/// As of [`ask`], or if the path or a header is none.
pub fn get(
    authority: &str,
    path: &str,
    headers: &[(&str, &str)],
    patience: Duration,
    body_bytes_max: usize,
) -> io::Result<Answer> {
    let mut request = Request::get(path)
        .header(HOST, authority)
        .header(CONNECTION, "close");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request
        .body(Full::default())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let address = ServerAddress::Tcp {
        authority: authority.to_owned(),
        tls: None,
    };
    ask(&address, request, patience, body_bytes_max)
}

async fn exchange(
    address: &ServerAddress,
    request: Asked,
    body_bytes_max: usize,
) -> io::Result<Answer> {
    let stream = TokioIo::new(connect(address).await?);
    let (mut sender, connection) = http1::handshake(stream).await.map_err(failed)?;
    // What becomes of the connection is what becomes of the request.
    tokio::spawn(connection);
    let answer = sender.send_request(request).await.map_err(failed)?;
    let status = answer.status().as_u16();
    let body = Limited::new(answer.into_body(), body_bytes_max).collect();
    let body = body.await.map_err(io::Error::other)?.to_bytes();
    Ok(Answer { status, body })
}

async fn connect(address: &ServerAddress) -> io::Result<Box<dyn Stream>> {
    let (authority, tls) = match address {
        ServerAddress::File(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
        ServerAddress::Tcp { authority, tls } => (authority, tls),
    };
    let stream = TcpStream::connect(authority).await?;
    let Some(tls) = tls else {
        return Ok(Box::new(stream));
    };
    let name = server_name(authority)?;
    let connector = TlsConnector::from(Arc::clone(tls));
    Ok(Box::new(connector.connect(name, stream).await?))
}

/// The name that the server's certificate must have.
fn server_name(authority: &str) -> io::Result<ServerName<'static>> {
    let host = authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host);
    let name = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(name.to_owned()).map_err(|_| {
        let text = format!("'{host}' is no name that a certificate can have");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })
}

/// Says of what is no HTTP that it is none.
fn failed(error: hyper::Error) -> io::Error {
    match error.is_parse() {
        true => io::Error::new(io::ErrorKind::InvalidData, "what answers speaks no HTTP"),
        false => io::Error::other(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// What comes back from a server that says this once it has heard of a request.
    fn answered(says: &'static [u8], body_bytes_max: usize) -> io::Result<Answer> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let authority = listener.local_addr().expect("bound").to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut heard = [0; 1024];
            assert!(stream.read(&mut heard).expect("a request") > 0);
            stream.write_all(says).expect("said");
        });
        let address = ServerAddress::Tcp {
            authority,
            tls: None,
        };
        let request = Request::get("/").body(Full::default()).expect("a request");
        let answer = ask(&address, request, Duration::from_secs(60), body_bytes_max);
        server.join().expect("it has said it");
        answer
    }

    #[test]
    fn answers_come_plain_in_chunks_and_up_to_the_end() {
        let chunked = b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n\
            3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
        for (says, status, body) in [
            (
                &b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"[..],
                200,
                "{}",
            ),
            (chunked, 404, "abcde"),
            (b"HTTP/1.0 202 Accepted\r\n\r\nall of it", 202, "all of it"),
        ] {
            let answer = answered(says, 9).expect("an answer");
            let body = Bytes::from_static(body.as_bytes());
            assert_eq!(answer, Answer { status, body });
        }
    }

    #[test]
    fn a_get_names_path_host_and_headers_and_bad_ones_are_errors() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let authority = listener.local_addr().expect("bound").to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut heard = Vec::new();
            while !heard.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("a request");
                heard.extend(byte);
            }
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            stream.write_all(answer).expect("said");
            String::from_utf8(heard).expect("text")
        });
        let minute = Duration::from_secs(60);
        let headers = [("Authorization", "Basic eDp5")];
        let answer = get(&authority, "/metrics", &headers, minute, 2).expect("an answer");
        assert_eq!((answer.status, &answer.body[..]), (200, &b"ok"[..]));
        let heard = server.join().expect("it has said it").to_lowercase();
        for line in [
            "get /metrics http/1.1\r\n",
            &format!("host: {authority}\r\n"),
            "authorization: basic edp5\r\n",
            "connection: close\r\n",
        ] {
            assert!(heard.contains(line), "{heard}");
        }
        for (path, value) in [("no path", "x"), ("/", "a\r\nb")] {
            let error = get(&authority, path, &[("a", value)], minute, 2).expect_err("no request");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path} {value}");
        }
    }

    #[test]
    fn what_is_no_http_is_an_error() {
        for says in [
            &b"SSH-2.0-x\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nabc",
        ] {
            assert!(answered(says, 1_000).is_err());
        }
    }

    #[test]
    fn a_body_is_read_up_to_its_bound() {
        let says = b"HTTP/1.1 200 OK\r\n\r\nfive!";
        assert_eq!(answered(says, 5).expect("an answer").body.len(), 5);
        assert!(answered(says, 4).is_err());
    }

    #[test]
    fn who_does_not_answer_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = ServerAddress::Tcp {
            authority: listener.local_addr().expect("bound").to_string(),
            tls: None,
        };
        let request = Request::get("/").body(Full::default()).expect("a request");
        let error = ask(&address, request, Duration::from_millis(50), 1).expect_err("no answer");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
