//! What those who are in, and honest logins, notice of a flood of wrong logins.
//!
//! One client publishes and awaits each confirm, in rounds without and with each flood. Meanwhile
//! users who have never logged in do so from an address of their own, and one who has from the
//! flood's. Machines differ, and so do moments: the ratio of neighbouring rounds is what counts.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use socket2::{Domain, Protocol, Socket, Type};

use super::report::{Measured, Options};
use crate::broker::{Broker, Kind};
use crate::client::{Client, Event, Table};
use crate::numbers::{median, table};
use crate::{certificates, ports, procfs, run as programs};

/// Pause between two publishes: the publisher is awake, and does not fill a processor by itself.
const PUBLISH_PAUSE: Duration = Duration::from_millis(1);
/// Pause between two honest logins of a kind.
const LOGIN_PAUSE: Duration = Duration::from_millis(500);
/// A confirm, or an answer to a login, that does not come for this long never does.
const PATIENCE: Duration = Duration::from_secs(60);
/// Wrong logins a second of the floods over AMQP: sixteen times those of the attack that stopped
/// publishers once.
const AMQP_RATE: u64 = 400;
/// Sockets of the flood over AMQP that are open at once.
const AMQP_OPEN: usize = 512;
/// Clients of the flood over HTTP.
const HTTP_CLIENTS: usize = 20;
/// Clients of the flood over TLS: each waits for the node's part of its handshakes.
const TLS_CLIENTS: u64 = 16;
/// When a client of a flood that hangs up does so.
pub(super) const HANG_UP: Duration = Duration::from_millis(100);
/// By how much the floods' threads stand back where they cannot do so altogether.
const FLOOD_NICENESS: i32 = 19;
/// Users whose hash costs as much as one may.
const COSTLY_USERS: u64 = 4;
/// As much memory and as many passes as a hash may ask for when a user is made. Nobody knows the
/// password.
const COSTLY_HASH: &str =
    "$argon2id$v=19$m=65536,t=3,p=1$YWJjZGVmZ2g$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
/// Users who log in for the first time.
const HONEST_USERS: u64 = 64;
/// From where they do.
const HONEST: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 1);
/// From where a flood of one address comes.
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 2, 1);

/// A flood of wrong logins; no two of them bring the same password.
#[derive(Clone, Copy, PartialEq)]
enum Flood {
    None,
    /// One user's password is guessed over AMQP; no answer is awaited.
    Guesses,
    /// Over AMQP names are tried that nobody has.
    Names,
    /// Over HTTP, by clients that hang up.
    Http,
    /// Over AMQP with TLS, names that nobody has; no session is resumed.
    Tls,
    /// Over AMQP at users with the costliest hash.
    Costly,
    /// Over AMQP from many addresses, each of which tries a few passwords.
    Addresses,
}

const FLOODS: &[(Flood, &str)] = &[
    (Flood::Guesses, "one user over AMQP, unawaited"),
    (Flood::Names, "unknown users over AMQP"),
    (Flood::Http, "over HTTP, hanging up"),
    (Flood::Tls, "unknown users over AMQP with TLS"),
    (Flood::Costly, "users with the costliest hash"),
    (Flood::Addresses, "unknown users from 1,000 addresses"),
];

/// How often one of the floods' addresses changes.
fn stranger(flood: Flood, number: u64) -> Ipv4Addr {
    match flood {
        Flood::Addresses => {
            let place = number % 1_000;
            Ipv4Addr::new(127, 1, (place / 250) as u8, (place % 250) as u8 + 1)
        }
        _ => STRANGER,
    }
}

