//! A node's part in its cluster, from the file that says who it is to a thread that serves it.

use super::acceptor::{Acceptor, AdmissionPolicy};
use super::credentials::{self, Credentials};
use super::electorate::Electorate;
use super::handshake::{Accepted, Hello, Protection, Refusal};
use super::identity::{IdentityFile, IdentityStore, Joined};
use super::link_tls::LinkTlsFiles;
use super::pending_connections::KnownAddresses;
use super::{
    ClusterConfig, ClusterError, LinkThread, Links, MembersAdmission, NewLink, Own, TOKEN_WAKER,
    join, secret_file,
};
use crate::broker::Broker;
use crate::inbox::Inbox;
use leveret_cluster::Env;
use leveret_cluster::{Cluster, PeerAddress, follow_nodes, group};
use leveret_metadata::{Catalogue, CatalogueError, Command, NodeRecord};
use leveret_storage::ShardLogs;
use leveret_types::NodeId;
use mio::{Poll, Waker};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a node needs to serve its cluster, before its threads run.
pub(crate) struct Prepared {
    pub(crate) own: Own,
    config: ClusterConfig,
    acceptor: Acceptor,
    poll: Poll,
    members: Vec<PeerAddress>,
    identity_file: Arc<IdentityStore>,
}

/// What a broker in a cluster is made with.
pub(crate) struct Parts {
    pub(crate) prepared: Prepared,
    pub(crate) links: Links,
    pub(crate) cluster: Cluster,
    pub(crate) catalogue: Catalogue,
}

/// A node's part in its cluster while it runs.
pub(crate) struct Running {
    /// Where other nodes come in.
    pub(crate) address: SocketAddr,
    config: ClusterConfig,
    credentials: Arc<Credentials>,
    acceptor: Acceptor,
    thread: JoinHandle<()>,
}

/// Nobody is let in yet.
struct Nobody(Accepted);

impl AdmissionPolicy for Nobody {
    fn own(&self) -> Accepted {
        self.0
    }

    fn decide(&self, _hello: &Hello) -> Result<(), Refusal> {
        Err(Refusal::Forming)
    }

    fn link(&self, _node: NodeId, _link: NewLink) {}

    fn control(&self, _request: &[u8]) -> Vec<u8> {
        Vec::new()
    }
}

