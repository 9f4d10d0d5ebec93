//! Consumers of a group of which one at a time is active. Some have lost that and store an offset
//! all the same: it must not be kept once another one is active.

use bytes::Bytes;
use leveret_stream::replica::Epoch;
use leveret_stream::{
    Command, Event, Generation, MemberId, Reference, RequestId, SessionId, StoredBy,
};
use leveret_types::QueueId;
use std::collections::{BTreeMap, BTreeSet};

/// Consumers of the group.
pub const CONSUMERS: u64 = 3;
/// With a second consumer, that one is to be active: whoever comes and goes changes who is.
const PARTITION: u32 = 1;

/// A run of a node, and an epoch that it leads in.
pub type Led = (SessionId, Epoch);

#[derive(Default)]
pub struct Group {
    consumers: [Consumer; CONSUMERS as usize],
    /// The newest generation that each leader has told a consumer of.
    newest: BTreeMap<Led, Generation>,
    /// All that any leader has told of.
    told: BTreeSet<Generation>,
    members: u32,
    offsets: u64,
}

#[derive(Default)]
struct Consumer {
    /// Which it is, and where.
    joined: Option<(Led, MemberId)>,
    /// Under which it was active last, here or elsewhere.
    generation: Option<Generation>,
    is_stepping_down: bool,
}

/// What a consumer says: an offset with the generation under which it is stored, or something else.
pub type Said = (Command, Option<(u64, Generation)>);

pub fn name() -> Reference {
    Reference::new(Bytes::from_static(b"group")).unwrap()
}

impl Group {
    /// What one of the consumers says next to a leader, if anything. Whether it forgets to say
    /// under which generation it stores is for the caller.
    pub fn say(&mut self, which: u64, led: Led, stream: QueueId, choice: u64) -> Option<Said> {
        let group = name();
        let consumer = &mut self.consumers[which as usize];
        let member = consumer.joined.filter(|(of, _)| *of == led);
        let command = match (choice, member) {
            (0, None) => {
                self.members += 1;
                let member = MemberId(self.members);
                consumer.joined = Some((led, member));
                consumer.is_stepping_down = false;
                Command::JoinGroup {
                    request: RequestId(9),
                    stream,
                    group,
                    partition: PARTITION,
                    member,
                }
            }
            (0, Some((_, member))) => {
                consumer.joined = None;
                Command::LeaveGroup {
                    stream,
                    group,
                    member,
                }
            }
            (1, Some((_, member))) if std::mem::take(&mut consumer.is_stepping_down) => {
                Command::SteppedDown {
                    stream,
                    group,
                    member,
                }
            }
            _ => {
                let generation = consumer.generation?;
                self.offsets += 1;
                let command = Command::StoreOffset {
                    stream,
                    reference: group,
                    offset: self.offsets,
                    by: StoredBy::Member(generation),
                };
                return Some((command, Some((self.offsets, generation))));
            }
        };
        Some((command, None))
    }

    /// A leader tells a consumer that it is active, or is so no longer.
    ///
    /// # Panics
    /// If another one was active under that generation.
    pub fn hear(&mut self, led: Led, event: &Event) {
        let Event::Activity {
            member,
            is_active,
            generation,
            ..
        } = event
        else {
            return;
        };
        let is_new = !is_active || self.told.insert(*generation);
        assert!(is_new, "two consumers become active as {generation:?}");
        let newest = self.newest.entry(led).or_insert(*generation);
        *newest = (*newest).max(*generation);
        let is_it = |consumer: &&mut Consumer| consumer.joined == Some((led, *member));
        if let Some(consumer) = self.consumers.iter_mut().find(is_it) {
            consumer.is_stepping_down = !is_active;
            if *is_active {
                consumer.generation = Some(*generation);
            }
        }
    }

    /// A leader has kept an offset.
    ///
    /// # Panics
    /// If it has told another consumer that it is active since the one was that stored it.
    pub fn kept(&self, led: Led, offset: u64, by: Generation) {
        let newest = self.newest.get(&led);
        assert!(
            newest.is_none_or(|newest| by >= *newest),
            "offset {offset} of a consumer that was active as {by:?} is kept, and {newest:?} is active"
        );
    }
}
