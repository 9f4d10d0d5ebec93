//! Somebody between the nodes of a cluster: whatever they say to each other passes by, and is
//! altered, left out, repeated, moved, cut short, or has something of the attacker's own before it.
//!
//! The nodes name the attacker's addresses as theirs, so that the same works in namespaces and on
//! loopback. After each deed the link has to end by who gets what was not said; no byte of what
//! clients say may be read; afterwards the nodes find each other again, and the ledger sees that
//! nothing came that nobody has sent, and that nothing confirmed is lost.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::numbers::Random;

/// What the dialer of a link says before records begin.
const DIALER_BYTES: usize = 164;
/// What the acceptor says first, and then in answer.
const ACCEPTOR_BYTES: [usize; 2] = [40, 89];
/// No record is longer, with its length.
const RECORD_BYTES_MAX: usize = 4 + 65_536 + 16;
/// Records of a connection before something is done to it: there is something to repeat.
const RECORDS_BEFORE: usize = 3;
/// So much of each side of a connection is kept to be played again.
const HEARD_BYTES_MAX: usize = 8_192;
/// Records in which it is looked for what clients have said.
const RECORDS_READ_MAX: usize = 4_000;
/// A part of the names of all queues of the load.
const SAID_BY_CLIENTS: &[u8] = b"crash-";
/// How long a link may outlive what was done to it, and how long one may take to come.
const DEADLINE: Duration = Duration::from_secs(20);
/// So many links may end for another reason than what was done to them.
const TRIES: u32 = 12;

/// What is done to what passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// A bit of a record is another.
    Alter,
    /// A record is left out.
    Drop,
    /// A record comes twice.
    Replay,
    /// A record comes after the next one.
    Reorder,
    /// A part of a record is missing; others follow.
    Truncate,
    /// A part of a record comes, and nothing behind it.
    Stall,
    /// A record of the attacker's own, as long as the next one.
    Inject,
    /// A record of another link, which stands as well.
    Misdirect,
    /// A record of an earlier connection.
    ReplayOld,
    /// A bit of a handshake is another.
    AlterHandshake,
    /// A node is called, and told what another one has said to it before.
    ReplayDialer,
    /// A node that calls is answered with what another one has said to it before.
    ReplayAcceptor,
}

/// All, in the order in which they are done: the later ones want connections that have ended.
pub const DEEDS: [Deed; 12] = [
    Deed::Alter,
    Deed::Drop,
    Deed::Replay,
    Deed::Reorder,
    Deed::Truncate,
    Deed::Stall,
    Deed::Inject,
    Deed::Misdirect,
    Deed::ReplayOld,
    Deed::AlterHandshake,
    Deed::ReplayDialer,
    Deed::ReplayAcceptor,
];

impl Deed {
    /// Whether it is done to a connection that is yet to come.
    fn wants_a_new_connection(self) -> bool {
        matches!(self, Deed::AlterHandshake | Deed::ReplayAcceptor)
    }
}

/// Which side of a connection has said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Dialer,
    Acceptor,
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Dialer => Side::Acceptor,
            Side::Acceptor => Side::Dialer,
        }
    }
}

/// A connection that passes by.
struct Connection {
    to: SocketAddr,
    /// By [`Side`].
    streams: [TcpStream; 2],
    /// How each side began.
    heard: [Mutex<Vec<u8>>; 2],
    /// The last record that has passed as it was.
    last: Mutex<Vec<u8>>,
    /// Who has ended it.
    ended: Mutex<Option<Side>>,
    /// The attacker answers in the acceptor's place.
    severed: AtomicBool,
}

impl Connection {
    fn stream(&self, side: Side) -> &TcpStream {
        &self.streams[side as usize]
    }

