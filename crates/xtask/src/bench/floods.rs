//! Floods of strangers, and what others notice of them: sockets that say nothing, guesses at
//! passwords, half-open links between nodes, wrong logins. `docs/security.md` has the figures.
//!
//! All of it happens on this machine's loopback, strangers at addresses of their own there, and
//! each flood is bounded by its number of sockets and its time. Their threads stand back for the
//! node and its clients: floods come from other machines.

mod guesses;
mod joining;
mod silent;

use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use anyhow::{Result, bail};
use serde_json::{Map, Value};

use super::logins;
use super::report::{Measured, Options, docs, page_of, write_into_page};
use crate::broker::Kind;

/// From where a flood of one address comes.
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 2, 1);
/// From where everybody else does.
const HONEST: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 1);

/// A part is one flood.
type Part = fn(&Options) -> Result<Measured>;

const PARTS: &[(&str, Part)] = &[
    ("silent", silent::run),
    ("guesses", guesses::run),
    ("joining", joining::run),
    ("logins", all_logins),
];

/// Each flood, or those that are named; their tables also into the page that has their marks.
pub fn run(options: &Options) -> Result<Measured> {
    let (mut text, mut json) = (String::new(), Map::new());
    let asked = || PARTS.iter().filter(move |(name, _)| options.wants(name));
    if options.write {
        asked().try_for_each(|(name, _)| page_of(&docs(), &mark(name)).map(drop))?;
    }
    for (name, part) in asked() {
        println!("{name}");
        let measured = part(options)?;
        println!("{}", measured.text);
        if options.write {
            write_into_page(&docs(), &mark(name), &measured.text)?;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text += &measured.text;
        json.insert((*name).to_owned(), measured.json);
    }
    if json.is_empty() {
        let names: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
        bail!("no part is called {}; there are {names:?}", options.part);
    }
    Ok(Measured {
        text,
        json: Value::Object(json),
    })
}

/// What a part's table is marked with.
fn mark(part: &str) -> String {
    format!("floods-{part}")
}

/// All floods of `bench logins`.
fn all_logins(options: &Options) -> Result<Measured> {
    logins::run(&Options {
        fast: options.fast,
        write: false,
        only: Some(Kind::Leveret),
        part: String::new(),
    })
}

/// Opens a socket that says nothing, and that is looked at without waiting.
fn open_silent(from: Ipv4Addr, to: SocketAddr) -> Result<TcpStream> {
    let stream = logins::dial(from, to)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Whether the other side has not ended such a socket; what it says is dropped.
fn is_open(mut stream: &TcpStream) -> bool {
    loop {
        match stream.read(&mut [0; 512]) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    #[test]
    fn each_floods_table_has_a_place_in_a_page() {
        for (name, _) in PARTS {
            page_of(&docs(), &mark(name)).expect("marks");
        }
    }

    #[test]
    fn a_socket_is_open_until_the_other_side_ends_it_whatever_that_says_before() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let to = listener.local_addr().expect("its address");
        let stream = open_silent(STRANGER, to).expect("it listens");
        let (mut other, from) = listener.accept().expect("somebody has come");
        assert_eq!(from.ip(), STRANGER);
        other.write_all(b"hello").expect("a word");
        assert!(is_open(&stream));
        drop(other);
        // The end takes a moment to arrive.
        stream.set_nonblocking(false).expect("it may wait");
        assert!(!is_open(&stream));
    }
}
