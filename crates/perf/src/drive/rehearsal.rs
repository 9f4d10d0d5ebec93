//! The log's whole loop at the size that is asked about, with nobody's broker in it: a client with
//! so many messages unconfirmed, a connection that takes them and passes them on to a consumer at
//! once, a log that writes and syncs whatever has come meanwhile, and confirms that become the next
//! messages.
//!
//! Syncs and the way round, timed one by one, do not say what the loop gives: a batch's messages
//! cost processor time on the way, threads wait for processors that others use, and a sync is
//! another one after a pause than behind the sync before it. All of that is in the loop.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::Distribution;

/// Bytes of the largest piece that client and connection pass at once.
const PIECE_BYTES: usize = 64 << 10;
/// The largest write of the log: what gathers beyond it is the next batch.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Bytes that the log keeps of a message besides its body.
const MESSAGE_OVERHEAD_BYTES: u64 = 48;
/// Sectors of this size are written whole.
const SECTOR_BYTES: usize = 4_096;
/// Messages unconfirmed at the most, and bytes of all of them together.
const WINDOW_MAX: u32 = 100_000;
const WINDOW_BYTES_MAX: u64 = 64 << 20;
/// The part of the time that is not counted: while the window fills.
const WARM_UP_PARTS: u32 = 5;

/// The load that is rehearsed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rehearsed {
    /// Messages unconfirmed.
    pub window: u32,
    /// Bytes of a message's body.
    pub message_bytes: u64,
    /// Microseconds of one core that a broker takes for a message; socket and spin together.
    pub broker_us: f64,
    /// The same of its clients.
    pub client_us: f64,
}

/// What the loop gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rehearsal {
    /// The load.
    pub load: Rehearsed,
    /// Confirmed messages a second.
    pub rate: f64,
    /// Messages of a batch, on average.
    pub batch: f64,
    /// Microseconds of a batch's write and sync.
    pub sync: Distribution,
    /// Microseconds from a message's sending to its confirm.
    pub confirm: Distribution,
}

/// Microseconds of one core that a broker takes for a persistent message with confirms, delivered
/// once, and for each KiB of it; and its clients. Of a run of `docs/perf.md`: 1.7 and 0.6 for 1 kB.
const BROKER_US: [f64; 2] = [1.2, 0.5];
const CLIENT_US: [f64; 2] = [0.4, 0.2];

impl Rehearsed {
    /// A load of so many unconfirmed messages of so many bytes, by the processor time that Leveret
    /// and its clients usually take.
    #[must_use]
    pub const fn of(window: u32, message_bytes: u64) -> Self {
        let kib = message_bytes as f64 / 1_024.0;
        Self {
            window,
            message_bytes,
            broker_us: BROKER_US[0] + BROKER_US[1] * kib,
            client_us: CLIENT_US[0] + CLIENT_US[1] * kib,
        }
    }

    /// The same within what a rehearsal holds in memory.
    fn bounded(self) -> Self {
        let bytes = self.message_bytes.clamp(1, WINDOW_BYTES_MAX);
        let window = u64::from(self.window.clamp(1, WINDOW_MAX));
        let window = window.min(WINDOW_BYTES_MAX / bytes).max(1);
        Self {
            window: u32::try_from(window).unwrap_or(WINDOW_MAX),
            message_bytes: bytes,
            ..self
        }
    }

    /// Messages of a piece: one at least, however large.
    fn piece(&self) -> u32 {
        let many = PIECE_BYTES as u64 / self.message_bytes.max(1);
        u32::try_from(many.max(1)).unwrap_or(1).min(self.window)
    }
}

/// What has come and is not yet being written; closed at the end.
#[derive(Default)]
struct Gathered {
    state: Mutex<(u32, bool)>,
    changed: Condvar,
}

impl Gathered {
    fn change(&self, change: impl FnOnce(&mut (u32, bool))) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_one();
    }

    /// All that there is, or so much of it; nothing once it is closed and empty.
    fn take(&self, at_most: u32) -> Option<u32> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.0 == 0 && !state.1 {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let taken = state.0.min(at_most);
        state.0 -= taken;
        (taken > 0).then_some(taken)
    }
}

/// What the client has seen.
#[derive(Default)]
struct Seen {
    /// Confirmed messages that count.
    messages: u64,
    seconds: f64,
    latencies: Vec<f64>,
}

