//! Somebody between two nodes, who reads what they say and changes it.

use super::{eventually, free_addresses, knows, member, put_vhost, start_all};
use crate::client::scratch;
use leveret_cluster::Env;
use leveret_shell::cluster::handshake::Protection;
use leveret_shell::node::Node;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

/// What is said of a dialer until records begin.
const DIALER_BYTES: usize = 164;

/// What is done to a record on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Flip,
    Repeat,
    Drop,
    Swap,
    /// One of its own goes before it.
    Forge,
}

/// Carries connections to a node, and keeps all that is said on them.
struct OnPath {
    to: SocketAddr,
    protection: Protection,
    heard: Mutex<Vec<u8>>,
    /// What is to be done to the next record.
    deed: Mutex<Option<Deed>>,
    /// Links that the node has ended after that.
    ended: AtomicUsize,
}

impl OnPath {
    /// Stands at `front` for `to`, for as long as the process lives.
    fn stand(front: SocketAddr, to: SocketAddr, protection: Protection) -> Arc<Self> {
        let listener = TcpListener::bind(front).expect("a free address");
        let path = Arc::new(Self {
            to,
            protection,
            heard: Mutex::default(),
            deed: Mutex::default(),
            ended: AtomicUsize::new(0),
        });
        let carries = Arc::clone(&path);
        std::thread::spawn(move || {
            for dialer in listener.incoming().flatten() {
                let Ok(node) = TcpStream::connect(carries.to) else {
                    continue;
                };
                // Connections end; that is what is tested.
                let _ = carries.carry(&dialer, &node);
            }
        });
        path
    }

    fn carry(self: &Arc<Self>, dialer: &TcpStream, node: &TcpStream) -> io::Result<()> {
        let (did, done) = channel();
        let (mut from, mut to) = (dialer.try_clone()?, node.try_clone()?);
        let path = Arc::clone(self);
        std::thread::spawn(move || {
            let _ = path.forth(&mut from, &mut to, &did);
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        });
        let (mut from, mut to) = (node.try_clone()?, dialer.try_clone()?);
        let path = Arc::clone(self);
        std::thread::spawn(move || {
            let _ = path.back(&mut from, &mut to, &done);
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        });
        Ok(())
    }

    fn hear(&self, bytes: &[u8]) {
        lock(&self.heard).extend_from_slice(bytes);
    }

    /// From the dialer to the node: record by record.
    fn forth(
        &self,
        from: &mut TcpStream,
        to: &mut TcpStream,
        did: &Sender<Deed>,
    ) -> io::Result<()> {
        let mut hello = [0; DIALER_BYTES];
        from.read_exact(&mut hello)?;
        to.write_all(&hello)?;
        if self.protection == Protection::Plain {
            return self.copy(from, to);
        }
        loop {
            let mut record = read_record(from)?;
            self.hear(&record);
            let deed = lock(&self.deed).take();
            if let Some(deed) = deed {
                // Said first, so that who sees the end knows why.
                let _ = did.send(deed);
            }
            match deed {
                None => {}
                Some(Deed::Flip) => *record.last_mut().expect("a record has bytes") ^= 1,
                Some(Deed::Repeat) => to.write_all(&record)?,
                Some(Deed::Drop) => continue,
                Some(Deed::Forge) => {
                    let mut forged = record.clone();
                    forged[4..].fill(7);
                    to.write_all(&forged)?;
                }
                Some(Deed::Swap) => {
                    let next = read_record(from)?;
                    to.write_all(&next)?;
                }
            }
            to.write_all(&record)?;
        }
    }

    /// From the node to the dialer: as it comes.
    fn back(
        &self,
        from: &mut TcpStream,
        to: &mut TcpStream,
        done: &Receiver<Deed>,
    ) -> io::Result<()> {
        // A reset is an end too.
        let _ = self.copy(from, to);
        self.ended
            .fetch_add(done.try_iter().count(), Ordering::SeqCst);
        Ok(())
    }

    fn copy(&self, from: &mut TcpStream, to: &mut TcpStream) -> io::Result<()> {
        let mut buffer = [0; 4_096];
        loop {
            let count = from.read(&mut buffer)?;
            if count == 0 {
                return Ok(());
            }
            self.hear(&buffer[..count]);
            to.write_all(&buffer[..count])?;
        }
    }

    fn has_heard(&self, word: &[u8]) -> bool {
        lock(&self.heard)
            .windows(word.len())
            .any(|found| found == word)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A record with its length.
fn read_record(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut record = vec![0; 4];
    from.read_exact(&mut record)?;
    let length = u32::from_le_bytes([record[0], record[1], record[2], record[3]]);
    record.resize(4 + length as usize, 0);
    from.read_exact(&mut record[4..])?;
    Ok(record)
}

/// Two nodes with somebody between them, on the way to the second.
fn two(folder: &Path, protection: Protection) -> (Vec<Node>, Arc<OnPath>) {
    let [first, second, front] = free_addresses::<3>();
    let path = OnPath::stand(front, second, protection);
    let list = [first, front];
    let configs = [(first, first), (second, front)].map(|(own, advertised)| {
        let mut config = member(folder, own, &list, b"secret");
        let cluster = config.cluster.as_mut().expect("it is to be in a cluster");
        cluster.advertised = advertised.to_string();
        cluster.protection = protection;
        config
    });
    let nodes = start_all(configs.into());
    all_are_up(&nodes);
    (nodes, path)
}

fn all_are_up(nodes: &[Node]) {
    for node in nodes {
        eventually("both are up", || node.broker.peers().up().len() == 1);
    }
}

#[test]
fn who_is_between_two_nodes_reads_nothing_unless_an_operator_says_so() {
    for (protection, reads) in [(Protection::Sealed, false), (Protection::Plain, true)] {
        let scratch = scratch(&format!("cluster-overheard-{reads}"));
        let (nodes, path) = two(scratch.path(), protection);
        for node in &nodes {
            put_vhost(node, "a name for members alone");
        }
        eventually("both have it", || {
            nodes
                .iter()
                .all(|node| knows(node, "a name for members alone"))
        });
        assert!(!lock(&path.heard).is_empty(), "it is on their way");
        assert_eq!(path.has_heard(b"members alone"), reads);
        assert_eq!(path.has_heard(b"leveret@"), reads);
        nodes.into_iter().for_each(Node::shut_down);
    }
}

#[test]
fn who_is_between_two_nodes_ends_their_link_and_changes_nothing() {
    let scratch = scratch("cluster-altered");
    let (nodes, path) = two(scratch.path(), Protection::Sealed);
    let deeds = [
        Deed::Flip,
        Deed::Repeat,
        Deed::Drop,
        Deed::Swap,
        Deed::Forge,
    ];
    for (round, deed) in deeds.into_iter().enumerate() {
        *lock(&path.deed) = Some(deed);
        eventually(&format!("the node ends the link: {deed:?}"), || {
            path.ended.load(Ordering::SeqCst) > round
        });
        let name = format!("after-{deed:?}");
        put_vhost(&nodes[round % 2], &name);
        eventually("they are connected anew", || {
            nodes.iter().all(|node| knows(node, &name))
        });
        all_are_up(&nodes);
    }
    nodes.into_iter().for_each(Node::shut_down);
}
