//! Which streams are damaged on this node, and when that is said: once, and again while somebody
//! comes to the damage, but not each time.

use crate::{BeginError, Found, Hosted, StreamHost};
use leveret_storage::Disk;
use leveret_stream::StreamStats;
use leveret_types::limits::STREAM_DAMAGE_TELL_MS;
use leveret_types::{Now, QueueId};

/// How a stream stands that should be here and is not served.
pub(crate) fn stats_of_none() -> StreamStats {
    StreamStats {
        damaged: true,
        ..StreamStats::default()
    }
}

impl Hosted {
    /// Where a part is damaged that nobody else has, where that is to be told again: somebody has
    /// come to it since it was told, and that is [`STREAM_DAMAGE_TELL_MS`] ago. It was told first
    /// when it was found.
    pub(crate) fn damage_to_tell_again(&mut self, now: Now) -> Option<u64> {
        let from = self.machine.damage_for_good().next()?;
        let told_ms = *self.damage_told_ms.get_or_insert(now.monotonic_ms);
        if !self.has_met_damage || now.monotonic_ms < told_ms + STREAM_DAMAGE_TELL_MS {
            return None;
        }
        self.has_met_damage = false;
        self.damage_told_ms = Some(now.monotonic_ms);
        Some(from)
    }

    /// What is damaged here, in words for an operator.
    fn damage(&self) -> Option<String> {
        if let Some(committed) = self.machine.fenced() {
            return Some(format!(
                "the replica on this node knows that all below offset {committed} was committed, \
                 and the stream's leader has not all of that: it keeps what it has and takes no \
                 part until it is removed (`rabbitmq-streams delete_replica`)"
            ));
        }
        if let Some(from) = self.machine.damage_to_mend() {
            return Some(format!(
                "the replica on this node is damaged from offset {from} on, and takes no part until \
                 it has copied that again from another one"
            ));
        }
        let places: Vec<String> = self
            .machine
            .damage_for_good()
            .map(|from| from.to_string())
            .collect();
        let places = (!places.is_empty()).then(|| places.join(", "))?;
        Some(format!(
            "segments are damaged on this node's disk at or behind these offsets, and no other \
             replica has what they held: {places}. Readers end there; what lies before and behind \
             is served"
        ))
    }
}

impl<D: Disk> StreamHost<D> {
    /// Takes note of whether a stream runs that should.
    pub(crate) fn note_begun(
        &mut self,
        id: QueueId,
        begun: Result<Found, BeginError>,
    ) -> Result<Found, BeginError> {
        self.hear_of(id);
        match &begun {
            Ok(_) => drop(self.not_served.remove(&id)),
            Err(error) => {
                let why = format!("it is not served: {error}");
                self.not_served.insert(id, why);
            }
        }
        begun
    }

    /// The streams of which something cannot be read on this node, or that are not served, each
    /// with what that is, in words for an operator.
    pub fn damaged(&self) -> impl Iterator<Item = (QueueId, String)> {
        let damage = |(id, hosted): (&QueueId, &Hosted)| Some((*id, hosted.damage()?));
        let of_hosted = self.streams.iter().filter_map(damage);
        let not_served = self.not_served.iter().map(|(id, why)| (*id, why.clone()));
        of_hosted.chain(not_served)
    }
}
