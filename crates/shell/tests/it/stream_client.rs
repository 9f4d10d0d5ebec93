//! A client of the stream protocol that says frame by frame what it wants.

use crate::client::connect;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

pub const RESPONSE: u16 = 0x8000;
pub const OK: u16 = 1;

pub fn text(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u16).to_be_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

/// A client of the stream protocol.
pub struct StreamClient(pub TcpStream);

impl StreamClient {
    pub fn send(&mut self, key: u16, parts: &[&[u8]]) {
        self.send_version(1, key, parts);
    }

    fn send_version(&mut self, version: u16, key: u16, parts: &[&[u8]]) {
        let body = parts.concat();
        let mut frame = (4 + body.len() as u32).to_be_bytes().to_vec();
        frame.extend(key.to_be_bytes());
        frame.extend(version.to_be_bytes());
        frame.extend(body);
        self.0.write_all(&frame).expect("sent");
    }

    /// The next frame behind its size that is no heartbeat.
    pub fn frame(&mut self) -> Vec<u8> {
        let mut size = [0; 4];
        self.0.read_exact(&mut size).expect("a frame");
        let mut frame = vec![0; u32::from_be_bytes(size) as usize];
        self.0.read_exact(&mut frame).expect("a whole frame");
        frame
    }

    /// The key of a frame and what follows the version.
    pub fn heard(&mut self) -> (u16, Vec<u8>) {
        let frame = self.frame();
        (
            u16::from_be_bytes([frame[0], frame[1]]),
            frame[4..].to_vec(),
        )
    }

    /// Asks, and gives the code of the answer and what follows it.
    pub fn ask(&mut self, key: u16, parts: &[&[u8]]) -> (u16, Vec<u8>) {
        let id = 7_u32.to_be_bytes();
        let all: Vec<&[u8]> = std::iter::once(&id[..])
            .chain(parts.iter().copied())
            .collect();
        self.send(key, &all);
        let (answered, body) = self.heard();
        assert_eq!(answered, key | RESPONSE, "{body:?}");
        assert_eq!(body[..4], id);
        (u16::from_be_bytes([body[4], body[5]]), body[6..].to_vec())
    }

    /// Logs in, and opens the virtual host.
    pub fn open(address: SocketAddr, password: &str) -> Result<Self, u16> {
        Self::open_as(address, "guest", password, "/")
    }

    /// The same as any user, in any virtual host.
    pub fn open_as(
        address: SocketAddr,
        user: &str,
        password: &str,
        vhost: &str,
    ) -> Result<Self, u16> {
        let mut client = Self(connect(address));
        assert_eq!(client.ask(0x11, &[&0_u32.to_be_bytes()]).0, OK);
        assert_eq!(client.ask(0x12, &[]).0, OK);
        let response = format!("\0{user}\0{password}");
        let length = (response.len() as u32).to_be_bytes();
        let login = client.ask(0x13, &[&text("PLAIN"), &length, response.as_bytes()]);
        if login.0 != OK {
            return Err(login.0);
        }
        let (key, tune) = client.heard();
        assert_eq!(key, 0x14);
        client.send(0x8014, &[&tune]);
        match client.ask(0x15, &[&text(vhost)]).0 {
            OK => Ok(client),
            code => Err(code),
        }
    }

    pub fn create(&mut self, stream: &str) -> u16 {
        self.ask(0x0d, &[&text(stream), &0_u32.to_be_bytes()]).0
    }

    /// Publishes messages with the ids from `first`, and waits for their confirms.
    pub fn publish(&mut self, first: u64, bodies: &[&str]) {
        let mut batch = Vec::new();
        for (id, body) in (first..).zip(bodies) {
            batch.extend(id.to_be_bytes());
            batch.extend((body.len() as u32).to_be_bytes());
            batch.extend(body.as_bytes());
        }
        self.send(0x02, &[&[1], &(bodies.len() as u32).to_be_bytes(), &batch]);
        self.await_confirms(bodies.len() as u32);
    }

    fn await_confirms(&mut self, count: u32) {
        let mut confirmed = 0;
        while confirmed < count {
            let (key, body) = self.heard();
            assert_eq!(key, 0x03, "{body:?}");
            confirmed += u32::from_be_bytes([body[1], body[2], body[3], body[4]]);
        }
    }

