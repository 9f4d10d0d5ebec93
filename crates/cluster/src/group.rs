//! The catalogue's group: the log that all nodes of a cluster apply to their catalogues.
//!
//! Members tell each other messages of the group, commands for the leader, and catalogues in pieces
//! (`transfer`); `frame_kinds` has the first octets of these frames.
//!
//! Invariant: a node answers for a command when its own catalogue has carried it out; that is after
//! a majority has it on disk.

mod machine;
mod snapshots;
mod state;
mod store;
mod transfer;

pub(super) use machine::CatalogueContext;
pub(super) use state::CatalogueGroup;
pub use store::{Recovered, found, is_on_disk, join, recover};

use super::catalogue_changes::follow_nodes;
use super::state::{CATALOGUE_GROUP, Cluster, Event, Waiter};
use crate::catalogue::{follow, parts};
use crate::catalogue_changes::follow_in_parts;
use crate::env::Env;
use crate::events::{ClusterEvent, ProposalId};
use crate::frame_kinds;
use bytes::Bytes;
use leveret_metadata::{
    Batch, CatalogueError, Change, Command, Outcome, Proposed, decode_proposed, encode_proposed,
};
use leveret_queue_host::events::PeerFrame;
use leveret_replication::{
    Leaving, Message, ProposeError, WantedMembers, drive, settle_durable, step,
};
use leveret_types::limits::{ENTRY_BYTES_MAX, GROUP_TICK_MS, PROPOSAL_MS_MAX, READ_BARRIER_MS_MAX};
use leveret_types::{NodeId, Now, ReplicaId};
use state::Waiting;
use store::replica_of;

/// Bytes of commands that one entry carries; a larger command has one of its own.
const BATCH_BYTES: usize = 256 * 1024;
/// Entries that may wait for a majority while more commands gather.
const IN_FLIGHT_MAX: u64 = 8;

impl CatalogueGroup {
    /// Takes in what has happened.
    pub(super) fn handle<E: Env>(&mut self, context: &CatalogueContext<'_, E>, event: Event) {
        match event {
            Event::Propose {
                id,
                waiter,
                command,
            } => {
                if let Err(error) = command.check_writable() {
                    self.answer(waiter, id, Err(error), context.cluster, context.env);
                    return;
                }
                let patience = match &waiter {
                    Waiter::ReadBarrier(_) => READ_BARRIER_MS_MAX,
                    _ => PROPOSAL_MS_MAX,
                };
                let deadline_ms = context.now.monotonic_ms + patience;
                let waiting = Waiting {
                    command,
                    waiter,
                    deadline_ms,
                };
                self.waiting.insert(id.0, waiting);
            }
            Event::Frame(from, frame) => self.receive(context, from, frame),
            Event::PeerUp(peer) => {
                self.reconciler.came();
                self.absences.end(peer);
                self.group.peer_up(peer);
                if self.handed_to.is_some_and(|to| to.node() == peer) {
                    // What was on its way may be lost.
                    self.handed_over = 0;
                }
            }
            Event::PeerDown(peer) => {
                self.uptimes.end(peer);
                self.end_transfers(peer);
                self.group.peer_down(peer);
            }
            Event::Transfer(to) => {
                if let Err(error) = self.group.transfer_to(to) {
                    tracing::debug!(%to, "the catalogue's leader stays: {error}");
                }
            }
            Event::Drain => {}
            Event::AwaitReadBarrier(connection) => self.at_read_barrier.push(connection),
            Event::Outdated => {
                self.is_unfit = true;
                self.group.resign();
            }
        }
    }

    fn receive<E: Env>(&mut self, context: &CatalogueContext<'_, E>, from: NodeId, frame: Bytes) {
        let Some((&kind, _)) = frame.split_first() else {
            return;
        };
        let payload = frame.slice(1..);
        let taken = match kind {
            frame_kinds::RAFT => self.receive_message(context, from, &payload),
            frame_kinds::PROPOSED => match decode_proposed(&payload) {
                Ok(commands) => {
                    self.gathered.extend(commands);
                    Ok(())
                }
                Err(error) => Err(error.to_string()),
            },
            frame_kinds::PIECE => self.receive_piece(context, from, &payload),
            frame_kinds::PIECE_CAME => self.piece_came(context.now, from, &payload),
            other => Err(format!("unknown kind {other}")),
        };
        if let Err(why) = taken {
            tracing::warn!(%from, "a message about the catalogue is dropped: {why}");
        }
    }

