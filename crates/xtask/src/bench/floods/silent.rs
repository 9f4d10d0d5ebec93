//! Very many sockets of one address that say nothing, at each of a node's ports: when somebody at
//! another address is answered meanwhile, and when the sockets are gone.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{HONEST, STRANGER, is_open, open_silent};
use crate::bench::logins::{dial, stand_back, timed_login, worst};
use crate::bench::report::{Measured, Options};
use crate::broker::{Broker, Kind};
use crate::numbers::{median, table};
use crate::stream_client::StreamClient;
use crate::{http, procfs};

/// Sockets of the flood that are open at once.
const SOCKETS: usize = 2_500;
const SOCKETS_OF_A_SHORT_RUN: usize = 300;
/// How long the port is watched once all of them have been opened.
const WATCHED: Duration = Duration::from_secs(12);
/// Pause between two questions of the honest one.
const PAUSE: Duration = Duration::from_millis(250);
/// Pause between two looks for sockets that have ended.
const LOOK: Duration = Duration::from_millis(20);

/// A node's ports for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    Http,
    Metrics,
    Amqp,
    Streams,
}

const PORTS: [(Port, &str); 4] = [
    (Port::Http, "HTTP"),
    (Port::Metrics, "metrics"),
    (Port::Amqp, "AMQP"),
    (Port::Streams, "streams"),
];

impl Port {
    fn address(self, broker: &Broker) -> SocketAddr {
        match self {
            Port::Http => broker.http,
            Port::Metrics => broker.metrics,
            Port::Amqp => broker.amqp,
            Port::Streams => broker.stream,
        }
    }

    /// Connects, logs in and is answered: in how many milliseconds.
    fn ask(self, to: SocketAddr) -> Result<f64> {
        let began = Instant::now();
        match self {
            Port::Http => get(to, "/api/whoami")?,
            Port::Metrics => get(to, "/metrics")?,
            Port::Amqp => drop(timed_login(HONEST, to, "guest", "guest")?),
            Port::Streams => drop(StreamClient::over(dial(HONEST, to)?)?),
        }
        Ok(began.elapsed().as_secs_f64() * 1_000.0)
    }
}

fn get(to: SocketAddr, path: &str) -> Result<()> {
    let mut stream = dial(HONEST, to)?;
    let request = http::request(to, &format!("GET {path} HTTP/1.0"), &[]);
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let status = answer.split(|byte| *byte == b' ').nth(1);
    ensure!(
        status == Some(b"200"),
        "GET {path} is not answered with 200"
    );
    Ok(())
}

/// What was seen at one port.
struct Seen {
    /// Of the honest one's questions, in milliseconds.
    answers: Vec<f64>,
    /// Sockets that were opened in all.
    opened: usize,
    /// Of them, those that were still open at the end.
    left: usize,
    cpu_percent: f64,
    rss_mb: f64,
}

/// Opens so many sockets, keeps them, opens new ones for those that end if asked for, until it is
/// told to stop. Gives those that are left.
fn flood(to: SocketAddr, count: usize, again: bool, flooding: &Flooding) -> Vec<TcpStream> {
    stand_back();
    let mut sockets = Vec::with_capacity(count);
    while !flooding.over.load(Ordering::Relaxed) {
        sockets.retain(is_open);
        let wanted = match again {
            true => count - sockets.len(),
            false => count.saturating_sub(flooding.opened.load(Ordering::Relaxed)),
        };
        for _ in 0..wanted {
            if flooding.over.load(Ordering::Relaxed) {
                break;
            }
            // Who is not let in has made as much work.
            sockets.extend(open_silent(STRANGER, to));
            flooding.opened.fetch_add(1, Ordering::Relaxed);
        }
        thread::sleep(LOOK);
    }
    sockets.retain(is_open);
    sockets
}

#[derive(Default)]
struct Flooding {
    over: AtomicBool,
    opened: AtomicUsize,
}

fn watch(port: Port, count: usize, again: bool) -> Result<Seen> {
    let broker = Broker::start(Kind::Leveret, "floods", &["loopback_users = none"])?;
    let to = port.address(&broker);
    port.ask(to).context("before the flood")?;
    let before = procfs::usage(broker.pid())?;
    let (began, flooding) = (Instant::now(), Flooding::default());
    let (answers, left) = thread::scope(|scope| {
        let flooded = scope.spawn(|| flood(to, count, again, &flooding));
        let answers = ask_meanwhile(port, to, || {
            flooding.opened.load(Ordering::Relaxed) >= count
        });
        flooding.over.store(true, Ordering::Relaxed);
        let left = flooded.join().expect("a flood does not panic");
        (answers, left.len())
    });
    let used = procfs::usage(broker.pid())?;
    Ok(Seen {
        answers: answers?,
        opened: flooding.opened.into_inner(),
        left,
        cpu_percent: (used.cpu_s - before.cpu_s) / began.elapsed().as_secs_f64() * 100.0,
        rss_mb: used.rss_bytes_max as f64 / 1e6,
    })
}

/// Asks again and again until all have been open for the time that is watched.
fn ask_meanwhile(port: Port, to: SocketAddr, all_are_open: impl Fn() -> bool) -> Result<Vec<f64>> {
    let (mut answers, mut since) = (Vec::new(), None::<Instant>);
    while since.is_none_or(|since| since.elapsed() < WATCHED) {
        answers.push(port.ask(to).context("beside silent sockets")?);
        thread::sleep(PAUSE);
        if since.is_none() && all_are_open() {
            since = Some(Instant::now());
        }
    }
    Ok(answers)
}

/// Each port, with sockets that are opened once, and with ones that come again when they are ended.
pub fn run(options: &Options) -> Result<Measured> {
    let count = match options.fast {
        true => SOCKETS_OF_A_SHORT_RUN,
        false => SOCKETS,
    };
    let (mut rows, mut records) = (Vec::new(), Vec::new());
    for (port, name) in PORTS {
        for again in [false, true] {
            let seen = watch(port, count, again).with_context(|| format!("the port of {name}"))?;
            let (row, record) = told(name, again, &seen);
            println!("  {record}");
            rows.push(row);
            records.push(record);
        }
    }
    let open = format!("{count} silent sockets at");
    let head = [
        &open[..],
        "opened in all",
        "others' median ms",
        "others' worst ms",
        "open after 12 s",
        "CPU %",
        "MB",
    ];
    Ok(Measured {
        text: table(&head, &rows),
        json: json!(records),
    })
}

fn told(name: &str, again: bool, seen: &Seen) -> (Vec<String>, Value) {
    let what = match again {
        true => format!("{name}, that come again"),
        false => name.to_owned(),
    };
    let left = match again {
        true => String::new(),
        false => seen.left.to_string(),
    };
    let (middle, worst) = (median(&seen.answers), worst(&seen.answers));
    let row = vec![
        what,
        seen.opened.to_string(),
        format!("{middle:.1}"),
        format!("{worst:.1}"),
        left,
        format!("{:.0}", seen.cpu_percent),
        format!("{:.0}", seen.rss_mb),
    ];
    let record = json!({
        "port": name,
        "again": again,
        "opened": seen.opened,
        "left": seen.left,
        "answers": seen.answers.len(),
        "answer_ms_median": middle,
        "answer_ms_max": worst,
        "cpu_percent": seen.cpu_percent,
        "rss_mb": seen.rss_mb,
    });
    (row, record)
}