/// Connects from an address of loopback.
pub(super) fn dial(from: Ipv4Addr, to: SocketAddr) -> Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.connect_timeout(&to.into(), PATIENCE)?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A protocol header and a login by PLAIN.
pub(super) fn login(user: &str, password: &str) -> Vec<u8> {
    let response = format!("\0{user}\0{password}");
    let mut payload = vec![0, 10, 0, 11, 0, 0, 0, 0, 5];
    payload.extend_from_slice(b"PLAIN");
    payload.extend_from_slice(&(response.len() as u32).to_be_bytes());
    payload.extend_from_slice(response.as_bytes());
    payload.extend_from_slice(b"\x05en_US");
    let mut bytes = b"AMQP\x00\x00\x09\x01".to_vec();
    bytes.extend_from_slice(&[1, 0, 0]);
    bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&payload);
    bytes.push(0xCE);
    bytes
}

/// Logs in and waits for the answer; gives how long that took.
pub(super) fn timed_login(
    from: Ipv4Addr,
    to: SocketAddr,
    user: &str,
    password: &str,
) -> Result<f64> {
    let started = Instant::now();
    let mut stream = dial(from, to)?;
    stream.write_all(&login(user, password))?;
    // `start`, then `tune` or `close`.
    for wanted in [10, 30] {
        let mut head = [0; 11];
        stream.read_exact(&mut head).context("a closed socket")?;
        let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
        let method = u16::from_be_bytes([head[9], head[10]]);
        if method != wanted {
            bail!("{user} is not let in: method {method} of the connection");
        }
        let mut rest = vec![0; size + 1 - 4];
        stream.read_exact(&mut rest)?;
    }
    Ok(started.elapsed().as_secs_f64() * 1_000.0)
}

/// Lets this thread run when nobody else wants the processor: floods come from other machines, and
/// what it costs to make one is not to hold up the node.
///
/// Niceness alone does not: a thread ends its turn of a millisecond or more before a more urgent
/// one that is woken meanwhile, unless it is of the class for idle processors.
pub(super) fn stand_back() {
    if !is_of_idle_class() {
        // Where the system refuses this too, the floods' threads are in the node's way.
        let _ = rustix::process::setpriority_process(None, FLOOD_NICENESS);
    }
}

/// Puts this thread into the class for idle processors; whether it is.
fn is_of_idle_class() -> bool {
    let Ok(thread) = std::fs::read_link("/proc/thread-self") else {
        return false;
    };
    let number = thread.file_name().unwrap_or_default();
    let mut chrt = Command::new("chrt");
    chrt.args(["--idle", "--pid", "0"]).arg(number);
    chrt.status().is_ok_and(|status| status.success())
}

