//! A node that has no file descriptor left: who comes is turned away at once, and who comes when
//! there are some again is served.
//!
//! Alone in its program: the limit that it sets is the process's.

#[path = "it/client.rs"]
mod client;

use client::{Client, address, connect, scratch, start};
use leveret_shell::node::Node;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Connections that come at once.
const CROWD: usize = 60;
/// File descriptors that the node has for them.
const LEFT: u64 = 20;
/// Files that the node keeps ready for its log.
const PREPARED: usize = 2;

fn log_in(node: &Node) {
    let socket = connect(address(node, false));
    let client = Client::log_in(socket, "PLAIN", b"\0guest\0guest").expect("logged in");
    client.close();
}

/// Waits until the node has made the files that it keeps ready for its log: one that cannot make
/// them ends.
fn await_prepared_files(folder: &Path) {
    let prepared = || {
        let files = fs::read_dir(folder).expect("a folder");
        let names = files.map(|file| file.expect("a file").file_name());
        let prepared = names.filter(|name| name.to_string_lossy().ends_with(".free"));
        prepared.count()
    };
    while prepared() < PREPARED {
        std::thread::yield_now();
    }
}

/// Lets this process have so many descriptors more than it has.
fn leave(descriptors: u64) {
    let next = File::open("/dev/null").expect("a descriptor").as_raw_fd();
    let limit = Rlimit {
        current: Some(next as u64 + descriptors),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    setrlimit(Resource::Nofile, limit).expect("less is always permitted");
}

/// A process whose descriptors do not count here: it connects, says how many of its connections the
/// node has closed as soon as these are `enough`, or after ten seconds, and waits.
fn crowd(node: &Node, enough: usize) -> Child {
    let to = address(node, false);
    let script = format!(
        "for i in $(seq 10 {last}); do eval \"exec $i<>/dev/tcp/{ip}/{port}\"; done
         for round in $(seq 100); do
             closed=0
             for i in $(seq 10 {last}); do read -t 0 -u $i && closed=$((closed + 1)); done
             [ $closed -ge {enough} ] && break
             sleep 0.1
         done
         echo $closed
         read _",
        last = 9 + CROWD,
        ip = to.ip(),
        port = to.port(),
    );
    let bash = Command::new("bash")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    bash.expect("bash")
}

#[test]
fn who_comes_too_many_is_turned_away_and_who_comes_later_is_served() {
    let scratch = scratch("few-descriptors");
    let node = start(scratch.path(), None);
    log_in(&node);
    await_prepared_files(&scratch.path().join("wal"));
    let enough = CROWD - LEFT as usize;
    // The crowd's own pipes come first.
    let mut crowd = crowd(&node, enough);
    let mut said = BufReader::new(crowd.stdout.take().expect("a pipe"));
    leave(LEFT);
    let mut closed = String::new();
    said.read_line(&mut closed).expect("the crowd speaks");
    let closed: usize = closed.trim().parse().expect("a number");
    assert!(closed >= enough, "{closed} of {CROWD} were turned away");
    crowd.kill().expect("it runs");
    crowd.wait().expect("it has ended");
    while node.broker.connection_count() > 0 {
        std::thread::yield_now();
    }
    log_in(&node);
    node.shut_down();
}