/// Finds out who this node is, and lets it join or found a cluster if it is in none. `logs` are
/// shard 0's, `uuid` is the data folder's identity, `standalone` is the catalogue of a node that is
/// in no cluster yet.
///
/// # Errors
/// What the operator has to change.
pub(crate) fn prepare(
    config: ClusterConfig,
    uuid: [u8; 16],
    logs: &mut ShardLogs,
    standalone: Catalogue,
    load: impl FnMut(&mut ShardLogs),
) -> Result<Parts, PrepareError> {
    let texts = secret_file::secrets(&config)?;
    warn_of_weak(&texts);
    let tls = config.tls.as_ref().map(LinkTlsFiles::load).transpose();
    let tls = tls.map_err(ClusterError::Tls)?;
    let credentials = Arc::new(Credentials::new(&texts, tls));
    let known = Arc::<KnownAddresses>::default();
    let nobody = Arc::new(Nobody(Accepted { uuid, start: 0 }));
    if config.protection == Protection::Plain {
        tracing::warn!(
            "cluster.links = plain: whoever is between the nodes can read and change what they say"
        );
    }
    let acceptor = Acceptor::open(
        config.address,
        Arc::clone(&credentials),
        config.protection,
        Arc::clone(&known),
        nobody,
    )
    .map_err(|source| ClusterError::Listen {
        address: config.address,
        source,
    })?;
    let mut file = read_identity(&config, uuid, group::is_on_disk(logs))?;
    if file.joined.is_none() {
        let has_data = standalone.vhosts().next().is_some();
        let (way, joined) = join::form(&config, &acceptor, &credentials, &known, file, has_data)?;
        file = joined;
        match way {
            join::Way::Founded => tracing::info!("this node has founded a cluster"),
            join::Way::Joined => tracing::info!("this node has joined a cluster"),
        }
    }
    let node = file.joined.as_ref().map_or(NodeId(0), |joined| joined.node);
    let catalogue_config = standalone.config().clone();
    if !group::is_on_disk(logs) {
        if node == NodeId(1) {
            let mut catalogue = standalone;
            let first = first_record(&config, uuid);
            group::found(&mut catalogue, first, &config.join, logs);
        } else {
            group::join(logs);
        }
    }
    let (identity, known_starts) = file
        .begin(wall_ms())
        .ok_or_else(|| ClusterError::Forming("this node has no number".to_owned()))?;
    write_identity(&config, &file)?;
    let (catalogue, recovered) = group::recover(logs, catalogue_config, load)?;
    let own = Own {
        node,
        cluster: identity.cluster,
        uuid,
        start: identity.start,
        credentials,
        protection: config.protection,
        known,
    };
    let poll = Poll::new()?;
    let inbox = Inbox::new(Waker::new(poll.registry(), TOKEN_WAKER)?);
    if known_starts.missing != 0 {
        tracing::error!(
            "this node's data folder is an older copy of itself: the node takes no part in \
             elections; have the cluster forget it, and let it join anew with an empty data folder"
        );
    }
    let members = file.joined.as_ref();
    let members = members.map(|joined: &Joined| joined.members.clone());
    let identity_file = Arc::new(IdentityStore::new(config.file.clone(), file));
    Ok(Parts {
        prepared: Prepared {
            own,
            config,
            acceptor,
            poll,
            members: members.unwrap_or_default(),
            identity_file,
        },
        links: Links::new(node, inbox),
        cluster: Cluster::new(identity, recovered)?.with_starts(known_starts),
        catalogue,
    })
}

/// Why a node does not become part of its cluster.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrepareError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    #[error(transparent)]
    System(#[from] io::Error),
}

impl Prepared {
    /// Starts to serve; returns when this node has caught up with its cluster, and what its last
    /// run left there is gone.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub(crate) fn start(self, broker: &Arc<Broker>) -> io::Result<Running> {
        let others = self.members.into_iter();
        let others = others.filter(|member| member.node != self.own.node);
        broker.peers().replace(others.collect());
        {
            let catalogue = broker.catalogue();
            if catalogue.is_clustered() {
                follow_nodes(&catalogue, &**broker);
            }
        }
        let address = self.acceptor.local();
        self.acceptor.hand_over(Arc::new(MembersAdmission {
            broker: Arc::clone(broker),
            own: self.own.clone(),
        }));
        let node = self.own.node;
        let credentials = Arc::clone(&self.own.credentials);
        let file = Arc::clone(&self.identity_file);
        let link_thread = LinkThread::new(Arc::clone(broker), self.own, self.poll, file);
        let thread = std::thread::Builder::new()
            .name("leveret-links".to_owned())
            .spawn(move || link_thread.run())?;
        let started = Command::NodeStarted {
            node: node.0,
            address: self.config.advertised.clone(),
            name: self.config.name.clone(),
        };
        while let Err(error) = broker.execute_in_cluster(&started) {
            let why = Electorate::seen_by(broker).map(|seen| seen.to_string());
            let why = why.unwrap_or_else(|| error.to_string());
            tracing::warn!(%node, %address, "this node waits for its cluster: {why}");
        }
        let cluster = broker.cluster();
        if cluster.is_some_and(|cluster| cluster.missing_start().is_none()) {
            self.identity_file.settle();
        }
        tracing::info!(%node, %address, "this node is part of its cluster");
        Ok(Running {
            address,
            config: self.config,
            credentials,
            acceptor: self.acceptor,
            thread,
        })
    }
}

