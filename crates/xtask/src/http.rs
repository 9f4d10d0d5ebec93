//! What a broker says over HTTP. It shares no code with the broker.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// How long a broker may take to answer.
const DEADLINE: Duration = Duration::from_secs(20);
/// `guest:guest` as basic authentication writes it.
const CREDENTIALS: &str = "Z3Vlc3Q6Z3Vlc3Q=";

/// Asks as the default user, and reads the answer as JSON.
pub fn get(address: SocketAddr, path: &str) -> Result<Value> {
    Ok(serde_json::from_str(&get_text(address, path)?)?)
}

/// Asks as the default user.
pub fn get_text(address: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, DEADLINE)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    // 1.0: the answer ends with the connection and is not in chunks.
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nHost: {address}\r\nAuthorization: Basic {CREDENTIALS}\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    body(&String::from_utf8_lossy(&answer)).with_context(|| format!("GET {path} at {address}"))
}

fn body(answer: &str) -> Result<String> {
    let (head, body) = answer.split_once("\r\n\r\n").context("a cut answer")?;
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        bail!("{status}: {body}");
    }
    Ok(body.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_follows_the_head() {
        let found = body("HTTP/1.1 200 OK\r\na: b\r\n\r\n{}").expect("an object");
        assert_eq!(found, "{}");
        let refusal = body("HTTP/1.1 404 Not Found\r\n\r\n{}").expect_err("a refusal");
        assert!(refusal.to_string().contains("404 Not Found"));
    }
}
