//! Streams that have replicas on other nodes: what the catalogue orders, and what nodes say to each
//! other.
//!
//! Whoever embeds the streams of a node carries messages between nodes, in order and once where it
//! can; where a link is another one than before, it says so ([`StreamHost::connected`]). It takes
//! messages ([`StreamHost::take_messages`]) only as far as the link has room: what is left holds
//! back what is read for followers on that node.

use crate::{BeginError, Found, StreamHost};
use leveret_storage::{Disk, OpenError, WalError};
use leveret_stream::replica::Epoch;
use leveret_stream::{
    Events, Flush, ReplicaMessage, ReplicaOrder, ReplicaOrigin, ReplicaReport, ReplicaRole,
    RestoredReplica, Stream, StreamSettings,
};
use leveret_types::{NodeId, Now, QueueId};

impl<D: Disk> StreamHost<D> {
    /// Begins to run this node's replica of a stream. It waits for the catalogue's orders. One
    /// whose file is damaged is taken for one that has lost its disk: it copies all from others,
    /// and counts for nothing before it has.
    ///
    /// # Errors
    /// If its files cannot be read, or say what cannot be. The stream does not run then.
    pub fn begin_replica(
        &mut self,
        id: QueueId,
        settings: StreamSettings,
        me: NodeId,
        origin: ReplicaOrigin,
    ) -> Result<Found, BeginError> {
        let begun = self.try_begin_replica(id, settings, me, origin);
        self.note_begun(id, begun)
    }

    fn try_begin_replica(
        &mut self,
        id: QueueId,
        settings: StreamSettings,
        me: NodeId,
        origin: ReplicaOrigin,
    ) -> Result<Found, BeginError> {
        let (mut state, unreadable) = match self.files.replica_state(id) {
            Ok(state) => (state, None),
            Err(error @ OpenError::Damaged { .. }) => (None, Some(error.to_string())),
            Err(error) => return Err(error.into()),
        };
        let origin = unreadable
            .as_ref()
            .map_or(origin, |_| ReplicaOrigin::Before);
        if let Some(state) = &mut state
            && let Some(next_offset) = state.cut
        {
            self.files.cut(id, next_offset).map_err(WalError::from)?;
            state.cut = None;
            state.damaged = state.damaged.filter(|from| *from < next_offset);
            self.files.save_replica_state(id, state)?;
        }
        let found = self.files.recover_replica(id)?;
        if settings.flush == Flush::Sync {
            self.files.write_tail_again(id).map_err(WalError::from)?;
        }
        let newest = found.recovered.newest.clone();
        let mut machine = Stream::new(id, settings, found.recovered)?;
        let kept = RestoredReplica {
            state,
            origin,
            damaged_from: found.damaged_from,
            newest: &newest,
        };
        machine.replicate(me, self.files.life(), kept);
        machine.attach_above(self.attached);
        self.host(id, machine);
        self.touched.insert(id);
        Ok(Found {
            cut_bytes: found.cut_bytes,
            damage: unreadable.into_iter().chain(found.damage).collect(),
        })
    }

    /// What the catalogue says of a stream to this node's replica. May be said again.
    pub fn order(&mut self, id: QueueId, order: ReplicaOrder, out: &mut Events) {
        self.let_in(id, out);
        if let Some(hosted) = self.streams.get_mut(&id) {
            hosted.machine.order(order, out);
            self.touched.insert(id);
        }
    }

    /// Another node is to lead a stream that this one leads: what is under way is committed first,
    /// and then reported ([`leveret_stream::ReplicaEvent::MayMove`]).
    pub fn hand_over(&mut self, now: Now, id: QueueId, to: NodeId) {
        if let Some(hosted) = self.streams.get_mut(&id) {
            hosted.machine.hand_over(now, to);
            self.touched.insert(id);
        }
    }

    /// Takes a message for this node's replica of a stream. One for a stream that does not run here
    /// is ignored.
    pub fn receive(
        &mut self,
        from: NodeId,
        id: QueueId,
        message: ReplicaMessage,
        out: &mut Events,
    ) {
        if let Some(hosted) = self.streams.get_mut(&id) {
            hosted.machine.receive(from, message, out);
            self.touched.insert(id);
        }
    }

