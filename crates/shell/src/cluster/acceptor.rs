//! The cluster's port: who comes in is bounded, has little time, and is dropped before anything of
//! it is looked at unless it knows the secret.

use super::NewLink;
use super::credentials::{Credentials, Proof};
use super::handshake::{
    self, Accepted, Dialer, HandshakeError, Hello, Protection, Purpose, Refusal,
};
use super::link_tls;
use super::pending_connections::{KnownAddresses, PendingConnectionId, PendingConnections};
use super::seal::Session;
use super::sealed_stream::SealedStream;
use leveret_types::NodeId;
use leveret_types::limits::{
    PEER_CONTROL_BYTES_MAX, PEER_FIRST_BYTE_MS_MAX, PEER_HANDSHAKE_MS_MAX,
};
use parking_lot::RwLock;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Log lines about strangers in a second; the others are counted.
const LINES_PER_SECOND: u64 = 1;
/// How long the answer to a request may take.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(20);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_millis(PEER_HANDSHAKE_MS_MAX);
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_millis(PEER_FIRST_BYTE_MS_MAX);

/// Decides about those who know the secret.
pub trait AdmissionPolicy: Send + Sync {
    /// Who this node is.
    fn own(&self) -> Accepted;
    /// Whether to let somebody in.
    ///
    /// # Errors
    /// Why not.
    fn decide(&self, hello: &Hello) -> Result<(), Refusal>;
    /// Another node's link, after [`Self::decide`] has let it in.
    fn link(&self, node: NodeId, link: NewLink);
    /// Answers a request.
    fn control(&self, request: &[u8]) -> Vec<u8>;
}

/// The cluster's port, open until it is closed.
pub struct Acceptor {
    shared: Arc<Shared>,
    local: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    credentials: Arc<Credentials>,
    protection: Protection,
    admission: RwLock<Arc<dyn AdmissionPolicy>>,
    known: Arc<KnownAddresses>,
    pending: PendingConnections,
    closing: AtomicBool,
    log: Strangers,
}

impl Acceptor {
    /// Opens the port.
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub fn open(
        address: SocketAddr,
        credentials: Arc<Credentials>,
        protection: Protection,
        known: Arc<KnownAddresses>,
        admission: Arc<dyn AdmissionPolicy>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let local = listener.local_addr()?;
        let shared = Arc::new(Shared {
            credentials,
            protection,
            admission: RwLock::new(admission),
            known,
            pending: PendingConnections::default(),
            closing: AtomicBool::new(false),
            log: Strangers::default(),
        });
        let thread = {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name("leveret-cluster-acceptor".to_owned())
                .spawn(move || shared.serve(&listener))?
        };
        Ok(Self {
            shared,
            local,
            thread: Some(thread),
        })
    }

