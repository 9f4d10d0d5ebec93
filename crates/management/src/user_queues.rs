//! `/api/users/{}/queues`: the exclusive queues that a user's open connections own. Who declared
//! another one is not kept.

use crate::connections;
use crate::http::reply::{ApiError, Reply};
use crate::http::router::Call;
use crate::queues;
use leveret_types::QueueId;
use std::collections::HashSet;

/// Queues whose records are held at once.
const BATCH: usize = 1_024;

/// `GET /api/users/{user}/queues`
pub fn queues(call: &Call<'_>) -> Result<Reply, ApiError> {
    let (node, user) = (call.app.node(), call.param(0));
    let owners = connections::ids_of_user(call.app, user);
    let mut owned: HashSet<QueueId> = HashSet::new();
    if !owners.is_empty() {
        let mut ids: Vec<QueueId> = Vec::new();
        node.each_queue(None, &mut |id, _, _| ids.push(id));
        let queues = ids.chunks(BATCH).flat_map(|ids| node.queues_by_id(ids));
        let of_user = queues.filter(|queue| queue.owner.is_some_and(|id| owners.contains(&id)));
        owned.extend(of_user.map(|queue| queue.id));
    }
    queues::list_among(call, |id| owned.contains(&id))
}
