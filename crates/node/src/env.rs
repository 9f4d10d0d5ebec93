//! What connections and operators may reach while they run: the seam between the node and whoever
//! drives it. What the cluster reaches ([`leveret_cluster::Env`]) they reach, too.

pub use crate::events::ConnectionEvent;
use leveret_auth::{LoginCheck, Verdict};
pub use leveret_cluster::events::{ClusterEvent, Executed, ProposalId};
use leveret_metadata::{CatalogueError, Command};
pub use leveret_queue_host::alarms::Alarms;
pub use leveret_queue_host::events::{LogPosition, PeerFrame, QueueAnswer, QueueEvent};
use leveret_types::{ConnectionId, ConsumerId, NodeId, Now};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Weak;

/// What became of a change of the catalogue that was asked for.
#[derive(Debug)]
pub enum Proposal {
    /// It is carried out: this node is in no cluster.
    Done(Executed),
    /// The cluster has been asked; [`ClusterEvent::Executed`] will tell.
    Waiting(ProposalId),
}

/// Whose password is checked.
#[derive(Clone, Debug)]
pub struct LoginFrom {
    /// The connection that is told.
    pub connection: ConnectionId,
    /// Where it comes from.
    pub address: IpAddr,
    /// Gone when nobody waits any more.
    pub wanted: Weak<()>,
}

/// The environment of a connection.
pub trait Env: leveret_cluster::Env {
    /// Changes the catalogue for a connection: here and now, or by asking the cluster. Nothing may
    /// be borrowed.
    ///
    /// # Errors
    /// What is wrong with the command, as far as it is known at once; nothing has changed then.
    fn propose(
        &self,
        now: Now,
        connection: ConnectionId,
        command: &Command,
    ) -> Result<Proposal, CatalogueError>;
    /// Whether publishers are to wait because the write-ahead log is behind.
    fn log_congested(&self) -> bool;
    /// Checks a password at once, where that is cheap and nobody from there has been guessing.
    fn check_login_at_once(&self, address: IpAddr, check: &LoginCheck) -> Option<Verdict>;
    /// Hands over a check that cannot be made at once. [`ConnectionEvent::LoginChecked`] tells what
    /// became of it; where its sender has gone, it need not be run.
    fn check_login(&self, from: LoginFrom, check: LoginCheck);
    /// Posts to a connection.
    fn post(&self, connection: ConnectionId, event: ConnectionEvent);
    /// Whether so much waits for this node that no more should be made for it.
    fn peer_congested(&self, peer: NodeId) -> bool;
    /// Hands over work that needs the catalogue or several shards, for whoever next has nothing
    /// borrowed.
    fn defer(&self, work: leveret_queue_host::shard::Deferred);
    /// A consumer id that was never used before.
    fn consumer_id(&self) -> ConsumerId;
    /// Unguessable bytes.
    fn random(&self) -> [u8; 16];
    /// Settings of the node.
    fn settings(&self) -> &crate::NodeSettings;
    /// Counters of the node.
    fn counters(&self) -> &crate::NodeCounters;
    /// Who is logged in where.
    fn registry(&self) -> &crate::registry::Registry;
    /// The node's registry of direct reply-to consumers.
    fn replies(&self) -> &crate::reply_to::Replies;
    /// What `x-recent-history` exchanges remember.
    fn history(&self) -> &crate::history::History;
    /// Says something to the streams of this node for a connection, which hears
    /// [`ConnectionEvent::Stream`].
    ///
    /// # Errors
    /// The command, if there is no room for it now: the connection hears when there is.
    fn say_to_streams(
        &self,
        _connection: ConnectionId,
        command: leveret_stream::Command,
    ) -> Result<(), Box<leveret_stream::Command>> {
        Err(Box::new(command))
    }
    /// A connection leaves the streams of this node. What it has said and there was no room for
    /// comes before that, whatever room there is.
    fn leave_streams(&self, _connection: ConnectionId, _unsaid: VecDeque<leveret_stream::Command>) {
    }
}
