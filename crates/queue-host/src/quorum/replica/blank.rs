//! The logs of a queue of which no replica takes part here.

use crate::shard::log_of;
use leveret_storage::ShardLogs;
use leveret_types::QueueId;

/// The priority logs of a queue that have a log, that of the headers included.
pub(super) fn priority_logs(logs: &ShardLogs, id: QueueId) -> Vec<u8> {
    let has_log = |priority_log: &u8| logs.has_log(log_of(id, *priority_log));
    (0..=u8::MAX).filter(has_log).collect()
}

/// Empties the logs of a queue's priority logs. They stay: their ids are used again if the node
/// becomes a member again. So does the term, as far as it is known: a node's terms do not go back.
pub(super) fn renew(logs: &mut ShardLogs, id: QueueId, priority_logs: &[u8]) {
    for priority_log in priority_logs {
        let log = log_of(id, *priority_log);
        let is_used = logs
            .log_stats(log)
            .is_some_and(|stats| stats.next_index > 0);
        if is_used || !logs.state(log).is_empty() || logs.damage(log).is_some() {
            let known = logs.term_and_vote(log);
            logs.renew_log(log);
            if let Some((term, vote)) = known {
                logs.set_term_and_vote(log, term, vote);
            }
        }
    }
}