    fn receive_message<E: Env>(
        &mut self,
        context: &CatalogueContext<'_, E>,
        from: NodeId,
        payload: &Bytes,
    ) -> Result<(), String> {
        let (message, _) = Message::decode(payload).map_err(|error| error.to_string())?;
        if message.from.node() != from {
            return Err(format!("it is in the name of node {}", message.from.node()));
        }
        self.had_message = true;
        match step(self, context, message) {
            Err(error) if error.is_final() => {
                if !std::mem::replace(&mut self.is_unfit, true) {
                    tracing::error!(
                        "this node's copy of the catalogue does not go with the cluster's: {error}. \
                         It takes no part in elections; have the cluster forget this node, and let \
                         it join anew with an empty data folder"
                    );
                }
                Ok(())
            }
            result => result.map_err(|error| error.to_string()),
        }
    }

    /// Hands the catalogue to the voter that is up, may lead, and is furthest.
    pub(super) fn hand_over_leadership(&mut self, may_lead: impl Fn(NodeId) -> bool) {
        let to = self.group.heir(|member| may_lead(member.node()));
        if let Some(to) = to
            && let Err(error) = self.group.transfer_leader(to)
        {
            tracing::debug!("the catalogue's leader stays: {error}");
        }
    }

    // --- what follows ---------------------------------------------------------------------------

    /// Does all that can be done now.
    pub(super) fn advance<E: Env>(&mut self, context: &mut CatalogueContext<'_, E>) {
        let (now, cluster, env) = (context.now, context.cluster, context.env);
        self.note_durable(context);
        self.give_way(now);
        if self.group.wants_tick() && now.monotonic_ms >= self.ticked_ms + GROUP_TICK_MS {
            self.ticked_ms = now.monotonic_ms;
            self.group.tick();
        }
        self.begin_read_barrier(cluster);
        self.reconcile(now, cluster, env);
        self.see_to_voters(now, cluster, env);
        self.see_to_absent(now, cluster, env);
        drive(self, context);
        if std::mem::take(&mut self.had_message)
            && self.group.is_leader()
            && self.group.wants_tick()
        {
            // Somebody at each node waits to hear what is committed: it is told at once.
            self.group.tick();
            drive(self, context);
        }
        self.send_pieces(now, env);
        self.expire(now, cluster, env);
        let stayed_ms = self.uptimes.due_ms().min(self.absences.due_ms());
        let due_ms = self.reconciler.due_ms().min(stayed_ms);
        cluster.note(self.group.leader(), self.wants_attention(), due_ms);
    }

    /// Asks for those who want to know: once for all, and not again before that is answered.
    fn begin_read_barrier(&mut self, cluster: &Cluster) {
        if self.read_barrier.is_none() && !self.at_read_barrier.is_empty() {
            let at_read_barrier = std::mem::take(&mut self.at_read_barrier);
            let id = cluster.propose(Waiter::ReadBarrier(at_read_barrier), Command::Look);
            self.read_barrier = Some(id.0);
        }
    }

    fn reconcile<E: Env>(&mut self, now: Now, cluster: &Cluster, env: &E) {
        let catalogue = env.catalogue();
        let config = catalogue.config().membership;
        self.reconciler.leads(self.group.is_leader(), now, &config);
        if !cluster.has_placed_queues() {
            return;
        }
        let is_up = |node| node == self.own || env.peers().is_up(node);
        let commands = self.reconciler.run(now, &catalogue, is_up);
        drop(catalogue);
        for command in commands {
            cluster.propose(Waiter::Nobody, command);
        }
    }

    /// Whether time matters.
    fn wants_attention(&self) -> bool {
        let waits_to_lead = self.group.is_leader() && self.group.is_writing();
        let is_busy = !self.waiting.is_empty() || !self.departing.is_empty();
        self.group.wants_tick() || is_busy || waits_to_lead
    }

    /// Whether something that it has written is not known to be durable.
    pub(super) fn awaits_log(&self) -> bool {
        self.group.is_writing()
    }

    fn note_durable<E: Env>(&mut self, context: &CatalogueContext<'_, E>) {
        settle_durable(self, context);
        let (settled, waits) = (self.group.settled(), self.group.is_writing());
        match settled == std::mem::replace(&mut self.settled, settled) {
            true => self.stalled_log.note(context.now, waits),
            false => self.stalled_log.ended(context.now, waits),
        }
    }

    /// Lets another member lead if this one's log is stuck: its disk is full, or hangs.
    fn give_way(&mut self, now: Now) {
        if !self.stalled_log.is_due(now, self.group.is_writing()) {
            return;
        }
        let ahead: Vec<ReplicaId> = self.group.ahead_on_disk().collect();
        let Some(to) = self.group.successor(|member| ahead.contains(&member)) else {
            self.stalled_log.recheck_soon(now);
            return;
        };
        tracing::warn!(
            %to,
            "the disk has not taken writes of the log for 2 s: handing over the catalogue"
        );
        if let Err(error) = self.group.transfer_leader(to) {
            tracing::debug!(%to, "the catalogue's leader stays: {error}");
        }
    }