    /// Notes who has ended it, and ends it for the other side too.
    fn end(&self, by: Side) {
        lock(&self.ended).get_or_insert(by);
        for stream in &self.streams {
            // It may have gone already, which is what is wanted.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn hear(&self, side: Side, bytes: &[u8]) {
        let mut heard = lock(&self.heard[side as usize]);
        if heard.len() + bytes.len() <= HEARD_BYTES_MAX {
            heard.extend_from_slice(bytes);
        }
    }
}

/// What was done, to which connection, and whose words it was done to.
struct Done {
    connection: Arc<Connection>,
    teller: Side,
}

/// What both sides of a connection have said at its beginning.
#[derive(Clone)]
struct Recording {
    to: SocketAddr,
    said: [Vec<u8>; 2],
}

struct Shared {
    random: Mutex<Random>,
    /// What is to be done next, to whose words.
    pending: Mutex<Option<(Deed, Side)>>,
    done: Mutex<Sender<Done>>,
    connections: Mutex<Vec<Arc<Connection>>>,
    /// A record of a connection that has ended.
    old: Mutex<Vec<u8>>,
    recording: Mutex<Option<Recording>>,
    /// Records in which something was looked for.
    read: AtomicUsize,
    /// Whether it was found.
    overheard: AtomicBool,
    /// Whether a node has gone on speaking with the attacker.
    fooled: AtomicBool,
    stopping: AtomicBool,
}

/// Stands between nodes until it is dropped.
pub struct OnPath {
    shared: Arc<Shared>,
    done: Receiver<Done>,
    fronts: Vec<SocketAddr>,
    /// Deeds that were noticed by who got what was not said, by [`DEEDS`].
    noticed: [u32; DEEDS.len()],
}

impl Drop for OnPath {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        for front in &self.fronts {
            // The one who waits there looks up.
            drop(TcpStream::connect(front));
        }
    }
}