    /// Where it is.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Lets another admission policy decide from now on.
    pub fn hand_over(&self, admission: Arc<dyn AdmissionPolicy>) {
        *self.shared.admission.write() = admission;
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        // The listener sleeps in accept: a connection wakes it.
        let mut address = self.local;
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        if TcpStream::connect_timeout(&address, HANDSHAKE_TIMEOUT).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn serve(self: Arc<Self>, listener: &TcpListener) {
        loop {
            let accepted = listener.accept();
            if self.closing.load(Ordering::Acquire) {
                return;
            }
            match accepted {
                Ok((socket, remote)) => self.admit(socket, remote),
                Err(error) => {
                    self.log
                        .line(|| format!("cannot accept another node: {error}"));
                    // Out of file descriptors, in practice: others may give some back.
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }

    fn admit(self: &Arc<Self>, socket: TcpStream, remote: SocketAddr) {
        let ip = remote.ip();
        let socket = Arc::new(socket);
        let is_known = self.known.has(ip);
        let Some(id) = self.pending.enter(ip, is_known, &socket) else {
            return self
                .log
                .line(|| format!("{remote} refused: too many have not said who they are"));
        };
        let pending_connection = PendingConnection {
            shared: Arc::clone(self),
            id,
            proved: false,
        };
        let spawned = std::thread::Builder::new()
            .name("leveret-cluster-pending".to_owned())
            .spawn(move || pending_connection.receive(socket, remote, is_known));
        if let Err(error) = spawned {
            self.log.line(|| format!("{remote} refused: {error}"));
        }
    }
}

/// Somebody at the port; its place is free again when it is dropped.
struct PendingConnection {
    shared: Arc<Shared>,
    id: PendingConnectionId,
    proved: bool,
}

impl Drop for PendingConnection {
    fn drop(&mut self) {
        self.shared.pending.leave(self.id, self.proved);
    }
}

impl PendingConnection {
    fn receive(mut self, socket: Arc<TcpStream>, remote: SocketAddr, is_known: bool) {
        let admission = Arc::clone(&self.shared.admission.read());
        let met = self.meet(&socket, remote, is_known, &*admission);
        let log = &self.shared.log;
        match met {
            Ok(()) => {}
            // It has the secret, and is let in with a later attempt.
            Err(HandshakeError::Refused(Refusal::Unknown)) => {
                tracing::info!(
                    "cluster port: {remote} waits until this node hears that it has joined"
                );
            }
            Err(HandshakeError::Secret) => {
                log.line(|| format!("{remote} refused: it does not know the cluster's secret"));
            }
            Err(error) => log.line(|| format!("{remote} refused: {error}")),
        }
    }

    fn meet(
        &mut self,
        socket: &TcpStream,
        remote: SocketAddr,
        is_known: bool,
        admission: &dyn AdmissionPolicy,
    ) -> Result<(), HandshakeError> {
        socket.set_nodelay(true)?;
        let accepts = self.shared.credentials.accepted();
        let protection = self.shared.protection;
        let (pending, id) = (&self.shared.pending, self.id);
        let proved = &mut self.proved;
        let dialer = {
            let first = match is_known {
                true => HANDSHAKE_TIMEOUT,
                false => FIRST_BYTE_TIMEOUT,
            };
            let mut stream = Timed::new(socket, HANDSHAKE_TIMEOUT).with_first_byte(first);
            let decide = |hello: &Hello| {
                *proved = pending.prove(id);
                match hello.protection == protection {
                    _ if !*proved => Err(Refusal::Busy),
                    true => admission.decide(hello),
                    false => Err(Refusal::Protection),
                }
            };
            let (secrets, own, nonce) = (&accepts.secrets, admission.own(), nonce()?);
            match &accepts.tls {
                None => handshake::accept(&mut stream, secrets, own, nonce, &[], decide)?,
                Some(tls) => {
                    let (mut stream, channel) = tls.accept(stream)?;
                    handshake::accept(&mut stream, secrets, own, nonce, &channel, decide)
                        .map_err(link_tls::inside)?
                }
            }
        };
        let Dialer {
            hello,
            secret,
            session,
        } = dialer;
        if secret != 0 {
            tracing::info!(
                node = %hello.node, %remote,
                "another node proves the cluster's other secret, not the first one of this node"
            );
        }
        match hello.purpose {
            Purpose::Link => {
                // Whatever address it says that it has, from this one it comes.
                self.shared.known.note(&source(hello.node), [remote.ip()]);
                let link = NewLink {
                    uuid: hello.uuid,
                    start: hello.start,
                    socket: socket.try_clone()?,
                    session,
                };
                admission.link(hello.node, link);
            }
            Purpose::Control => {
                let stream = Timed::new(socket, CONTROL_TIMEOUT);
                let mut stream = SealedStream::new(stream, session, protection);
                let request = read_block(&mut stream)?;
                let answer = admission.control(&request);
                stream.get_mut().extend(CONTROL_TIMEOUT);
                write_block(&mut stream, &answer)?;
            }
        }
        Ok(())
    }
}

/// What the address is known by that a member's links come from.
pub(super) fn source(node: NodeId) -> String {
    format!("links of {node}")
}

/// A socket that is given up when a deadline is over, however slowly bytes drip.
struct Timed<'a> {
    socket: &'a TcpStream,
    deadline: Instant,
    /// Until when the first byte must have come, if none has.
    first_byte: Option<Instant>,
}

impl<'a> Timed<'a> {
    fn new(socket: &'a TcpStream, timeout: Duration) -> Self {
        Self {
            socket,
            deadline: Instant::now() + timeout,
            first_byte: None,
        }
    }

    fn with_first_byte(mut self, timeout: Duration) -> Self {
        self.first_byte = Some(Instant::now() + timeout);
        self
    }

    fn extend(&mut self, timeout: Duration) {
        self.deadline = Instant::now() + timeout;
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let deadline = self.first_byte.unwrap_or(self.deadline).min(self.deadline);
        let left = deadline.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(Some(left)),
        }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.left()?)?;
        let read = (&*self.socket).read(buffer)?;
        self.first_byte = None;
        Ok(read)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.left()?)?;
        (&*self.socket).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Dials a node, and stays connected. The addresses that it is found at are known from now on.
///
/// # Errors
/// See [`HandshakeError`].
pub fn dial(
    address: &str,
    proof: &Proof,
    hello: &Hello,
    known: &KnownAddresses,
) -> Result<NewLink, HandshakeError> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let resolved: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
    known.note(address, resolved.iter().map(SocketAddr::ip));
    for resolved in resolved {
        match TcpStream::connect_timeout(&resolved, HANDSHAKE_TIMEOUT) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                let (accepted, session) = meet(&socket, address, proof, hello)?;
                return Ok(NewLink {
                    uuid: accepted.uuid,
                    start: accepted.start,
                    socket,
                    session,
                });
            }
            Err(error) => last = error,
        }
    }
    Err(last.into())
}

