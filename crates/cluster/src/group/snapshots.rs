//! The catalogue as a whole: sent to a member that is too far behind, and put in place there.

use super::store::state;
use super::{CatalogueContext, CatalogueGroup, KIND_SNAPSHOT};
use crate::catalogue_changes::replace_catalogue;
use crate::env::Env;
use crate::events::ProposalId;
use crate::state::{CATALOGUE_GROUP, Cluster};
use bytes::Bytes;
use leveret_metadata::{Catalogue, Outcome};
use leveret_queue_host::events::PeerFrame;
use leveret_replication::{Body, Message, SnapshotMark};

impl CatalogueGroup {
    pub(super) fn send_catalogue<E: Env>(&mut self, message: Message, env: &E) {
        let to = message.to;
        let Some(mark) = self.group.mark(self.group.last_applied()) else {
            self.group.report_snapshot(to, false);
            return;
        };
        // Nobody waits for the catalogue while it is encoded.
        let declared = env.catalogue().declared();
        let snapshot = Bytes::from(declared.encode());
        let message = Message {
            body: Body::Snapshot(mark),
            ..message
        };
        let mut head = vec![KIND_SNAPSHOT];
        head.extend_from_slice(&(snapshot.len() as u32).to_be_bytes());
        let mut tail = Vec::new();
        message.encode(&mut tail);
        let pieces = smallvec::smallvec![head.into(), snapshot, tail.into()];
        let frame = PeerFrame::of_pieces(CATALOGUE_GROUP, pieces);
        env.post_peer(to.node(), frame);
        // The link either brings it there or breaks, which the group is told.
        self.group.report_snapshot(to, true);
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
        state(mark, &bytes)
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