    /// The link to a node is new: what was said before may be lost on either side, and what waits
    /// for the node here is dropped. Followers of that node's leaders attach again.
    pub fn connected(&mut self, node: NodeId) {
        self.outside.disconnect(node);
        for (id, hosted) in &mut self.streams {
            hosted.machine.connected(node);
            hosted.effects.extend(hosted.machine.take_effects());
            if !hosted.effects.is_empty() {
                self.touched.insert(*id);
            }
        }
    }

    /// The nodes that messages wait for.
    pub fn messages_for(&self) -> impl Iterator<Item = NodeId> {
        self.outside.nodes()
    }

    /// Messages for a node, of about so many bytes, in order. What they promise is durable.
    #[must_use]
    pub fn take_messages(
        &mut self,
        to: NodeId,
        bytes_max: usize,
    ) -> Vec<(QueueId, ReplicaMessage)> {
        let (messages, waiting) = self.outside.take(to, bytes_max);
        for id in waiting {
            if let Some(hosted) = self.streams.get_mut(&id) {
                let serve = leveret_stream::Effect::Serve { to };
                hosted.effects.push_back(serve);
                self.touched.insert(id);
            }
        }
        messages
    }

    /// What happened to replicas since this was last asked.
    #[must_use]
    pub fn take_reports(&mut self) -> Vec<ReplicaReport> {
        self.outside.take_reports()
    }

    /// What this node's replica of a stream is; `None` of a stream that does not run here, or has
    /// no replicas.
    #[must_use]
    pub fn role(&self, id: QueueId) -> Option<ReplicaRole> {
        self.streams.get(&id)?.machine.role()
    }

    /// The streams whose replica here waits for the catalogue, and the newest epoch that each has
    /// promised: an election may have been begun and not ended.
    pub fn waiting_replicas(&self) -> impl Iterator<Item = (QueueId, Epoch)> {
        let waits = |machine: &Stream| machine.role() == Some(ReplicaRole::Waiting);
        let waiting = self.streams.iter();
        let waiting = waiting.filter(move |(_, hosted)| waits(&hosted.machine));
        waiting.filter_map(|(id, hosted)| Some((*id, hosted.machine.promised()?)))
    }

    /// Whether the catalogue may change the members of a stream now, by one, once this node has
    /// heard of the change before: it leads the stream, and a majority of the members as they are
    /// has all that was ever committed.
    #[must_use]
    pub fn may_change_members(&self, id: QueueId) -> bool {
        let hosted = self.streams.get(&id);
        hosted.is_some_and(|hosted| hosted.machine.may_change_members())
    }

    /// The members that the catalogue may take away now, one of them: see
    /// [`Stream::may_remove_member`].
    #[must_use]
    pub fn removable_members(&self, id: QueueId) -> Vec<NodeId> {
        let machine = self.streams.get(&id).map(|hosted| &hosted.machine);
        match machine.and_then(|machine| Some((machine, machine.role()?))) {
            Some((machine, ReplicaRole::Leader { members, .. })) => {
                let mut members = members;
                members.retain(|node| machine.may_remove_member(*node));
                members
            }
            _ => Vec::new(),
        }
    }

    /// Whether something of a stream is damaged here that nobody else has: another replica could
    /// never copy all of it.
    #[must_use]
    pub fn is_damaged_for_good(&self, id: QueueId) -> bool {
        let hosted = self.streams.get(&id);
        hosted.is_some_and(|hosted| hosted.machine.damage_for_good().next().is_some())
    }

    /// The streams that this node leads and that may grow by one member now, as
    /// [`Self::may_change_members`] says, with these members and the bytes that they hold. A
    /// stream that is damaged for good does not grow by itself: the new member would never count.
    pub fn changeable_members(&self) -> impl Iterator<Item = (QueueId, Vec<NodeId>, u64)> {
        self.streams.iter().filter_map(|(id, hosted)| {
            let machine = &hosted.machine;
            match machine.role()? {
                ReplicaRole::Leader { members, .. }
                    if machine.may_change_members()
                        && machine.damage_for_good().next().is_none() =>
                {
                    Some((*id, members, machine.stats().bytes))
                }
                _ => None,
            }
        })
    }

    /// What the leader on this node knows of a stream's followers: the offset below which each has
    /// all, and whether it counts for majorities if it is a member.
    #[must_use]
    pub fn followers(&self, id: QueueId) -> Vec<(NodeId, u64, bool)> {
        let hosted = self.streams.get(&id);
        hosted.map_or_else(Vec::new, |hosted| hosted.machine.followers())
    }
}
