//! A member begins to lead, and leads no more.

use super::applied_state::VIEW_LOG;
use super::leader::Leader;
use super::{Replica, ShardContext};
use crate::quorum::protocol::{Answer, Event};
use leveret_queue::{PriorityLogState, RecoveredPriorityLog, State};
use leveret_replication::RoleChange;
use leveret_storage::ShardLogs;
use leveret_types::{NodeId, ReplicaId};

impl Replica {
    pub(super) fn begin_to_lead(&mut self, context: &mut ShardContext<'_>, entry: u64) {
        let Some(term) = self.leads else {
            return;
        };
        let recovered = match self.spec.view {
            Some(_) => self.messages_of_view().into_iter().collect(),
            None => self.messages_of_logs(context.logs),
        };
        let state = State {
            priority_logs: recovered
                .iter()
                .map(|recovered| self.known_of(recovered.priority_log))
                .collect(),
        };
        let mut nodes = context.up.to_vec();
        nodes.push(context.node);
        let (queue, spec) = (self.id, &self.spec);
        let recovered = (recovered, &state);
        let begun = (entry, term);
        let mut leader = Leader::new(context.now, queue, begun, spec, recovered, nodes.clone());
        leader.view(
            context.now,
            spec,
            self.applied.known_view(),
            self.view_numbers,
        );
        for state in &self.applied.priority_logs {
            for (range, reason) in state.leaving.iter() {
                leader.was_leaving(state.priority_log, range, reason);
            }
        }
        self.leader = Some(Box::new(leader));
        for to in nodes {
            context.answers.push(Answer {
                to,
                queue,
                session: 0,
                message: Event::Leading { term },
            });
        }
    }

    /// What of a view is not settled, once it is known where it begins.
    fn messages_of_view(&self) -> Option<RecoveredPriorityLog> {
        let (view, given) = self.applied.known_view()?;
        Some(RecoveredPriorityLog {
            priority_log: VIEW_LOG,
            live: view.unsettled.clone(),
            bytes: 0,
            next_index: given,
        })
    }

    fn messages_of_logs(&self, logs: &ShardLogs) -> Vec<RecoveredPriorityLog> {
        let mut numbers: Vec<u8> = self.priority_logs.numbers().collect();
        numbers.sort_unstable();
        let recovered = numbers.into_iter().filter_map(|priority_log| {
            let log = self.priority_logs.log(priority_log);
            let stats = logs.log_stats(log)?;
            Some(RecoveredPriorityLog {
                priority_log,
                live: logs.live(log),
                bytes: stats.bytes,
                next_index: stats.next_index,
            })
        });
        recovered.collect()
    }

    /// What is known of a priority log's messages besides which they are.
    fn known_of(&self, priority_log: u8) -> PriorityLogState {
        let state = self.applied.priority_log(priority_log);
        let leaving = self.applied.leaving(priority_log);
        PriorityLogState {
            priority_log,
            // What is in a stream stays as long as the stream keeps it.
            may_expire: self.spec.view.is_none() && self.priority_logs.may_expire(priority_log),
            delivered_through: state.map_or(0, |state| state.delivered),
            returns: self.applied.returns(priority_log),
            leaving: leaving.map(|(range, _)| range).collect(),
        }
    }

    /// It leads no more, or is gone: a view's leader leaves its stream.
    pub(super) fn take_leader(&mut self, context: &mut ShardContext<'_>) -> Option<Box<Leader>> {
        let leader = self.leader.take()?;
        leader.leave_stream(context);
        self.view_numbers = leader.view_numbers().unwrap_or(self.view_numbers);
        Some(leader)
    }

    /// This member does not lead, or not in this term.
    pub(super) fn step_down(&mut self, context: &mut ShardContext<'_>, role: RoleChange) {
        self.leads = None;
        self.sending = None;
        self.outgoing.clear();
        let Some(leader) = self.take_leader(context) else {
            return;
        };
        // The batch that was open goes with the leader.
        self.priority_logs.cut(context.logs);
        let to = role.leader.map(ReplicaId::node);
        for (node, _) in leader.sessions() {
            context.answers.push(Answer {
                to: node,
                queue: self.id,
                session: 0,
                message: Event::NotLeader {
                    term: role.term,
                    leader: to,
                },
            });
        }
    }

    /// Says who leads instead.
    pub fn refuse(&self, context: &mut ShardContext<'_>, to: NodeId) {
        context.answers.push(Answer {
            to,
            queue: self.id,
            session: 0,
            message: Event::NotLeader {
                term: self.group.term(),
                leader: self.leader_node().filter(|leader| *leader != context.node),
            },
        });
    }
}
