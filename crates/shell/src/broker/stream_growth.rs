//! Streams that have fewer replicas than they were declared with get more once nodes are there.

use super::Broker;
use crate::stream_thread::LedStream;
use leveret_cluster::Env;
use leveret_cluster::Waiter;
use leveret_metadata::Command;
use leveret_types::NodeId;
use leveret_types::limits::STREAM_GROWTH_BYTES_MAX;

/// Whether a stream of so many bytes gets one more replica than it has by itself. Where the
/// majority grows with it, nothing is confirmed before the new one has all that the stream holds.
const fn grows_by_itself(members: usize, bytes: u64) -> bool {
    // A majority of an even number is one more than half, of an odd one the greater half: with one
    // member more it grows where the number was odd.
    let is_waited_for = members % 2 == 1;
    !is_waited_for || bytes <= STREAM_GROWTH_BYTES_MAX
}

impl Broker {
    /// Proposes one more member for each of these streams that lacks one. Nobody waits for it: what
    /// does not come about is proposed again.
    pub(super) fn grow_streams(&self, led: &[LedStream]) {
        let Some(cluster) = &self.cluster.part else {
            return;
        };
        let own = self.cluster.own();
        let is_up = |node: NodeId| node == own || self.cluster.peers.is_up(node);
        let mut commands = Vec::new();
        {
            let catalogue = self.catalogue();
            for LedStream {
                stream,
                members,
                bytes,
            } in led
            {
                let record = catalogue
                    .queue(*stream)
                    .filter(|record| record.home() == own);
                let Some(record) = record else {
                    continue;
                };
                let has = record.members().iter().map(|member| member.node());
                if !has.eq(members.iter().copied()) || !grows_by_itself(members.len(), *bytes) {
                    continue;
                }
                if let Some(node) = catalogue.stream_member_due(record, is_up) {
                    tracing::info!(
                        "stream {stream} has {} replicas and was declared with {}: node {node} gets \
                         one too",
                        members.len(),
                        record.group_size()
                    );
                    let before: Vec<u32> = members.iter().map(|node| node.0).collect();
                    let members = before.iter().copied().chain([node.0]).collect();
                    commands.push(Command::StreamMembers {
                        stream: stream.0,
                        before,
                        members,
                    });
                }
            }
        }
        let proposes = !commands.is_empty();
        for command in commands {
            cluster.propose(Waiter::Nobody, command);
        }
        if proposes {
            self.cluster.links.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_stream_grows_by_itself_only_where_nobody_waits_for_its_new_replica() {
        let (least, most) = (STREAM_GROWTH_BYTES_MAX, STREAM_GROWTH_BYTES_MAX + 1);
        for (members, bytes, grows) in [
            (1, least, true),
            (1, most, false),
            (2, most, true),
            (3, least, true),
            (3, most, false),
            (4, most, true),
        ] {
            assert_eq!(grows_by_itself(members, bytes), grows, "{members}, {bytes}");
        }
    }
}