impl OnPath {
    /// Stands at each first address for the second one.
    pub fn stand(ways: &[(SocketAddr, SocketAddr)], seed: u64) -> Result<OnPath> {
        let (sender, done) = channel();
        let shared = Arc::new(Shared {
            random: Mutex::new(Random::new(seed)),
            pending: Mutex::default(),
            done: Mutex::new(sender),
            connections: Mutex::default(),
            old: Mutex::default(),
            recording: Mutex::default(),
            read: AtomicUsize::new(0),
            overheard: AtomicBool::new(false),
            fooled: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        });
        for &(front, to) in ways {
            let listener = TcpListener::bind(front).with_context(|| format!("bind {front}"))?;
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.listen(&listener, to));
        }
        Ok(OnPath {
            shared,
            done,
            fronts: ways.iter().map(|(front, _)| *front).collect(),
            noticed: [0; DEEDS.len()],
        })
    }

    /// Does one thing to what passes, and waits for what the nodes make of it; gives what is wrong
    /// with that. A link may end for another reason meanwhile: then it is done again.
    pub fn attack(&mut self, deed: Deed) -> Result<Option<String>> {
        for _ in 0..TRIES {
            let noticed = match deed {
                Deed::ReplayDialer => self.replay_dialer()?,
                _ => self.attack_connection(deed),
            };
            match noticed {
                Ok(true) => {
                    self.noticed[deed as usize] += 1;
                    return Ok(None);
                }
                Ok(false) => {}
                Err(what) => return Ok(Some(format!("{deed:?}: {what}"))),
            }
        }
        Ok(Some(format!(
            "{deed:?}: of {TRIES} links none was ended by the node that was deceived"
        )))
    }

    /// Whether whoever was told something that was not said has ended the link.
    fn attack_connection(&self, deed: Deed) -> Result<bool, String> {
        // Records go from who has dialed to who was dialed; a handshake is of both.
        let teller = match (deed, lock(&self.shared.random).next() % 2) {
            (Deed::ReplayAcceptor, _) | (Deed::AlterHandshake, 0) => Side::Acceptor,
            _ => Side::Dialer,
        };
        *lock(&self.shared.pending) = Some((deed, teller));
        if deed.wants_a_new_connection() {
            for connection in lock(&self.shared.connections).iter() {
                connection.end(Side::Dialer);
            }
        }
        let Ok(done) = self.done.recv_timeout(DEADLINE) else {
            let secs = DEADLINE.as_secs();
            return Err(format!("nothing that it could be done to in {secs} s"));
        };
        let started = Instant::now();
        loop {
            let ended = *lock(&done.connection.ended);
            match ended {
                Some(by) => return Ok(by == done.teller.other()),
                None if started.elapsed() > DEADLINE => {
                    let secs = DEADLINE.as_secs();
                    return Err(format!("the link is still there after {secs} s"));
                }
                None => thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// Calls a node and says what another one has said to it: it must be told nothing more than
    /// any stranger is, and be hung up on.
    fn replay_dialer(&self) -> Result<Result<bool, String>> {
        let recording = lock(&self.shared.recording).clone();
        let recording = recording.context("no connection was heard to its end")?;
        let mut stream = TcpStream::connect(recording.to)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        // It may hang up before all of it is said.
        let _ = stream.write_all(&recording.said[Side::Dialer as usize]);
        let mut answer = Vec::new();
        let ended = stream.read_to_end(&mut answer);
        let is_late = ended.is_err_and(|error| is_late(&error));
        Ok(match (is_late, answer.len()) {
            (true, _) => Err("the node still listens".to_owned()),
            (false, length) if length > ACCEPTOR_BYTES[0] => {
                Err(format!("the node has answered {length} bytes"))
            }
            _ => Ok(true),
        })
    }

    /// How often something was done and noticed.
    pub fn noticed(&self) -> u32 {
        self.noticed.iter().sum()
    }

    /// Whether a node has said something to the attacker, or a word of a client's could be read.
    pub fn has_learnt(&self) -> Option<&'static str> {
        let is_so = |flag: &AtomicBool| flag.load(Ordering::SeqCst);
        if is_so(&self.shared.overheard) {
            return Some("what clients say could be read between the nodes");
        }
        is_so(&self.shared.fooled).then_some("a node has gone on speaking with who is no node")
    }
}

fn is_late(error: &io::Error) -> bool {
    use io::ErrorKind::{TimedOut, WouldBlock};
    matches!(error.kind(), TimedOut | WouldBlock)
}

impl Shared {
    fn listen(self: Arc<Shared>, listener: &TcpListener, to: SocketAddr) {
        for dialer in listener.incoming().flatten() {
            if self.stopping.load(Ordering::SeqCst) {
                return;
            }
            // A node that is not there is not there for who dials it either.
            if let Ok(acceptor) = TcpStream::connect(to) {
                // Without a second handle of its sockets it ends at once.
                let _ = self.carry(dialer, acceptor, to);
            }
        }
    }

    fn carry(
        self: &Arc<Shared>,
        dialer: TcpStream,
        acceptor: TcpStream,
        to: SocketAddr,
    ) -> io::Result<()> {
        for stream in [&dialer, &acceptor] {
            stream.set_nodelay(true)?;
        }
        let connection = Arc::new(Connection {
            to,
            streams: [dialer, acceptor],
            heard: Default::default(),
            last: Mutex::default(),
            ended: Mutex::default(),
            severed: AtomicBool::new(false),
        });
        let mut connections = lock(&self.connections);
        connections.retain(|other| lock(&other.ended).is_none());
        connections.push(Arc::clone(&connection));
        drop(connections);
        for side in [Side::Dialer, Side::Acceptor] {
            let (shared, connection) = (Arc::clone(self), Arc::clone(&connection));
            thread::spawn(move || {
                // Whoever's reading or writing has failed has ended it.
                let by = shared.pump(&connection, side).unwrap_or_else(|by| by);
                connection.end(by);
                shared.keep(&connection);
            });
        }
        Ok(())
    }

    /// Keeps what an ended connection is good for.
    fn keep(&self, connection: &Connection) {
        let last = std::mem::take(&mut *lock(&connection.last));
        if !last.is_empty() {
            *lock(&self.old) = last;
        }
        let said = [0, 1].map(|side: usize| lock(&connection.heard[side]).clone());
        let [dialer, acceptor] = [DIALER_BYTES, ACCEPTOR_BYTES.iter().sum()];
        if said[0].len() > dialer && said[1].len() >= acceptor {
            let to = connection.to;
            *lock(&self.recording) = Some(Recording { to, said });
        }
    }

    /// Takes what is to be done, if it is to be done to what this side says, and it can be.
    fn take(&self, side: Side, can: impl FnOnce(Deed) -> bool) -> Option<Deed> {
        let mut pending = lock(&self.pending);
        let (deed, _) = pending.filter(|&(deed, teller)| teller == side && can(deed))?;
        *pending = None;
        Some(deed)
    }

    fn tell(&self, connection: &Arc<Connection>, teller: Side) {
        let connection = Arc::clone(connection);
        // Nobody listens any more where all is over.
        let _ = lock(&self.done).send(Done { connection, teller });
    }

    /// Carries what one side says; gives who has ended the connection.
    fn pump(&self, connection: &Arc<Connection>, side: Side) -> Result<Side, Side> {
        let mut from = BufReader::new(connection.stream(side));
        let mut to = connection.stream(side.other());
        let by_teller = |_: io::Error| side;
        let by_told = |_: io::Error| side.other();
        let preamble: &[usize] = match side {
            Side::Dialer => &[DIALER_BYTES],
            Side::Acceptor => &ACCEPTOR_BYTES,
        };
        for (step, &length) in preamble.iter().enumerate() {
            if step == 0
                && self
                    .take(side, |deed| deed == Deed::ReplayAcceptor)
                    .is_some()
            {
                return self.replay_acceptor(connection);
            }
            let mut said = vec![0; length];
            from.read_exact(&mut said).map_err(by_teller)?;
            connection.hear(side, &said);
            let is_last = step + 1 == preamble.len();
            if is_last
                && self
                    .take(side, |deed| deed == Deed::AlterHandshake)
                    .is_some()
            {
                self.flip(&mut said);
                self.tell(connection, side);
            }
            if connection.severed.load(Ordering::SeqCst) {
                return self.hear_on(&mut from, side);
            }
            to.write_all(&said).map_err(by_told)?;
        }
        for count in 0.. {
            let record = read_record(&mut from).map_err(by_teller)?;
            connection.hear(side, &record);
            self.listen_in(&record);
            let is_of_records = |deed: Deed| !deed.wants_a_new_connection();
            let deed = (count >= RECORDS_BEFORE).then(|| self.take(side, is_of_records));
            let Some(deed) = deed.flatten() else {
                to.write_all(&record).map_err(by_told)?;
                *lock(&connection.last) = record;
                continue;
            };
            self.tell(connection, side);
            for piece in self
                .done_to(deed, record, connection, &mut from)
                .map_err(by_teller)?
            {
                to.write_all(&piece).map_err(by_told)?;
            }
            if deed == Deed::Stall {
                // The rest is heard and goes nowhere, until one of them has enough of it.
                io::copy(&mut from, &mut io::sink()).map_err(by_teller)?;
                return Ok(side);
            }
        }
        Ok(side)
    }

    /// What goes on its way in place of a record.
    fn done_to(
        &self,
        deed: Deed,
        mut record: Vec<u8>,
        connection: &Connection,
        from: &mut impl Read,
    ) -> io::Result<Vec<Vec<u8>>> {
        let half = record.len() / 2;
        Ok(match deed {
            Deed::Alter => {
                self.flip(&mut record);
                vec![record]
            }
            Deed::Drop => vec![],
            Deed::Replay => vec![record.clone(), record],
            Deed::Reorder => {
                let next = read_record(from)?;
                vec![next, record]
            }
            Deed::Truncate | Deed::Stall => {
                record.truncate(half);
                vec![record]
            }
            Deed::Inject => {
                let mut forged = record.clone();
                let mut random = lock(&self.random);
                forged[4..].fill_with(|| random.next() as u8);
                vec![forged, record]
            }
            Deed::Misdirect => vec![self.record_of_another(connection), record],
            Deed::ReplayOld => vec![lock(&self.old).clone(), record],
            // These are not done to records.
            Deed::AlterHandshake | Deed::ReplayDialer | Deed::ReplayAcceptor => vec![record],
        })
    }

    /// The last record of a link that stands, other than this one.
    fn record_of_another(&self, connection: &Connection) -> Vec<u8> {
        let others = lock(&self.connections);
        let others = others.iter().map(Arc::as_ref);
        let mut others = others.filter(|other| !std::ptr::eq(*other, connection));
        let said = |other: &Connection| Some(lock(&other.last).clone()).filter(|r| !r.is_empty());
        others.find_map(said).unwrap_or_default()
    }

    /// Answers who has dialed with what was answered before.
    fn replay_acceptor(&self, connection: &Arc<Connection>) -> Result<Side, Side> {
        let recording = lock(&self.recording).clone();
        let said = recording.map(|recording| recording.said);
        let [_, said] = said.ok_or(Side::Acceptor)?;
        connection.severed.store(true, Ordering::SeqCst);
        self.tell(connection, Side::Acceptor);
        let mut to = connection.stream(Side::Dialer);
        to.write_all(&said).map_err(|_| Side::Dialer)?;
        let started = Instant::now();
        // The other pump sees who hangs up.
        while lock(&connection.ended).is_none() && started.elapsed() < 2 * DEADLINE {
            thread::sleep(Duration::from_millis(5));
        }
        Ok(Side::Acceptor)
    }

    /// Hears a node out that was answered by the attacker; it is to say nothing.
    fn hear_on(&self, from: &mut impl Read, side: Side) -> Result<Side, Side> {
        let said = read_record(from);
        if said.is_ok() {
            self.fooled.store(true, Ordering::SeqCst);
        }
        Ok(side)
    }

    /// Turns one bit over.
    fn flip(&self, bytes: &mut [u8]) {
        let mut random = lock(&self.random);
        let at = random.between(0, bytes.len() as u64) as usize;
        bytes[at] ^= 1 << random.between(0, 8);
    }

    /// Looks for what clients have said.
    fn listen_in(&self, record: &[u8]) {
        if self.read.fetch_add(1, Ordering::SeqCst) < RECORDS_READ_MAX {
            let mut words = record.windows(SAID_BY_CLIENTS.len());
            if words.any(|word| word == SAID_BY_CLIENTS) {
                self.overheard.store(true, Ordering::SeqCst);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A record with its length.
fn read_record(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut record = vec![0; 4];
    from.read_exact(&mut record)?;
    let length = u32::from_le_bytes([record[0], record[1], record[2], record[3]]) as usize;
    if length > RECORD_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    record.resize(4 + length, 0);
    from.read_exact(&mut record[4..])?;
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pair of nodes of no kind: one says records, the other hears them and never minds.
    #[test]
    fn a_link_that_outlives_what_was_done_to_it_is_told_of() {
        let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let node = TcpListener::bind(loopback(0)).expect("a free port");
        let front = TcpListener::bind(loopback(0)).expect("a free port");
        let to = node.local_addr().expect("it is bound");
        let address = front.local_addr().expect("it is bound");
        drop(front);
        let mut path = OnPath::stand(&[(address, to)], 1).expect("it listens");
        let mut dialer = TcpStream::connect(address).expect("it is taken");
        let (mut acceptor, _) = node.accept().expect("it is carried");
        acceptor.write_all(&[1; 129]).expect("it is heard");
        dialer.write_all(&[2; 164]).expect("it is heard");
        let record = [&20_u32.to_le_bytes()[..], b"crash-0 and the rest"].concat();
        for _ in 0..RECORDS_BEFORE {
            dialer.write_all(&record).expect("it is heard");
        }
        let mut came = [0; 164 + 24 * RECORDS_BEFORE];
        acceptor.read_exact(&mut came).expect("all of it passes");
        assert!(path.has_learnt().is_some(), "it is said as it is");
        *lock(&path.shared.pending) = Some((Deed::Replay, Side::Dialer));
        dialer.write_all(&record).expect("it is heard");
        let mut twice = [0; 48];
        acceptor.read_exact(&mut twice).expect("it comes twice");
        assert_eq!(twice[..24], twice[24..]);
        let done = path.done.recv_timeout(DEADLINE).expect("it was done");
        assert_eq!(*lock(&done.connection.ended), None);
        drop(dialer);
        while lock(&done.connection.ended).is_none() {
            thread::yield_now();
        }
        assert_eq!(
            *lock(&done.connection.ended),
            Some(Side::Dialer),
            "not who was deceived"
        );
        while lock(&path.shared.recording).is_none() {
            thread::yield_now();
        }
        // The recording of it convinces no node; one that answers is told of.
        let fooled = thread::spawn(move || {
            let (mut acceptor, _) = node.accept().expect("it is called");
            acceptor.write_all(&[1; 129]).expect("it answers");
            acceptor.shutdown(Shutdown::Write).expect("it ends");
            acceptor
        });
        let found = path
            .attack(Deed::ReplayDialer)
            .expect("there is a recording");
        assert!(
            found.is_some_and(|what| what.contains("129 bytes")),
            "{:?}",
            path.noticed()
        );
        drop(fooled.join());
    }
}
