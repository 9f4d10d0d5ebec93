//! What a broker says over HTTP. It shares no code with the broker.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// How long a broker may take to answer.
const DEADLINE: Duration = Duration::from_secs(20);
/// The same for what changes very much at once.
const LONG: Duration = Duration::from_secs(300);
/// `guest:guest` as basic authentication writes it.
const CREDENTIALS: &str = "Z3Vlc3Q6Z3Vlc3Q=";

/// Asks as the default user, and reads the answer as JSON.
pub fn get(address: SocketAddr, path: &str) -> Result<Value> {
    Ok(serde_json::from_str(&get_text(address, path)?)?)
}

/// Asks as the default user.
pub fn get_text(address: SocketAddr, path: &str) -> Result<String> {
    // 1.0: the answer ends with the connection and is not in chunks.
    let request = request(address, &format!("GET {path} HTTP/1.0"), &[]);
    let answer = exchange(address, &request, DEADLINE);
    answer.with_context(|| format!("GET {path} at {address}"))
}

/// Sends JSON as the default user. It may take minutes.
pub fn post(address: SocketAddr, path: &str, json: &str) -> Result<String> {
    let length = json.len().to_string();
    let headers = [
        ("Content-Type", "application/json"),
        ("Content-Length", length.as_str()),
    ];
    let request = request(address, &format!("POST {path} HTTP/1.0"), &headers) + json;
    let answer = exchange(address, &request, LONG);
    answer.with_context(|| format!("POST {path} at {address}"))
}

/// The head of a request as the default user, from its first line.
pub fn request(address: SocketAddr, line: &str, headers: &[(&str, &str)]) -> String {
    let mut head = format!("{line}\r\nHost: {address}\r\nAuthorization: Basic {CREDENTIALS}\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head + "\r\n"
}

fn exchange(address: SocketAddr, request: &str, deadline: Duration) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, DEADLINE)?;
    stream.set_read_timeout(Some(deadline))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    body(&String::from_utf8_lossy(&answer))
}

fn body(answer: &str) -> Result<String> {
    let (head, body) = answer.split_once("\r\n\r\n").context("a cut answer")?;
    let status = head.lines().next().unwrap_or_default();
    if !matches!(status.split(' ').nth(1), Some("200" | "204")) {
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