    /// Brings this node's commands to the leader.
    fn hand_over<E: Env>(&mut self, env: &E) {
        let leader = self.group.leader();
        if leader != self.handed_to {
            self.handed_to = leader;
            self.handed_over = 0;
        }
        let Some(leader) = leader else { return };
        let mut commands: Vec<Proposed> = Vec::new();
        for (id, waiting) in self.waiting.range(self.handed_over + 1..) {
            commands.push(Proposed {
                origin: self.own.0,
                start: self.start,
                id: *id,
                command: waiting.command.clone(),
            });
        }
        let Some(last) = commands.last().map(|command| command.id) else {
            return;
        };
        if leader == self.group.replica() {
            if !self.group.is_leader() {
                return;
            }
            self.gathered.extend(commands);
        } else if env.peers().is_up(leader.node()) {
            for part in commands.chunks(1_024) {
                let mut bytes = vec![frame_kinds::PROPOSED];
                bytes.extend(encode_proposed(part));
                env.post_peer(leader.node(), PeerFrame::new(CATALOGUE_GROUP, bytes));
            }
        } else {
            return;
        }
        self.handed_over = last;
    }

    /// Proposes what has gathered, as few entries.
    fn propose_gathered<E: Env>(&mut self, env: &E) {
        if !self.group.is_leader() {
            // Whoever proposed them hands them to the next leader.
            self.gathered.clear();
            return;
        }
        while !self.gathered.is_empty()
            && self.group.status().last_index < self.group.commit() + IN_FLIGHT_MAX
        {
            let mut up: Vec<u32> = env.peers().up().iter().map(|node| node.0).collect();
            up.push(self.own.0);
            up.sort_unstable();
            let mut commands = Vec::new();
            let mut bytes = 0;
            while let Some(next) = self.gathered.front() {
                bytes += next.command.encode().len();
                if !commands.is_empty() && bytes > BATCH_BYTES {
                    break;
                }
                commands.extend(self.gathered.pop_front());
            }
            let rules = env.catalogue().rules();
            let batch = Batch {
                rules,
                up,
                commands,
            };
            let data = batch.encode();
            if data.len() > ENTRY_BYTES_MAX {
                tracing::error!(
                    bytes = data.len(),
                    "a command is too large to be replicated"
                );
                continue;
            }
            match self.group.propose(data.into()) {
                Ok(_) => {}
                Err(ProposeError::Full | ProposeError::Transferring) => {
                    for command in batch.commands.into_iter().rev() {
                        self.gathered.push_front(command);
                    }
                    return;
                }
                Err(error) => {
                    tracing::warn!("the catalogue's leader cannot propose: {error}");
                    return;
                }
            }
        }
    }

    /// As leader: brings the group's members in line with the cluster's nodes, step by step.
    fn propose_members<E: Env>(&mut self, env: &E) {
        if !self.group.is_leader() {
            return;
        }
        let (mut voters, mut learners) = (Vec::new(), Vec::new());
        for node in env.catalogue().nodes() {
            match node.votes {
                true => voters.push(replica_of(node.id())),
                false => learners.push(replica_of(node.id())),
            }
        }
        let wanted = WantedMembers {
            voters: &voters,
            learners: &learners,
            // Whoever the cluster has forgotten does not come back.
            leaving: Leaving::First,
        };
        match self.group.approach(&wanted) {
            Ok(_) | Err(ProposeError::ChangePending | ProposeError::Transferring) => {}
            Err(error) => tracing::debug!("the catalogue's group stays as it is: {error}"),
        }
    }

    /// As leader: lets nodes vote that have joined and stayed.
    fn see_to_voters<E: Env>(&mut self, now: Now, cluster: &Cluster, env: &E) {
        if !self.group.is_leader() {
            self.uptimes.clear();
            return;
        }
        let close: Vec<NodeId> = self
            .group
            .promotable_learners()
            .map(ReplicaId::node)
            .collect();
        let is_there = |node: &NodeId| {
            let has_caught_up = close.contains(node) || self.uptimes.has(*node);
            has_caught_up && env.peers().is_up(*node)
        };
        let nodes: Vec<NodeId> = {
            let catalogue = env.catalogue();
            let waiting = catalogue.nodes().filter(|node| !node.votes);
            waiting.map(leveret_metadata::NodeRecord::id).collect()
        };
        let there: Vec<NodeId> = nodes.iter().copied().filter(is_there).collect();
        let mut due = self.uptimes.note(&there, now);
        // What an older version let in votes already.
        let voters = &self.group.membership().voters;
        due.extend(
            nodes
                .iter()
                .filter(|node| voters.contains(&replica_of(**node))),
        );
        for node in due {
            tracing::info!(%node, "a node that has joined has stayed: it votes from now on");
            cluster.propose(Waiter::Nobody, Command::NodePromote { node: node.0 });
        }
    }