/// The handshake of who dials.
fn meet(
    socket: &TcpStream,
    address: &str,
    proof: &Proof,
    hello: &Hello,
) -> Result<(Accepted, Session), HandshakeError> {
    let mut stream = Timed::new(socket, HANDSHAKE_TIMEOUT);
    let (secret, nonce) = (&proof.secret, nonce()?);
    let Some(tls) = &proof.tls else {
        return handshake::dial(&mut stream, secret, hello, nonce, &[]);
    };
    let (mut stream, channel) = tls.dial(host(address), stream)?;
    handshake::dial(&mut stream, secret, hello, nonce, &channel).map_err(link_tls::inside)
}

/// The name or address in `host:port`.
pub(super) fn host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Asks a node something, and waits for its answer: that node's UUID, and what it answers.
///
/// # Errors
/// See [`HandshakeError`].
pub fn ask(
    address: &str,
    proof: &Proof,
    hello: &Hello,
    known: &KnownAddresses,
    request: &[u8],
) -> Result<([u8; 16], Vec<u8>), HandshakeError> {
    let link = dial(address, proof, hello, known)?;
    let stream = Timed::new(&link.socket, CONTROL_TIMEOUT);
    let mut stream = SealedStream::new(stream, link.session, hello.protection);
    write_block(&mut stream, request)?;
    Ok((link.uuid, read_block(&mut stream)?))
}

fn read_block(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length as usize > PEER_CONTROL_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{length} bytes at once, at most {PEER_CONTROL_BYTES_MAX} are allowed"),
        ));
    }
    // It grows with what comes, not with what was claimed.
    let mut bytes = Vec::new();
    stream.take(u64::from(length)).read_to_end(&mut bytes)?;
    match bytes.len() == length as usize {
        true => Ok(bytes),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn write_block(stream: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    stream.write_all(&[&length.to_be_bytes()[..], bytes].concat())
}

/// Random bytes that make each handshake another one.
fn nonce() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

/// Log lines about strangers, few enough that nobody can fill a disk with them.
struct Strangers {
    begun: Instant,
    second: AtomicU64,
    lines: AtomicU64,
    hidden: AtomicU64,
}

impl Default for Strangers {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            second: AtomicU64::new(0),
            lines: AtomicU64::new(0),
            hidden: AtomicU64::new(0),
        }
    }
}

