//! What a batch of requests has borrowed of the node: the catalogue, then one shard at a time.
//! Apart so that the order in which these are taken and let go can be read in one place.

use crate::env::Env;
use crate::shard::Shard;
use leveret_types::{Now, ShardId};

/// What a batch of requests has borrowed of the environment: the catalogue for the whole batch, one
/// shard at a time.
pub(crate) struct Run<'e, E: Env> {
    pub(crate) env: &'e E,
    pub(crate) now: Now,
    catalogue: Option<E::CatalogueGuard<'e>>,
    shard: Option<(ShardId, E::ShardGuard<'e>)>,
}

impl<'e, E: Env> Run<'e, E> {
    pub(crate) fn new(env: &'e E, now: Now) -> Self {
        Self {
            env,
            now,
            catalogue: None,
            shard: None,
        }
    }

    /// The catalogue, and nothing of a shard: shards come after it.
    pub(crate) fn catalogue(&mut self) -> &leveret_metadata::Catalogue {
        if self.catalogue.is_none() {
            self.release_shard();
            self.catalogue = Some(self.env.catalogue());
        }
        self.catalogue.as_ref().expect("borrowed above")
    }

    /// A shard; the one borrowed before is let go if it is another.
    pub(crate) fn shard(&mut self, id: ShardId) -> &mut Shard {
        if self.shard.as_ref().is_some_and(|(held, _)| *held != id) {
            self.release_shard();
        }
        let env = self.env;
        &mut self.shard.get_or_insert_with(|| (id, env.shard(id))).1
    }

    fn release_shard(&mut self) {
        if let Some((_, mut shard)) = self.shard.take() {
            shard.finish(self.now);
        }
    }

    /// Lets everything go.
    pub(crate) fn release(&mut self) {
        self.release_shard();
        self.catalogue = None;
    }
}

impl<E: Env> Drop for Run<'_, E> {
    fn drop(&mut self) {
        self.release();
    }
}