    /// Publishes batches of messages, each with a filter value or none, with the ids from `first`,
    /// and waits for their confirms.
    pub fn publish_batches(&mut self, first: u64, batches: &[(Option<&str>, &[String])]) {
        let mut entries = Vec::new();
        for (id, (filter, bodies)) in (first..).zip(batches) {
            entries.extend(id.to_be_bytes());
            entries.extend(filter.map_or(vec![0xff; 2], text));
            let mut data = Vec::new();
            for body in *bodies {
                data.extend((body.len() as u32).to_be_bytes());
                data.extend(body.as_bytes());
            }
            let length = (data.len() as u32).to_be_bytes();
            entries.push(0x80);
            entries.extend((bodies.len() as u16).to_be_bytes());
            entries.extend([length, length].concat());
            entries.extend(data);
        }
        let count = batches.len() as u32;
        self.send_version(2, 0x02, &[&[1], &count.to_be_bytes(), &entries]);
        self.await_confirms(count);
    }

    /// Subscribes from the first message on to those alone that match, as single messages are asked
    /// for, and reads so many batches: the offset of each one's first message, and its messages.
    pub fn read_batches(
        &mut self,
        stream: &str,
        values: &[&str],
        count: usize,
    ) -> Vec<(u64, Vec<String>)> {
        let (first, credit) = (1_u16.to_be_bytes(), 100_u16.to_be_bytes());
        let mut properties = vec![("filter-messages".to_owned(), "true")];
        for (number, value) in values.iter().enumerate() {
            properties.push((format!("filter.{number}"), value));
        }
        let pairs = properties.iter();
        let pairs: Vec<Vec<u8>> = pairs
            .map(|(name, value)| [text(name), text(value)].concat())
            .collect();
        let length = (pairs.len() as u32).to_be_bytes();
        let said = [&length[..], &pairs.concat()].concat();
        let answer = self.ask(0x07, &[&[2], &text(stream), &first, &credit, &said]);
        assert_eq!(answer.0, OK);
        let mut found = Vec::new();
        while found.len() < count {
            let (key, body) = self.heard();
            assert_eq!((key, body[0]), (0x08, 2), "a delivery: {body:?}");
            found.extend(batches_of(&body[1..]));
        }
        found
    }

    /// Reads the bodies of so many messages of a stream from its first on.
    pub fn read(&mut self, stream: &str, count: usize) -> Vec<String> {
        self.try_read(stream, count).expect("all are delivered")
    }

    /// The same; nothing if the stream cannot be read there now.
    pub fn try_read(&mut self, stream: &str, count: usize) -> Option<Vec<String>> {
        match self.subscribe(stream) {
            OK => self.bodies(count),
            _ => None,
        }
    }

    /// Subscribes from the first message on, for a hundred chunks.
    pub fn subscribe(&mut self, stream: &str) -> u16 {
        let (first, credit) = (1_u16.to_be_bytes(), 100_u16.to_be_bytes());
        let none = 0_u32.to_be_bytes();
        let answer = self.ask(0x07, &[&[1], &text(stream), &first, &credit, &none]);
        answer.0
    }

    /// The bodies of so many messages that are delivered; nothing if something else comes.
    pub fn bodies(&mut self, count: usize) -> Option<Vec<String>> {
        let mut bodies = Vec::new();
        while bodies.len() < count {
            let (key, body) = self.heard();
            if key != 0x08 {
                return None;
            }
            let mut entries = &body[1 + 48..];
            while let Some((size, rest)) = entries.split_at_checked(4) {
                let size = u32::from_be_bytes(size.try_into().expect("four octets")) as usize;
                bodies.push(String::from_utf8_lossy(&rest[..size]).into_owned());
                entries = &rest[size..];
            }
        }
        Some(bodies)
    }

    pub fn declare_publisher(&mut self, stream: &str) -> u16 {
        self.ask(0x01, &[&[1], &text(""), &text(stream)]).0
    }
}

/// The batches of a chunk: the offset of each one's first message, and its messages.
fn batches_of(chunk: &[u8]) -> Vec<(u64, Vec<String>)> {
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().expect("four octets"));
    let mut offset = u64::from_be_bytes(chunk[24..32].try_into().expect("eight octets"));
    let mut entries = &chunk[48..][..number(&chunk[36..40]) as usize];
    let mut found = Vec::new();
    while !entries.is_empty() {
        assert_eq!(entries[0], 0x80, "a batch that is not compressed");
        let (mut data, rest) = entries[11..].split_at(number(&entries[7..11]) as usize);
        entries = rest;
        let mut bodies = Vec::new();
        while let Some((size, rest)) = data.split_at_checked(4) {
            let (body, rest) = rest.split_at(number(size) as usize);
            bodies.push(String::from_utf8_lossy(body).into_owned());
            data = rest;
        }
        let first = offset;
        offset += bodies.len() as u64;
        found.push((first, bodies));
    }
    found
}