impl Running {
    /// Reads the file with the secrets and the certificates again: this node proves and accepts
    /// what they say now, and connections that stand go on.
    ///
    /// # Errors
    /// What is wrong with a file; all stays as it was.
    pub(crate) fn reload(&self) -> Result<(), ClusterError> {
        let texts = secret_file::secrets_there(&self.config)?;
        let tls = self.config.tls.as_ref().map(LinkTlsFiles::load);
        if self.credentials.replace(&texts, tls.transpose()?) {
            warn_of_weak(&texts);
            tracing::info!(
                accepted = texts.len(),
                "the cluster's secrets were read again: this node proves the first of them"
            );
        }
        Ok(())
    }

    /// Leaves the others in order: what this node leads of the catalogue is handed over first.
    pub(crate) fn stop(self, broker: &Broker) {
        drop(self.acceptor);
        broker.cluster_links().tell(super::LinkEvent::Stop);
        // A thread that panicked has ended the process already where panics abort.
        let _ = self.thread.join();
    }
}

/// Which catalogue a store has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredCatalogue {
    /// None, or an empty one.
    None,
    /// That of a node which was alone.
    Own,
    /// A cluster's.
    OfCluster,
}

impl ClusterConfig {
    /// What can be told to be wrong without a start.
    ///
    /// # Errors
    /// What the operator has to change.
    pub fn check(&self) -> Result<(), ClusterError> {
        if let Some(files) = &self.tls {
            files.load()?;
        }
        secret_file::known(self).map(drop)
    }

    /// What a start would say to a store of this identity.
    ///
    /// # Errors
    /// What the operator has to change.
    pub fn check_store(&self, uuid: [u8; 16], stored: StoredCatalogue) -> Result<(), ClusterError> {
        let file = read_identity(self, uuid, stored == StoredCatalogue::OfCluster)?;
        match file.joined {
            Some(_) => Ok(()),
            None => join::forming(self, &file, stored == StoredCatalogue::Own).map(drop),
        }
    }
}

fn warn_of_weak(secrets: &[Vec<u8>]) {
    if secrets.iter().any(|secret| credentials::is_weak(secret)) {
        tracing::warn!(
            "the cluster's secret is short or says little: who watches two nodes meet may guess \
             it; make one with `openssl rand -base64 32`"
        );
    }
}

fn read_identity(
    config: &ClusterConfig,
    uuid: [u8; 16],
    is_on_disk: bool,
) -> Result<IdentityFile, ClusterError> {
    let path = config.file.display();
    let read = IdentityFile::read(&config.file)
        .map_err(|error| ClusterError::Forming(format!("cannot read {path}: {error}")))?;
    match read {
        Some(file) if file.uuid != uuid => Err(ClusterError::Forming(format!(
            "{path} belongs to another data folder; remove it to let this node join as a new one",
        ))),
        Some(file) if file.joined.is_none() && is_on_disk => Err(damaged(config)),
        None if is_on_disk => Err(damaged(config)),
        Some(file) => Ok(file),
        None => Ok(IdentityFile {
            uuid,
            ..IdentityFile::default()
        }),
    }
}

fn damaged(config: &ClusterConfig) -> ClusterError {
    ClusterError::Forming(format!(
        "this data folder is a cluster's, but {} does not say which: restore that file, or start \
         with an empty data folder",
        config.file.display(),
    ))
}

fn write_identity(config: &ClusterConfig, file: &IdentityFile) -> Result<(), ClusterError> {
    file.write(&config.file).map_err(|error| {
        ClusterError::Forming(format!("cannot write {}: {error}", config.file.display()))
    })
}

fn first_record(config: &ClusterConfig, uuid: [u8; 16]) -> NodeRecord {
    NodeRecord {
        node: 1,
        uuid,
        address: config.advertised.clone(),
        name: config.name.clone(),
        start: 0,
        applied: 0,
        draining: false,
        votes: true,
    }
}

fn wall_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}