impl Strangers {
    fn line(&self, text: impl FnOnce() -> String) {
        let second = self.begun.elapsed().as_secs();
        if self.second.swap(second, Ordering::Relaxed) != second {
            self.lines.store(0, Ordering::Relaxed);
        }
        if self.lines.fetch_add(1, Ordering::Relaxed) >= LINES_PER_SECOND {
            self.hidden.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let hidden = self.hidden.swap(0, Ordering::Relaxed);
        tracing::warn!(like_it_before = hidden, "cluster port: {}", text());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_bounded_by_what_comes() {
        let mut bytes = Vec::new();
        write_block(&mut bytes, b"request").expect("memory");
        assert_eq!(read_block(&mut &bytes[..]).expect("whole"), b"request");
        assert!(read_block(&mut &bytes[..bytes.len() - 1]).is_err());
        let most = (PEER_CONTROL_BYTES_MAX as u32).to_be_bytes();
        let error = read_block(&mut &most[..]).expect_err("it does not come");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        let more = (PEER_CONTROL_BYTES_MAX as u32 + 1).to_be_bytes();
        let error = read_block(&mut &more[..]).expect_err("too long");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    /// Lets everybody in who knows the secret.
    struct Anybody;

    impl AdmissionPolicy for Anybody {
        fn own(&self) -> Accepted {
            Accepted {
                uuid: [1; 16],
                start: 2,
            }
        }

        fn decide(&self, _hello: &Hello) -> Result<(), Refusal> {
            Ok(())
        }

        fn link(&self, _node: NodeId, _link: NewLink) {}

        fn control(&self, request: &[u8]) -> Vec<u8> {
            [b"answer to ", request].concat()
        }
    }

    fn acceptor(secret: &[u8], protection: Protection) -> (Acceptor, Arc<KnownAddresses>) {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let known = Arc::<KnownAddresses>::default();
        let shared = Arc::clone(&known);
        let admission = Arc::new(Anybody);
        let credentials = Arc::new(Credentials::new(&[secret.to_vec()], None));
        let acceptor = Acceptor::open(any, credentials, protection, shared, admission);
        (acceptor.expect("a free port"), known)
    }

    fn hello(protection: Protection) -> Hello {
        Hello {
            purpose: Purpose::Control,
            protection,
            node: NodeId(0),
            wanted: NodeId(0),
            cluster: [0; 16],
            uuid: [3; 16],
            wanted_uuid: [0; 16],
            start: 4,
        }
    }

    #[test]
    fn a_silent_socket_has_little_time_before_its_first_byte_and_more_behind_it() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let mut dialer = TcpStream::connect(address).expect("it listens");
        let (socket, _) = listener.accept().expect("somebody comes");
        let long = Duration::from_secs(600);
        let timed = || Timed::new(&socket, long).with_first_byte(Duration::from_millis(1));
        let error = timed().read(&mut [0]).expect_err("nothing comes");
        let given_up = [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock];
        assert!(given_up.contains(&error.kind()), "{error}");
        dialer.write_all(b"1").expect("sent");
        let mut stream = Timed::new(&socket, long).with_first_byte(long);
        stream.read_exact(&mut [0]).expect("it comes");
        assert!(stream.left().expect("time is left") > Some(Duration::from_secs(60)));
        assert_eq!(stream.first_byte, None);
    }

    /// From the very address that a member has.
    #[test]
    fn however_many_silent_sockets_are_opened_who_knows_the_secret_is_answered() {
        let (acceptor, known) = acceptor(b"secret", Protection::Sealed);
        let proof = Credentials::new(&[b"secret".to_vec()], None).own();
        let address = acceptor.local();
        let over = Arc::new(AtomicBool::new(false));
        let (opened, crowded) = std::sync::mpsc::channel();
        let stranger = {
            let over = Arc::clone(&over);
            std::thread::spawn(move || {
                let mut open = std::collections::VecDeque::new();
                while !over.load(Ordering::Acquire) {
                    open.extend(TcpStream::connect(address));
                    if open.len() == 200 {
                        let _ = opened.send(());
                        open.pop_front();
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            })
        };
        crowded.recv().expect("a crowd stands there");
        for round in 0..20 {
            let hello = hello(Protection::Sealed);
            let answered = || ask(&address.to_string(), &proof, &hello, &known, b"").is_ok();
            // A node that finds no place dials again; not one in ten has to.
            assert!((0..10).any(|_| answered()), "round {round}");
        }
        over.store(true, Ordering::Release);
        stranger.join().expect("no panic");
    }

    #[test]
    fn both_nodes_protect_what_they_say_in_the_same_way_or_do_not_meet() {
        let kinds = [Protection::Sealed, Protection::Plain];
        for at_acceptor in kinds {
            let (acceptor, known) = acceptor(b"secret", at_acceptor);
            let proof = Credentials::new(&[b"secret".to_vec()], None).own();
            for protection in kinds {
                let hello = hello(protection);
                let answer = ask(
                    &acceptor.local().to_string(),
                    &proof,
                    &hello,
                    &known,
                    b"a request",
                );
                if protection == at_acceptor {
                    let (uuid, said) = answer.expect("an answer");
                    assert_eq!(said, b"answer to a request");
                    assert_eq!(uuid, Anybody.own().uuid);
                } else {
                    let error = answer.expect_err("they do not agree").to_string();
                    assert!(error.contains("cluster.links"), "{error}");
                }
            }
        }
    }
}
