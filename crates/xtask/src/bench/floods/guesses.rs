//! Guesses at one user's password by clients that hang up: how many of them are computed, and when
//! the user's own login, and others', get in.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{HONEST, STRANGER};
use crate::bench::logins::{HANG_UP, basic, dial, login, stand_back, timed_login, worst};
use crate::bench::report::{Measured, Options};
use crate::broker::{Broker, Kind};
use crate::http;
use crate::numbers::{median, table};

/// Clients that guess at once.
const CLIENTS: usize = 10;
/// How long they guess.
const LASTING: Duration = Duration::from_secs(10);
/// Their free attempts are used up by then, and the honest logins come.
const BEFORE_HONEST: Duration = Duration::from_secs(3);

/// Over what they guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Amqp,
    Http,
}

/// What was seen in one round.
struct Round {
    guesses: u64,
    computed: u64,
    /// First logins, in milliseconds: the user's own from the guessers' address and from another
    /// one, and another user's from the guessers'.
    honest: [f64; 3],
}

/// Sends one guess, and hangs up after its time whatever came by then.
fn guess(over: Over, to: SocketAddr, number: u64) -> Result<()> {
    let mut stream = dial(STRANGER, to)?;
    let password = format!("wrong-{number}");
    let bytes = match over {
        Over::Amqp => login("victim", &password),
        Over::Http => basic(to, "victim", &password).into_bytes(),
    };
    stream.write_all(&bytes)?;
    linger(stream);
    Ok(())
}

fn linger(mut stream: TcpStream) {
    let ends = Instant::now() + HANG_UP;
    loop {
        let left = ends.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return;
        }
        if !matches!(stream.read(&mut [0; 512]), Ok(1..)) {
            // It has said all that it will, or nothing in time.
            thread::sleep(ends.saturating_duration_since(Instant::now()));
            return;
        }
    }
}

/// Wrong passwords that were computed so far, over all protocols.
fn computed(broker: &Broker) -> Result<u64> {
    let name = http::get(broker.http, "/api/overview")?["node"].clone();
    let name = name.as_str().context("a node without a name")?;
    let rows = http::get(broker.http, &format!("/api/auth/attempts/{name}"))?;
    let rows = rows.as_array().into_iter().flatten();
    Ok(rows
        .filter_map(|row| row["auth_attempts_failed"].as_u64())
        .sum())
}

fn play(over: Over, lasting: Duration) -> Result<Round> {
    let broker = Broker::start(
        Kind::Leveret,
        "guesses",
        &["password_hashing_module = argon2id"],
    )?;
    for user in ["victim", "other"] {
        broker.ctl(&["add_user", user, "right"])?;
    }
    let to = match over {
        Over::Amqp => broker.amqp,
        Over::Http => broker.http,
    };
    let before = computed(&broker)?;
    let (stop, guesses) = (AtomicBool::new(false), AtomicU64::new(0));
    let honest = thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                stand_back();
                while !stop.load(Ordering::Relaxed) {
                    // A broker that does not take it has turned it away, which is as good.
                    let _ = guess(over, to, guesses.fetch_add(1, Ordering::Relaxed));
                }
            });
        }
        let began = Instant::now();
        thread::sleep(BEFORE_HONEST.min(lasting / 2));
        let honest = honest_logins(broker.amqp);
        thread::sleep(lasting.saturating_sub(began.elapsed()));
        stop.store(true, Ordering::Relaxed);
        honest
    })?;
    Ok(Round {
        guesses: guesses.into_inner(),
        computed: computed(&broker)? - before,
        honest,
    })
}

/// Logs in for the first time each, all at once.
fn honest_logins(to: SocketAddr) -> Result<[f64; 3]> {
    let log_in = |from: Ipv4Addr, user: &'static str| {
        thread::spawn(move || timed_login(from, to, user, "right"))
    };
    let logins = [
        log_in(STRANGER, "victim"),
        log_in(HONEST, "victim"),
        log_in(STRANGER, "other"),
    ];
    let [own, elsewhere, other] = logins.map(|login| login.join().expect("a login does not panic"));
    Ok([
        own.context("the user's own login")?,
        elsewhere.context("the user's login from elsewhere")?,
        other.context("another user's login")?,
    ])
}

/// Guesses over AMQP, and over HTTP.
pub fn run(options: &Options) -> Result<Measured> {
    let (rounds, lasting) = match options.fast {
        true => (1, LASTING / 2),
        false => (3, LASTING),
    };
    let (mut rows, mut records) = (Vec::new(), Vec::new());
    for (over, name) in [(Over::Amqp, "AMQP"), (Over::Http, "HTTP")] {
        let played = (0..rounds).map(|_| play(over, lasting));
        let played = played.collect::<Result<Vec<Round>>>()?;
        let (row, record) = told(name, &played);
        println!("  {record}");
        rows.push(row);
        records.push(record);
    }
    let time = format!("guesses in {} s over", lasting.as_secs());
    let head = [
        &time[..],
        "guesses",
        "computed",
        "the user's own first login from there, worst ms",
        "from elsewhere, worst ms",
        "another user's from there, worst ms",
    ];
    Ok(Measured {
        text: table(&head, &rows),
        json: json!(records),
    })
}

fn told(name: &str, rounds: &[Round]) -> (Vec<String>, Value) {
    let middle = |of: fn(&Round) -> u64| {
        let figures: Vec<f64> = rounds.iter().map(|round| of(round) as f64).collect();
        median(&figures)
    };
    let honest = [0, 1, 2].map(|which| {
        let figures: Vec<f64> = rounds.iter().map(|round| round.honest[which]).collect();
        worst(&figures)
    });
    let (guesses, computed) = (middle(|r| r.guesses), middle(|r| r.computed));
    let counts = [format!("{guesses:.0}"), format!("{computed:.0}")];
    let times = honest.map(|ms| format!("{ms:.0}"));
    let row = std::iter::once(name.to_owned()).chain(counts).chain(times);
    let record = json!({
        "over": name,
        "guesses": guesses,
        "computed": computed,
        "own_login_ms_max": honest[0],
        "elsewhere_login_ms_max": honest[1],
        "other_login_ms_max": honest[2],
    });
    (row.collect(), record)
}