/// Sends wrong logins over AMQP at a rate until it is told to stop.
fn flood_amqp(flood: Flood, to: SocketAddr, stop: &AtomicBool, sent: &AtomicU64) {
    stand_back();
    let mut open = std::collections::VecDeque::new();
    let (started, mut number) = (Instant::now(), 0);
    while !stop.load(Ordering::Relaxed) {
        let due = started.elapsed().as_millis() as u64 * AMQP_RATE / 1_000;
        while number < due && !stop.load(Ordering::Relaxed) {
            let user = match flood {
                Flood::Guesses => "victim".to_owned(),
                Flood::Costly => format!("costly-{}", number % COSTLY_USERS),
                _ => format!("nobody-{}", sent.load(Ordering::Relaxed)),
            };
            let password = format!("wrong-{}", sent.load(Ordering::Relaxed));
            // A broker that does not take it has turned it away, which is as good a flood.
            if let Ok(mut stream) = dial(stranger(flood, number), to) {
                let _ = stream.write_all(&login(&user, &password));
                open.push_back(stream);
            }
            if open.len() > AMQP_OPEN {
                open.pop_front();
            }
            number += 1;
            sent.fetch_add(1, Ordering::Relaxed);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Settings of clients that trust the authority in this folder, and begin each session anew.
fn tls_settings(folder: &Path) -> Result<Arc<ClientConfig>> {
    let authority = CertificateDer::from_pem_file(folder.join("ca_certificate.pem"))?;
    let mut roots = RootCertStore::empty();
    roots.add(authority)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions()?;
    let builder = builder.with_root_certificates(roots);
    let mut settings = builder.with_no_client_auth();
    settings.resumption = Resumption::disabled();
    Ok(Arc::new(settings))
}

/// Sends wrong logins over AMQP with TLS at its share of the rate until it is told to stop.
fn flood_tls(target: &TlsTarget, stop: &AtomicBool, sent: &AtomicU64) {
    stand_back();
    let mut open = std::collections::VecDeque::new();
    let (started, mut number) = (Instant::now(), 0);
    while !stop.load(Ordering::Relaxed) {
        let due = started.elapsed().as_millis() as u64 * AMQP_RATE / 1_000 / TLS_CLIENTS;
        while number < due && !stop.load(Ordering::Relaxed) {
            number += 1;
            let which = sent.fetch_add(1, Ordering::Relaxed);
            let login = login(&format!("nobody-{which}"), &format!("wrong-{which}"));
            // A broker that does not take it has turned it away, which is as good a flood.
            if let Ok(stream) = target.log_in(&login) {
                open.push_back(stream);
            }
            if open.len() > AMQP_OPEN / TLS_CLIENTS as usize {
                open.pop_front();
            }
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Where the node speaks TLS, and what its clients need.
struct TlsTarget {
    address: SocketAddr,
    settings: Arc<ClientConfig>,
}

impl TlsTarget {
    /// Sends a login, whose answer nobody awaits, behind a whole handshake.
    fn log_in(&self, login: &[u8]) -> Result<StreamOwned<ClientConnection, TcpStream>> {
        let stream = dial(STRANGER, self.address)?;
        let name = self.address.ip().into();
        let session = ClientConnection::new(Arc::clone(&self.settings), name)?;
        let mut stream = StreamOwned::new(session, stream);
        stream.write_all(login)?;
        Ok(stream)
    }
}

/// Asks over HTTP with wrong passwords and hangs up, until it is told to stop.
fn flood_http(to: SocketAddr, stop: &AtomicBool, sent: &AtomicU64) {
    stand_back();
    while !stop.load(Ordering::Relaxed) {
        let number = sent.fetch_add(1, Ordering::Relaxed);
        let request = basic(to, "victim", &format!("wrong-http-{number}"));
        if let Ok(mut stream) = dial(STRANGER, to) {
            let _ = stream.write_all(request.as_bytes());
            let _ = stream.set_read_timeout(Some(HANG_UP));
            let _ = stream.read(&mut [0; 512]);
        }
    }
}

/// A question over HTTP by a user.
pub(super) fn basic(to: SocketAddr, user: &str, password: &str) -> String {
    let credentials = base64(format!("{user}:{password}").as_bytes());
    format!("GET /api/whoami HTTP/1.1\r\nHost: {to}\r\nAuthorization: Basic {credentials}\r\n\r\n")
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let mut three = [0; 3];
        three[..part.len()].copy_from_slice(part);
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place > part.len() {
                '='
            } else {
                letter.into()
            });
        }
    }
    text
}

/// What was seen in one round.
#[derive(Default)]
struct Round {
    /// Of each confirm, in milliseconds.
    confirms: Vec<f64>,
    /// Of users who have not logged in before, from another address, in milliseconds.
    first_logins: Vec<f64>,
    /// Of one who has, from the flood's own address.
    known_logins: Vec<f64>,
    /// Wrong logins a second.
    wrong_rate: f64,
    /// Of a processor, in per cent.
    cpu_percent: f64,
    rss_mb: f64,
}

fn percentile(figures: &[f64], share: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(place).copied().unwrap_or(f64::NAN)
}

/// The greatest of some figures; zero of none.
pub(super) fn worst(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(0.0, f64::max)
}

/// Publishes one message after the other, each when the one before is confirmed.
fn publish(client: &mut Client, stop: &AtomicBool) -> Result<Vec<f64>> {
    let mut took = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let started = Instant::now();
        client.publish("", "logins", &[0x5A; 100], false);
        client.flush()?;
        match client.next(PATIENCE)? {
            Some(Event::Confirm { refused: false, .. }) => {}
            other => bail!("wanted a confirm, got {other:?}"),
        }
        took.push(started.elapsed().as_secs_f64() * 1_000.0);
        thread::sleep(PUBLISH_PAUSE);
    }
    Ok(took)
}

fn log_in(to: SocketAddr, next: &AtomicU64, stop: &AtomicBool) -> Result<(Vec<f64>, Vec<f64>)> {
    let (mut first, mut known) = (Vec::new(), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number < HONEST_USERS {
            first.push(timed_login(
                HONEST,
                to,
                &format!("honest-{number}"),
                "right",
            )?);
        }
        known.push(timed_login(STRANGER, to, "known", "right")?);
        thread::sleep(LOGIN_PAUSE);
    }
    Ok((first, known))
}

fn play(
    (broker, tls): (&Broker, &TlsTarget),
    client: &mut Client,
    flood: Flood,
    next: &AtomicU64,
    lasting: Duration,
) -> Result<Round> {
    let (stop, sent) = (
        AtomicBool::new(false),
        AtomicU64::new(next.load(Ordering::Relaxed) << 32),
    );
    let before = sent.load(Ordering::Relaxed);
    let (amqp, http) = (broker.amqp, broker.http);
    let used = procfs::usage(broker.pid())?;
    let mut round = Round::default();
    thread::scope(|scope| -> Result<()> {
        match flood {
            Flood::None => {}
            Flood::Http => {
                for _ in 0..HTTP_CLIENTS {
                    scope.spawn(|| flood_http(http, &stop, &sent));
                }
            }
            Flood::Tls => {
                for _ in 0..TLS_CLIENTS {
                    scope.spawn(|| flood_tls(tls, &stop, &sent));
                }
            }
            _ => drop(scope.spawn(|| flood_amqp(flood, amqp, &stop, &sent))),
        }
        let publishing = scope.spawn(|| publish(client, &stop));
        let logging_in = scope.spawn(|| log_in(amqp, next, &stop));
        thread::sleep(lasting);
        stop.store(true, Ordering::Relaxed);
        round.confirms = publishing.join().expect("publishing does not panic")?;
        (round.first_logins, round.known_logins) =
            logging_in.join().expect("logging in does not panic")?;
        Ok(())
    })?;
    let now = procfs::usage(broker.pid())?;
    round.wrong_rate = (sent.load(Ordering::Relaxed) - before) as f64 / lasting.as_secs_f64();
    round.cpu_percent = (now.cpu_s - used.cpu_s) / lasting.as_secs_f64() * 100.0;
    round.rss_mb = now.rss_bytes as f64 / 1e6;
    Ok(round)
}

/// A queue that keeps no more than a few messages: nobody takes them.
fn short() -> Table {
    let mut arguments = Table::default();
    arguments.number("x-max-length", 100);
    arguments
}

/// A node whose users have slow hashes, and where it speaks TLS.
fn start() -> Result<(Broker, TlsTarget)> {
    let folder = programs::target_folder("bench/certificates")?;
    certificates::make(&folder)?;
    let target = TlsTarget {
        address: ports::free(1)?[0],
        settings: tls_settings(&folder)?,
    };
    let (tls, files) = (target.address, folder.display());
    let broker = Broker::start(
        Kind::Leveret,
        "logins",
        &[
            "password_hashing_module = argon2id",
            &format!("listeners.ssl.1 = {tls}"),
            &format!("ssl_options.certfile = {files}/server_certificate.pem"),
            &format!("ssl_options.keyfile = {files}/server_key.pem"),
        ],
    )?;
    let honest = (0..HONEST_USERS).map(|number| format!("honest-{number}"));
    for user in honest.chain(["victim".to_owned(), "known".to_owned()]) {
        broker.ctl(&["add_user", &user, "right"])?;
    }
    for number in 0..COSTLY_USERS {
        let user = format!("costly-{number}");
        broker.ctl(&["add_user", &user, COSTLY_HASH, "--pre-hashed-password"])?;
    }
    Ok((broker, target))
}

/// Each flood beside rounds without one.
pub fn run(options: &Options) -> Result<Measured> {
    let (rounds, lasting) = match options.fast {
        true => (1, Duration::from_secs(5)),
        false => (3, Duration::from_secs(10)),
    };
    let (mut rows, mut records) = (Vec::new(), Vec::new());
    for (flood, name) in FLOODS.iter().filter(|(_, name)| options.wants(name)) {
        let (broker, tls) = start()?;
        let targets = (&broker, &tls);
        let mut client = Client::connect(broker.amqp)?;
        client.declare_as("logins", &short())?;
        client.confirm_select()?;
        timed_login(STRANGER, broker.amqp, "known", "right")?;
        let next = AtomicU64::new(0);
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            without.push(play(targets, &mut client, Flood::None, &next, lasting)?);
            with.push(play(targets, &mut client, *flood, &next, lasting)?);
        }
        let (row, record) = told(name, &without, &with);
        println!("{record}");
        rows.push(row);
        records.push(record);
    }
    let head = [
        "flood of wrong logins",
        "a second",
        "confirm p99 ms without",
        "with",
        "ratio",
        "worst first login ms",
        "worst known login ms",
        "CPU %",
        "MB",
    ];
    Ok(Measured {
        text: table(&head, &rows),
        json: json!(records),
    })
}

fn told(name: &str, without: &[Round], with: &[Round]) -> (Vec<String>, Value) {
    let p99 = |rounds: &[Round]| -> Vec<f64> {
        rounds
            .iter()
            .map(|r| percentile(&r.confirms, 0.99))
            .collect()
    };
    let (quiet, flooded) = (p99(without), p99(with));
    let ratios: Vec<f64> = quiet.iter().zip(&flooded).map(|(q, f)| f / q).collect();
    let all = |of: fn(&Round) -> f64| median(&with.iter().map(of).collect::<Vec<_>>());
    let worst_of = |of: fn(&Round) -> f64| worst(&with.iter().map(of).collect::<Vec<_>>());
    let first = worst_of(|round| worst(&round.first_logins));
    let known = worst_of(|round| worst(&round.known_logins));
    let figures = [
        format!("{:.0}", all(|round| round.wrong_rate)),
        format!("{:.2}", median(&quiet)),
        format!("{:.2}", median(&flooded)),
        format!("{:.2}", median(&ratios)),
        format!("{first:.0}"),
        format!("{known:.0}"),
        format!("{:.0}", all(|round| round.cpu_percent)),
        format!("{:.0}", worst_of(|round| round.rss_mb)),
    ];
    let row = std::iter::once(name.to_owned()).chain(figures).collect();
    let record = json!({
        "flood": name,
        "wrong_logins_per_s": all(|round| round.wrong_rate),
        "confirm_p99_ms": {"without": quiet, "with": flooded},
        "ratio": median(&ratios),
        "first_login_ms_max": first,
        "known_login_ms_max": known,
        "cpu_percent": all(|round| round.cpu_percent),
        "rss_mb": worst_of(|round| round.rss_mb),
    });
    (row, record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_written_as_basic_authentication_wants_them() {
        for (plain, text) in [
            ("guest:guest", "Z3Vlc3Q6Z3Vlc3Q="),
            ("a", "YQ=="),
            ("abc", "YWJj"),
        ] {
            assert_eq!(base64(plain.as_bytes()), text);
        }
    }

    #[test]
    fn the_last_percent_is_what_is_beyond_the_others() {
        let figures: Vec<f64> = (0..1_000).map(f64::from).collect();
        assert_eq!(percentile(&figures, 0.99), 990.0);
        assert_eq!(percentile(&[3.0], 0.99), 3.0);
        assert!(percentile(&[], 0.99).is_nan());
    }

    #[test]
    fn a_flood_of_many_addresses_has_a_thousand_of_them() {
        let all = (0..5_000).map(|number| stranger(Flood::Addresses, number));
        assert_eq!(all.collect::<std::collections::BTreeSet<_>>().len(), 1_000);
    }
}