    /// As leader: deletes the exclusive and transient queues of nodes that have been down for long.
    /// Who loses its majority leads no more, so that a minority does not count the others.
    fn see_to_absent<E: Env>(&mut self, now: Now, cluster: &Cluster, env: &E) {
        if !self.group.is_leader() {
            self.absences.clear();
            return;
        }
        let own = self.own;
        let is_up = |node: NodeId| node == own || env.peers().is_up(node);
        let lost: Vec<Command> = {
            let catalogue = env.catalogue();
            let nodes = catalogue.nodes().map(leveret_metadata::NodeRecord::id);
            let down: Vec<NodeId> = nodes.filter(|node| !is_up(*node)).collect();
            let due = self.absences.note(&down, now).into_iter();
            let due = due.filter(|node| catalogue.has_transient_queues(*node));
            let records = due.filter_map(|node| catalogue.node(node));
            let lost = records.map(|record| {
                let (node, start) = (record.node, record.start);
                tracing::info!(
                    node,
                    "a node has been down for long: its exclusive and transient queues are deleted"
                );
                Command::NodeLost { node, start }
            });
            lost.collect()
        };
        for command in lost {
            cluster.propose(Waiter::Nobody, command);
        }
    }

    fn apply_batch<E: Env>(&mut self, now: Now, batch: &Batch, cluster: &Cluster, env: &E) {
        let is_placed = cluster.has_placed_queues();
        let results = env.change_catalogue(|catalogue| {
            let results = catalogue.apply_batch(batch);
            for change in changes_of(&results) {
                if !is_placed && *change == Change::NodesChanged {
                    follow_nodes(catalogue, env);
                }
                let config = &catalogue.config().membership;
                self.reconciler.changed(change, now, config);
            }
            if is_placed {
                for change in parts(changes_of(&results)).0 {
                    follow(catalogue, change, now, env);
                }
            }
            if catalogue.begin_to_unlink() {
                env.unlink_bindings();
            }
            results
        });
        // Where a command has changed very many queues, others get at the catalogue meanwhile.
        let later = parts(changes_of(&results)).1;
        if is_placed {
            follow_in_parts(&later, now, env);
        }
        for (proposed, result) in batch.commands.iter().zip(results) {
            if proposed.origin != self.own.0 || proposed.start != self.start {
                continue;
            }
            if let (Some(waiting), Some(result)) = (self.waiting.remove(&proposed.id), result) {
                self.answer(
                    waiting.waiter,
                    ProposalId(proposed.id),
                    result,
                    cluster,
                    env,
                );
            }
        }
    }

    // --- the end --------------------------------------------------------------------------------

    /// Commands for which nobody answers in time: without a majority.
    fn expire<E: Env>(&mut self, now: Now, cluster: &Cluster, env: &E) {
        let is_due = |waiting: &Waiting| waiting.deadline_ms <= now.monotonic_ms;
        if let Some(read_barrier) = self.read_barrier
            && self.waiting.get(&read_barrier).is_some_and(is_due)
        {
            self.give_up(read_barrier, cluster, env);
        }
        while let Some((first, waiting)) = self.waiting.first_key_value()
            && is_due(waiting)
        {
            self.give_up(*first, cluster, env);
        }
    }

    fn give_up<E: Env>(&mut self, id: u64, cluster: &Cluster, env: &E) {
        if let Some(waiting) = self.waiting.remove(&id) {
            let result = Err(CatalogueError::NoMajority);
            self.answer(waiting.waiter, ProposalId(id), result, cluster, env);
        }
    }

    fn answer<E: Env>(
        &mut self,
        waiter: Waiter,
        id: ProposalId,
        result: Result<Outcome, CatalogueError>,
        cluster: &Cluster,
        env: &E,
    ) {
        match waiter {
            Waiter::Connection(connection) => {
                env.tell(connection, ClusterEvent::Executed { id, result });
            }
            Waiter::ReadBarrier(connections) => {
                self.read_barrier = None;
                cluster.read_barriers_passed(connections.len());
                for connection in connections {
                    env.tell(connection, ClusterEvent::ReadBarrierPassed);
                }
            }
            Waiter::Operator(answer) => {
                // Whoever asked may have given up.
                let _ = answer.try_send(result);
            }
            Waiter::Nobody => {
                if let Err(error) = result {
                    tracing::debug!(%error, "the cluster refuses what this node asked for");
                }
            }
        }
    }
}

/// What commands have changed, in their order.
fn changes_of(
    results: &[Option<Result<Outcome, CatalogueError>>],
) -> impl Iterator<Item = &Change> {
    let outcomes = results.iter().flatten().flatten();
    outcomes.flat_map(|outcome| &outcome.changes)
}
