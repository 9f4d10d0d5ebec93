//! What a connection does to the catalogue in its own name.

use super::Connection;
use crate::env::{Env, Proposal};
use crate::memory_permit;
use leveret_client::Session;
use leveret_metadata::{Catalogue, CatalogueError, Command};
use leveret_queue_host::effects::Deferred;
use leveret_types::limits::EXCLUSIVE_DELETED_AT_ONCE;
use leveret_types::{Now, ProtocolError, QueueId};

impl<S: Session> Connection<S> {
    /// The queue of that name, if no other connection has it for itself.
    pub(super) fn usable_queue(
        &self,
        catalogue: &Catalogue,
        name: &str,
    ) -> Result<QueueId, ProtocolError> {
        Ok(catalogue
            .usable_queue(self.login.vhost_name(), name, self.identity.id)?
            .id())
    }

    /// Changes the catalogue; what would change nothing needs no majority.
    pub(super) fn propose<E: Env>(
        &self,
        now: Now,
        command: &Command,
        env: &E,
    ) -> Result<Proposal, CatalogueError> {
        memory_permit::permit(command, env)?;
        match leveret_cluster::known_without_majority(command, env) {
            Some(answer) => answer.map(Proposal::Done),
            None => env.propose(now, self.identity.id, command),
        }
    }

    /// Queues that only this connection could use go with it.
    pub(super) fn delete_exclusive_queues<E: Env>(&mut self, now: Now, env: &E) {
        if !std::mem::take(&mut self.has_exclusive) {
            return;
        }
        let (owned, others): (Vec<Command>, Vec<QueueId>) = {
            let catalogue = env.catalogue();
            let owned = catalogue.exclusive_queues(self.identity.id);
            let (first, others) = owned.split_at(owned.len().min(EXCLUSIVE_DELETED_AT_ONCE));
            let others = others.iter().map(|queue| queue.id());
            (
                first.iter().map(|queue| queue.deletion()).collect(),
                others.collect(),
            )
        };
        // Whoever has very many is gone, and others wait for this thread.
        for queue in others {
            env.defer(Deferred::DeleteExclusive(queue));
        }
        for command in owned {
            // Nobody waits for the answer.
            if let Err(error) = env.propose(now, self.identity.id, &command) {
                tracing::warn!(connection = %self.identity.name, %error, "cannot delete an exclusive queue");
            }
        }
    }
}
