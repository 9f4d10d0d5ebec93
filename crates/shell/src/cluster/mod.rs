//! The connections to the other nodes of the cluster.
//!
//! - [`handshake`]: how two nodes get to know each other.
//! - [`seal`]: what protects what they say to each other then.
//! - [`acceptor`]: who comes in at the cluster's port.
//! - `outbox`: what waits for the other nodes.
//! - `link_thread`: one connection in each direction for each other node.
//! - `links`: the bytes of those connections.
//! - [`pending_connections`]: how many may be there who have not proved who they are.
//! - `sealed_stream`: requests and their answers, protected like links.
//! - [`credentials`]: what proves that a node belongs to the cluster, while operators change it.
//! - [`link_tls`]: certificates of nodes, where there are any.
//! - `secret_file`: the secret where nobody has set one.
//! - [`identity`]: the file that says who a node is.
//! - [`join`]: how a node comes into a cluster.
//! - `admission`: who is let in at a member.
//! - [`electorate`]: whether the nodes that vote can agree, in words.

pub mod acceptor;
pub mod credentials;
pub mod electorate;
pub mod handshake;
pub mod identity;
pub mod join;
pub mod link_tls;
pub mod seal;

mod admission;
mod link_thread;
mod links;
mod outbox;
pub mod pending_connections;
mod sealed_stream;
mod secret_file;
mod start;

pub(crate) use admission::MembersAdmission;
pub(crate) use link_thread::{LinkThread, TOKEN_WAKER};
pub use outbox::Links;
pub use start::StoredCatalogue;
pub(crate) use start::{PrepareError, Prepared, Running, prepare};

use crate::tls::TlsError;
use credentials::Credentials;
use handshake::{Hello, Protection, Purpose};
use leveret_types::NodeId;
use link_tls::LinkTlsFiles;
use pending_connections::KnownAddresses;
use seal::Session;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

/// How a node becomes part of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// Where it listens for other nodes.
    pub address: SocketAddr,
    /// Where other nodes reach it: `host:port`.
    pub advertised: String,
    /// Addresses of the nodes that form the cluster, the same on each of them; may be empty.
    pub join: Vec<String>,
    /// What all nodes share; empty if it is in a file.
    pub secret: Vec<u8>,
    /// That file, which is read again while the node runs; one beside [`Self::file`] if none is
    /// named. It is made where all addresses are loopback.
    pub secret_file: Option<PathBuf>,
    /// What protects what the nodes say to each other; the same on each of them.
    pub protection: Protection,
    /// The certificates of nodes, where they are to show any: on each of them, or on none.
    pub tls: Option<LinkTlsFiles>,
    /// The file that says who the node is.
    pub file: PathBuf,
    /// Its name in listings.
    pub name: String,
}

/// Who this node is among others.
#[derive(Clone, Debug)]
pub struct Own {
    /// Its number; 0 outside clusters.
    pub node: NodeId,
    /// The cluster.
    pub cluster: [u8; 16],
    /// The identity of its data folder.
    pub uuid: [u8; 16],
    /// Another number for each run of the process.
    pub start: u64,
    /// What proves that it belongs to the cluster.
    pub credentials: Arc<Credentials>,
    /// What protects its links.
    pub protection: Protection,
    /// The addresses that the other members are known to have.
    pub known: Arc<KnownAddresses>,
}

impl Own {
    /// What this node says when it dials.
    pub fn hello(&self, purpose: Purpose, wanted: NodeId, wanted_uuid: [u8; 16]) -> Hello {
        Hello {
            purpose,
            protection: self.protection,
            node: self.node,
            wanted,
            cluster: self.cluster,
            uuid: self.uuid,
            wanted_uuid,
            start: self.start,
        }
    }
}

/// A connection on which both sides know who the other is.
pub struct NewLink {
    /// The other node's UUID.
    pub uuid: [u8; 16],
    /// The other node's start.
    pub start: u64,
    /// The connection.
    pub socket: TcpStream,
    /// The keys of what is said on it.
    pub session: Session,
}

/// What is posted to the thread of the links.
pub(crate) enum LinkEvent {
    /// Another node has dialed and proved who it is.
    Incoming(NodeId, NewLink),
    /// Another node was dialed, or why not.
    Dialed(NodeId, Result<NewLink, handshake::HandshakeError>),
    /// End.
    Stop,
}

/// Why the cluster's port does not come to life.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// Strangers could come in.
    #[error(
        "cluster.secret is not set, and {0} is reached from other machines: set the same secret on \
         all nodes, or cluster.secret_file to a copy of the same file"
    )]
    NoSecret(SocketAddr),
    /// Each node would have another secret.
    #[error(
        "cluster.secret is not set: set the same secret on all nodes, or cluster.secret_file to \
         the same file, which the first of them makes if all are on this machine (that of a node \
         alone is {} in its data folder)", .0.file_name().unwrap_or_default().display()
    )]
    SecretOfItsOwn(PathBuf),
    /// The file with the secret cannot be used.
    #[error("the cluster's secret in {}: {source}", .path.display())]
    SecretFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The address cannot be used.
    #[error("cannot listen on {address} for other nodes: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// The certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The cluster cannot be formed or joined.
    #[error("{0}")]
    Forming(String),
}