/// Plays the loop for so long, on a file that was written before, of `file_bytes`.
///
/// # Errors
/// If the system gives no socket or no thread, or a write or a sync fails.
pub fn rehearse(
    file: &File,
    file_bytes: u64,
    noise: &[u8],
    load: Rehearsed,
    time: Duration,
) -> io::Result<Rehearsal> {
    let load = load.bounded();
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (served, _) = listener.accept()?;
    for socket in [&client, &served] {
        socket.set_nodelay(true)?;
    }
    let answers = served.try_clone()?;
    let consumer = TcpStream::connect(listener.local_addr()?)?;
    let (delivered, _) = listener.accept()?;
    let gathered = Gathered::default();
    let (confirmed, to_confirm) = channel();
    std::thread::scope(|scope| {
        let log = scope.spawn(|| write_log(file, file_bytes, noise, &load, &gathered, confirmed));
        let connection = scope.spawn(|| take(served, delivered, &load, &gathered));
        let consumer = scope.spawn(|| consume(consumer, &load));
        let confirms = scope.spawn(move || confirm(answers, &to_confirm));
        let seen = send(client, &load, noise, time);
        let ended = |ended: std::thread::Result<io::Result<()>>| match ended {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let taken = ended(connection.join()).and(ended(consumer.join()));
        let (batches, samples) = match log.join() {
            Ok(written) => written?,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        taken.and(ended(confirms.join()))?;
        let seen = seen?;
        Ok(Rehearsal {
            load,
            rate: seen.messages as f64 / seen.seconds.max(f64::MIN_POSITIVE),
            batch: batches,
            sync: Distribution::of(samples),
            confirm: Distribution::of(seen.latencies),
        })
    })
}

/// Microseconds of processor time that this thread has had.
fn processor_us() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// Uses the processor until this thread has had so much time of it since `since`.
fn spin(since: f64, micros: f64) {
    while processor_us() - since < micros {
        std::hint::spin_loop();
    }
}

/// The client: as many messages as were confirmed, at once. Its end ends the others.
fn send(mut socket: TcpStream, load: &Rehearsed, noise: &[u8], time: Duration) -> io::Result<Seen> {
    let began = Instant::now();
    let warm = began + time / WARM_UP_PARTS;
    let mut waiting = std::collections::VecDeque::new();
    let mut may_send = load.window;
    let mut seen = Seen::default();
    let mut first = None;
    while began.elapsed() < time {
        while may_send > 0 {
            let many = may_send.min(load.piece());
            let before = processor_us();
            socket.write_all(&many.to_le_bytes())?;
            write_noise(&mut socket, noise, u64::from(many) * load.message_bytes)?;
            spin(before, f64::from(many) * load.client_us / 2.0);
            waiting.push_back((Instant::now(), many));
            may_send -= many;
        }
        let mut count = [0; 4];
        socket.read_exact(&mut count)?;
        let now = Instant::now();
        let mut left = u32::from_le_bytes(count);
        may_send += left;
        if now >= warm && first.is_none() {
            first = Some(now);
        } else if now >= warm {
            seen.messages += u64::from(left);
        }
        while left > 0
            && let Some((sent, many)) = waiting.front_mut()
        {
            let part = left.min(*many);
            if now >= warm {
                let latency = now.duration_since(*sent).as_secs_f64() * 1e6;
                seen.latencies.push(latency);
            }
            *many -= part;
            left -= part;
            if *many == 0 {
                waiting.pop_front();
            }
        }
    }
    seen.seconds = first.map_or(0.0, |first| first.elapsed().as_secs_f64());
    socket.shutdown(Shutdown::Write)?;
    // What is under way is confirmed still, to nobody.
    io::copy(&mut socket, &mut io::sink())?;
    Ok(seen)
}

fn write_noise(socket: &mut TcpStream, noise: &[u8], mut bytes: u64) -> io::Result<()> {
    while bytes > 0 {
        let part = bytes.min(noise.len().min(PIECE_BYTES) as u64) as usize;
        if part == 0 {
            return Err(io::Error::other("nothing to send"));
        }
        socket.write_all(&noise[..part])?;
        bytes -= part as u64;
    }
    Ok(())
}

/// The connection: takes pieces, and passes them on, until the client has ended.
fn take(
    mut socket: TcpStream,
    mut consumer: TcpStream,
    load: &Rehearsed,
    gathered: &Gathered,
) -> io::Result<()> {
    let mut buffer = vec![0; PIECE_BYTES];
    let mut taken = || -> io::Result<()> {
        let mut count = [0; 4];
        while socket.read_exact(&mut count).is_ok() {
            let before = processor_us();
            let many = u32::from_le_bytes(count);
            let mut bytes = u64::from(many) * load.message_bytes;
            while bytes > 0 {
                let part = bytes.min(PIECE_BYTES as u64) as usize;
                socket.read_exact(&mut buffer[..part])?;
                consumer.write_all(&buffer[..part])?;
                bytes -= part as u64;
            }
            spin(before, f64::from(many) * load.broker_us);
            gathered.change(|(waiting, _)| *waiting += many);
        }
        Ok(())
    };
    let done = taken();
    gathered.change(|(_, closed)| *closed = true);
    done
}

/// The consumer: reads until there is no more.
fn consume(mut socket: TcpStream, load: &Rehearsed) -> io::Result<()> {
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let before = processor_us();
        let bytes = socket.read(&mut buffer)?;
        if bytes == 0 {
            return Ok(());
        }
        let messages = bytes as f64 / load.message_bytes.max(1) as f64;
        spin(before, messages * load.client_us / 2.0);
    }
}

/// The log: writes and syncs what has gathered, and says how much it was. Messages of a batch on
/// average, and the time of each.
fn write_log(
    file: &File,
    file_bytes: u64,
    noise: &[u8],
    load: &Rehearsed,
    gathered: &Gathered,
    confirmed: Sender<u32>,
) -> io::Result<(f64, Vec<f64>)> {
    let each = load.message_bytes + MESSAGE_OVERHEAD_BYTES;
    let largest = noise.len().min(BATCH_BYTES_MAX) as u64;
    let at_most = u32::try_from((largest / each).max(1)).unwrap_or(u32::MAX);
    let (mut samples, mut messages, mut offset) = (Vec::new(), 0u64, 0u64);
    while let Some(many) = gathered.take(at_most) {
        let bytes = (u64::from(many) * each).min(largest) as usize;
        let bytes = bytes.next_multiple_of(SECTOR_BYTES).min(noise.len());
        if offset + bytes as u64 > file_bytes {
            offset = 0;
        }
        let start = Instant::now();
        let written = file
            .write_all_at(&noise[..bytes], offset)
            .and_then(|()| file.sync_data());
        samples.push(start.elapsed().as_secs_f64() * 1e6);
        offset += bytes as u64;
        messages += u64::from(many);
        // Whoever waits for a confirm hears of a drive that fails by the end of the connection.
        if written.is_err() || confirmed.send(many).is_err() {
            written?;
            break;
        }
    }
    Ok((messages as f64 / samples.len().max(1) as f64, samples))
}

/// The connection's other half: sends what the log has said. Ends with the log.
fn confirm(mut socket: TcpStream, confirmed: &Receiver<u32>) -> io::Result<()> {
    while let Ok(many) = confirmed.recv() {
        socket.write_all(&many.to_le_bytes())?;
    }
    socket.shutdown(Shutdown::Both)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_gives_what_littles_law_says_and_ends() {
        let file = tempfile::tempfile().unwrap();
        let load = Rehearsed {
            window: 64,
            message_bytes: 1_000,
            broker_us: 2.0,
            client_us: 1.0,
        };
        let noise = vec![7; 1 << 20];
        let found = rehearse(&file, 1 << 22, &noise, load, Duration::from_millis(300)).unwrap();
        assert_eq!(found.load, load);
        assert!(found.rate > 0.0 && found.confirm.count > 0 && found.sync.count > 0);
        assert!(found.batch >= 1.0 && found.batch <= 64.0);
        // Messages under way are rate times latency, and never more than the window.
        let under_way = found.rate * found.confirm.mean / 1e6;
        assert!(under_way < 64.0 * 2.0, "{under_way}");
    }

    #[test]
    fn messages_larger_than_a_piece_and_a_window_of_one_go_round_too() {
        let file = tempfile::tempfile().unwrap();
        let load = Rehearsed {
            window: 1,
            message_bytes: 300_000,
            broker_us: 0.0,
            client_us: 0.0,
        };
        let noise = vec![7; 1 << 20];
        let found = rehearse(&file, 1 << 22, &noise, load, Duration::from_millis(200)).unwrap();
        assert!(found.batch > 0.99 && found.batch < 1.01, "{}", found.batch);
    }

    #[test]
    fn what_is_rehearsed_is_bounded() {
        let load = Rehearsed {
            window: u32::MAX,
            message_bytes: u64::MAX,
            broker_us: 0.0,
            client_us: 0.0,
        };
        let bounded = load.bounded();
        assert_eq!(
            (bounded.window, bounded.message_bytes),
            (1, WINDOW_BYTES_MAX)
        );
        let small = Rehearsed {
            message_bytes: 0,
            ..load
        }
        .bounded();
        assert_eq!((small.window, small.message_bytes), (WINDOW_MAX, 1));
    }
}
