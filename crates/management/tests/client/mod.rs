//! A bare HTTP client: what is sent is what is written here.

use base64::Engine;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

pub fn exchange(address: SocketAddr, request: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).expect("a server");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a socket");
    // A server that refuses early may close before it has read everything.
    let _ = stream.write_all(request);
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok());
    let head = head.to_ascii_lowercase();
    let body = match head.contains("transfer-encoding: chunked") {
        true => joined(body),
        false => body.to_owned(),
    };
    Answer {
        status: status.unwrap_or(0),
        head,
        body,
    }
}

/// The text of a body that came in chunks. A body that was cut short is none.
fn joined(mut chunks: &str) -> String {
    let mut body = String::new();
    loop {
        let (length, rest) = chunks.split_once("\r\n").expect("a chunk");
        let length = usize::from_str_radix(length, 16).expect("a chunk's length");
        if length == 0 {
            return body;
        }
        body.push_str(&rest[..length]);
        chunks = &rest[length + 2..];
    }
}

pub fn basic(user: &str, password: &str) -> String {
    let engine = base64::engine::general_purpose::STANDARD;
    format!("Basic {}", engine.encode(format!("{user}:{password}")))
}
