//! The catalogue as a whole: sent to a member that is too far behind, and put in place there.

use super::store::{read_state, state};
use super::transfer::{Answer, Arrived, Arriving, Departing};
use super::{CatalogueContext, CatalogueGroup};
use crate::catalogue::SHARD;
use crate::catalogue_changes::replace_catalogue;
use crate::env::Env;
use crate::events::ProposalId;
use crate::frame_kinds;
use crate::state::{CATALOGUE_GROUP, Cluster};
use bytes::Bytes;
use leveret_metadata::{Catalogue, Outcome};
use leveret_queue_host::events::PeerFrame;
use leveret_queue_host::shard::CATALOGUE_GROUP_LOG;
use leveret_replication::{Body, Message, SnapshotMark};
use leveret_types::{NodeId, Now};

impl CatalogueGroup {
    /// Begins to send the catalogue to a member that asks for it by what it lacks.
    pub(super) fn begin_to_send<E: Env>(&mut self, message: Message, now: Now, env: &E) {
        let to = message.to;
        self.departing.retain(|departing| departing.to != to);
        let Some((mark, catalogue)) = self.stored(env).or_else(|| self.encoded(env)) else {
            self.group.report_snapshot(to, false);
            return;
        };
        let message = Message {
            body: Body::Snapshot(mark),
            ..message
        };
        let mut tail = Vec::new();
        message.encode(&mut tail);
        self.last_transfer += 1;
        let number = self.last_transfer;
        let departing = Departing::new(to, number, catalogue, tail.into(), now.monotonic_ms);
        self.departing.push(departing);
    }

    /// The last snapshot of the log, which spares the making of another one: if it knows all that
    /// are members now, as whoever takes it in must find itself there.
    fn stored<E: Env>(&self, env: &E) -> Option<(SnapshotMark, Bytes)> {
        let shard = env.shard(SHARD);
        let (mark, catalogue) = read_state(shard.logs.state(CATALOGUE_GROUP_LOG)).ok()?;
        let is_complete = !catalogue.is_empty() && mark.membership == *self.group.membership();
        is_complete.then(|| (mark, Bytes::copy_from_slice(catalogue)))
    }

    /// The catalogue as it is now.
    fn encoded<E: Env>(&self, env: &E) -> Option<(SnapshotMark, Bytes)> {
        let mark = self.group.mark(self.group.last_applied())?;
        // Nobody waits for the catalogue while it is encoded.
        let declared = crate::catalogue::declared(env);
        Some((mark, declared.encode().into()))
    }

    /// Sends as many pieces as may be under way, and ends what is over.
    pub(super) fn send_pieces<E: Env>(&mut self, now: Now, env: &E) {
        if !self.group.is_leader() {
            // The next leader sends its own.
            self.departing.clear();
            return;
        }
        for departing in &mut self.departing {
            while let Some(piece) = departing.next_piece() {
                let mut pieces = smallvec::smallvec![Bytes::from_static(&[frame_kinds::PIECE])];
                pieces.extend(piece);
                let frame = PeerFrame::of_pieces(CATALOGUE_GROUP, pieces);
                env.post_peer(departing.to.node(), frame);
            }
        }
        let over = self.departing.extract_if(.., |departing| {
            departing.has_arrived() || departing.is_stuck(now.monotonic_ms)
        });
        for departing in over.collect::<Vec<_>>() {
            let has_arrived = departing.has_arrived();
            if !has_arrived {
                let to = departing.to.node();
                tracing::warn!(%to, "a node does not take in the catalogue: it is sent again");
            }
            self.group.report_snapshot(departing.to, has_arrived);
        }
    }

    /// A node is down: what was on its way there, or from there, is lost. The group begins anew
    /// once it is back.
    pub(super) fn end_transfers(&mut self, node: NodeId) {
        self.departing
            .retain(|departing| departing.to.node() != node);
        self.arriving.take_if(|arriving| arriving.is_from(node));
    }

    pub(super) fn receive_piece<E: Env>(
        &mut self,
        context: &CatalogueContext<'_, E>,
        from: NodeId,
        payload: &Bytes,
    ) -> Result<(), String> {
        let answer = match Arriving::take(&mut self.arriving, from, payload)? {
            Arrived::Piece(answer) => answer,
            Arrived::Whole(catalogue, message, answer) => {
                self.incoming = Some(catalogue);
                self.receive_message(context, from, &message)?;
                answer
            }
            Arrived::Unknown => return Ok(()),
        };
        let mut bytes = vec![frame_kinds::PIECE_CAME];
        answer.encode_onto(&mut bytes);
        let frame = PeerFrame::new(CATALOGUE_GROUP, bytes);
        context.env.post_peer(from, frame);
        Ok(())
    }

    /// A member tells how much of the catalogue is there.
    pub(super) fn piece_came(
        &mut self,
        now: Now,
        from: NodeId,
        payload: &[u8],
    ) -> Result<(), String> {
        let answer = Answer::decode(payload)?;
        let to_it = self.departing.iter_mut();
        for departing in to_it.filter(|departing| departing.to.node() == from) {
            departing.note_answer(&answer, now.monotonic_ms);
        }
        Ok(())
    }

    /// Puts the catalogue in place that came with a mark; what stands for it in the log.
    pub(super) fn take_in<E: Env>(
        &mut self,
        context: &CatalogueContext<'_, E>,
        mark: &SnapshotMark,
    ) -> Vec<u8> {
        let (now, cluster, env) = (context.now, context.cluster, context.env);
        let bytes = self
            .incoming
            .take()
            .expect("a mark is stepped in together with its snapshot");
        let config = env.catalogue().config().clone();
        let restored = match Catalogue::restore(config, &bytes) {
            Ok(restored) => restored,
            // The leader has sent it over a link that checks what it carries.
            Err(error) => panic!("the leader's catalogue cannot be read: {error}"),
        };
        replace_catalogue(restored, || cluster.has_placed_queues(), now, env);
        // Whatever this node has asked for may be in the snapshot: asking again does no harm.
        self.handed_over = 0;
        self.answer_carried_out(cluster, env);
        let state = state(mark, &bytes);
        self.snapshot_bytes = state.len() as u64;
        self.applied_bytes = 0;
        state
    }

    /// Commands that a snapshot has brought are done; what they answered is not known any more.
    fn answer_carried_out<E: Env>(&mut self, cluster: &Cluster, env: &E) {
        let through = {
            let catalogue = env.catalogue();
            let own = catalogue.node(self.own);
            own.filter(|own| own.start == self.start)
                .map_or(0, |own| own.applied)
        };
        let left = self.waiting.split_off(&(through + 1));
        for (id, waiting) in std::mem::replace(&mut self.waiting, left) {
            let result = Ok(Outcome::default());
            self.answer(waiting.waiter, ProposalId(id), result, cluster, env);
        }
    }
}
