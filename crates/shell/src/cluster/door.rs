//! The cluster's port: who comes in is bounded, has little time, and is dropped before anything of
//! it is looked at unless it knows the secret.

use super::handshake::{self, Accepted, HandshakeError, Hello, Purpose, Refusal, Secret};
use leveret_types::limits::{
    PEER_CONTROL_BYTES_MAX, PEER_HANDSHAKE_MS_MAX, PEER_HANDSHAKES_MAX, PEER_HANDSHAKES_PER_IP_MAX,
};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Log lines about strangers in a second; the others are counted.
const LINES_PER_SECOND: u64 = 1;
/// How long the answer to a request may take.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(20);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_millis(PEER_HANDSHAKE_MS_MAX);

/// Decides about those who know the secret.
pub trait Doorkeeper: Send + Sync {
    /// Who this node is.
    fn own(&self) -> Accepted;
    /// Whether to let somebody in.
    ///
    /// # Errors
    /// Why not.
    fn decide(&self, hello: &Hello) -> Result<(), Refusal>;
    /// Another node's link, after [`Self::decide`] has let it in.
    fn link(&self, hello: &Hello, socket: TcpStream);
    /// Answers a request.
    fn control(&self, request: &[u8]) -> Vec<u8>;
}

/// The cluster's port, open until it is closed.
pub struct Door {
    shared: Arc<Shared>,
    local: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    secret: Secret,
    /// Without a secret, who is not on this machine is not even greeted.
    loopback_only: bool,
    keeper: RwLock<Arc<dyn Doorkeeper>>,
    inside: Mutex<HashMap<IpAddr, usize>>,
    closing: AtomicBool,
    log: Strangers,
}

impl Door {
    /// Opens the port.
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub fn open(
        address: SocketAddr,
        secret: Secret,
        loopback_only: bool,
        keeper: Arc<dyn Doorkeeper>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let local = listener.local_addr()?;
        let shared = Arc::new(Shared {
            secret,
            loopback_only,
            keeper: RwLock::new(keeper),
            inside: Mutex::default(),
            closing: AtomicBool::new(false),
            log: Strangers::default(),
        });
        let thread = {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name("leveret-cluster-door".to_owned())
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

    /// Lets another doorkeeper decide from now on.
    pub fn hand_over(&self, keeper: Arc<dyn Doorkeeper>) {
        *self.shared.keeper.write() = keeper;
    }
}

impl Drop for Door {
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
        if self.loopback_only && !ip.is_loopback() {
            return self.log.line(|| {
                format!("{remote} refused: without cluster.secret only loopback may come")
            });
        }
        if !self.enter(ip) {
            return self
                .log
                .line(|| format!("{remote} refused: too many have not said who they are"));
        }
        let shared = Arc::clone(self);
        let spawned = std::thread::Builder::new()
            .name("leveret-cluster-guest".to_owned())
            .spawn(move || {
                shared.receive(socket, remote);
                shared.leave(ip);
            });
        if let Err(error) = spawned {
            self.leave(ip);
            self.log.line(|| format!("{remote} refused: {error}"));
        }
    }

    fn enter(&self, ip: IpAddr) -> bool {
        let mut inside = self.inside.lock();
        let all: usize = inside.values().sum();
        let of_ip = inside.entry(ip).or_default();
        let room = all < PEER_HANDSHAKES_MAX && *of_ip < PEER_HANDSHAKES_PER_IP_MAX;
        *of_ip += usize::from(room);
        inside.retain(|_, count| *count > 0);
        room
    }

    fn leave(&self, ip: IpAddr) {
        let mut inside = self.inside.lock();
        if let Some(count) = inside.get_mut(&ip) {
            *count -= 1;
        }
        inside.retain(|_, count| *count > 0);
    }

    fn receive(&self, socket: TcpStream, remote: SocketAddr) {
        let keeper = Arc::clone(&self.keeper.read());
        if let Err(error) = self.meet(socket, &*keeper) {
            self.log.line(|| match error {
                HandshakeError::Secret => {
                    format!("{remote} refused: it does not know the cluster's secret")
                }
                error => format!("{remote} refused: {error}"),
            });
        }
    }

    fn meet(&self, socket: TcpStream, keeper: &dyn Doorkeeper) -> Result<(), HandshakeError> {
        socket.set_nodelay(true)?;
        let hello = {
            let mut stream = Timed::new(&socket, HANDSHAKE_TIMEOUT);
            let decide = |hello: &Hello| keeper.decide(hello);
            handshake::accept(&mut stream, &self.secret, keeper.own(), nonce()?, decide)?
        };
        match hello.purpose {
            Purpose::Link => keeper.link(&hello, socket),
            Purpose::Control => {
                let mut stream = Timed::new(&socket, CONTROL_TIMEOUT);
                let request = read_block(&mut stream)?;
                let answer = keeper.control(&request);
                let mut stream = Timed::new(&socket, CONTROL_TIMEOUT);
                write_block(&mut stream, &answer)?;
            }
        }
        Ok(())
    }
}

/// A socket that is given up when a deadline is over, however slowly bytes drip.
struct Timed<'a> {
    socket: &'a TcpStream,
    deadline: Instant,
}

impl<'a> Timed<'a> {
    fn new(socket: &'a TcpStream, timeout: Duration) -> Self {
        Self {
            socket,
            deadline: Instant::now() + timeout,
        }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(Some(left)),
        }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.left()?)?;
        (&*self.socket).read(buffer)
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

/// Dials a node, and stays connected.
///
/// # Errors
/// See [`HandshakeError`].
pub fn dial(
    address: &str,
    secret: &Secret,
    hello: &Hello,
) -> Result<(Accepted, TcpStream), HandshakeError> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, HANDSHAKE_TIMEOUT) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                let mut stream = Timed::new(&socket, HANDSHAKE_TIMEOUT);
                let accepted = handshake::dial(&mut stream, secret, hello, nonce()?)?;
                return Ok((accepted, socket));
            }
            Err(error) => last = error,
        }
    }
    Err(last.into())
}

/// Asks a node something, and waits for its answer.
///
/// # Errors
/// See [`HandshakeError`].
pub fn ask(
    address: &str,
    secret: &Secret,
    hello: &Hello,
    request: &[u8],
) -> Result<Vec<u8>, HandshakeError> {
    let (_, socket) = dial(address, secret, hello)?;
    let mut stream = Timed::new(&socket, CONTROL_TIMEOUT);
    write_block(&mut stream, request)?;
    Ok(read_block(&mut stream)?)
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
}
