//! How long a confirm takes to become the next message, without the drive: from the log's thread to
//! the connection's, over loopback to the client, and all the way back. On a machine that is busy
//! with other things this is not little, and a log with a closed loop of messages waits for it.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::Distribution;

/// Rounds at the least, whatever the time, and at the most.
const ROUNDS_MIN: usize = 50;
const ROUNDS_MAX: usize = 20_000;

/// Microseconds of the way round, as often as `time` allows.
///
/// # Errors
/// If the system gives no socket or no thread.
pub fn turnaround(time: Duration) -> io::Result<Distribution> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (served, _) = listener.accept()?;
    for socket in [&client, &served] {
        socket.set_nodelay(true)?;
    }
    let (to_log, at_log) = channel::<()>();
    let (to_connection, at_connection) = channel::<()>();
    let name = |name: &str| std::thread::Builder::new().name(name.to_owned());
    let log = name("drive-log").spawn(move || log_thread(&at_log, &to_connection))?;
    let serve = move || connection_thread(served, &to_log, &at_connection);
    let connection = name("drive-connection").spawn(serve)?;
    let began = Instant::now();
    let mut samples = Vec::new();
    while samples.len() < ROUNDS_MIN || (began.elapsed() < time && samples.len() < ROUNDS_MAX) {
        let start = Instant::now();
        client.write_all(&[1])?;
        client.read_exact(&mut [0])?;
        samples.push(start.elapsed().as_secs_f64() * 1e6);
    }
    // Its end ends the connection's thread, and that one the log's.
    drop(client);
    let ended = connection.join().and_then(|()| log.join());
    ended.map_err(|_| io::Error::other("a thread of the measurement panicked"))?;
    Ok(Distribution::of(samples))
}

fn log_thread(asked: &Receiver<()>, answer: &Sender<()>) {
    while asked.recv().is_ok() && answer.send(()).is_ok() {}
}

fn connection_thread(mut socket: TcpStream, log: &Sender<()>, answer: &Receiver<()>) {
    let mut octet = [0];
    while socket.read_exact(&mut octet).is_ok()
        && log.send(()).is_ok()
        && answer.recv().is_ok()
        && socket.write_all(&octet).is_ok()
    {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_round_takes_time_and_ends() {
        let found = turnaround(Duration::ZERO).unwrap();
        assert_eq!(found.count, ROUNDS_MIN as u64);
        assert!(found.percentile(50.0) > 0.0);
    }
}
