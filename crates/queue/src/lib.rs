//! The queue machine: which messages are ready, which subscription holds which, what is delivered
//! next, and what leaves.
//!
//! A [`Queue`] is shared by classic and quorum queues. It holds *positions*, not messages: a
//! [`Position`] is an index in a *priority log*, which is the log of one priority.
//! What waits is intervals of indexes, so that a waiting message costs no memory; what a
//! subscription has unsettled is intervals too. What the queue must know of a message (its size,
//! its expiry) it asks the [`Log`] for when the message is at a priority log's head.
//!
//! Calls that change the queue only note the change. [`Queue::pump`] then does what follows from it
//! (deliver, expire, enforce the length limits), so that a batch of publishes and settles costs one
//! pump. What the queue wants done comes out as [`Effect`]s.
//!
//! ```
//! use leveret_queue::{
//!     Consumer, Effect, Log, Meta, Outcome, Peek, Position, Queue, QueueKind, Settings, Settle,
//! };
//! use leveret_types::{ConsumerId, Now};
//!
//! /// A log in which every message is at hand, and channels that always have room.
//! struct Memory(Vec<Meta>);
//! impl Log for Memory {
//!     fn peek(&mut self, position: Position) -> Peek {
//!         Peek::Ready(self.0[position.index as usize])
//!     }
//!     fn admit(&mut self, _: ConsumerId, _: u32) -> bool {
//!         true
//!     }
//! }
//!
//! let (now, id) = (Now::both(0), ConsumerId(1));
//! let mut log = Memory(Vec::new());
//! let mut queue = Queue::new(QueueKind::Classic, Settings::default(), now);
//! let mut effects = Vec::new();
//! let consumer = Consumer {
//!     id,
//!     priority: 0,
//!     exclusive: false,
//!     no_ack: false,
//!     prefetch: 10,
//!     timeout_ms: None,
//! };
//! queue.attach(now, consumer, &mut effects)?;
//!
//! let meta = Meta { bytes: 5, published_ms: 0, expiration_ms: None };
//! log.0.push(meta);
//! queue.enqueue(Position { priority_log: 0, index: 0 }, &meta);
//! queue.pump(now, &mut log, &mut effects);
//! assert!(matches!(effects[..], [Effect::Deliver(_)]));
//!
//! let (subscription, outcome) = (id, Outcome::Accept);
//! let settle = Settle { subscription, priority_log: 0, range: 0..1, outcome };
//! queue.settle(now, settle, &mut effects);
//! assert_eq!(effects[1], Effect::Settled { priority_log: 0, range: 0..1, bytes: 5 });
//! # Ok::<(), leveret_queue::AttachError>(())
//! ```
//!
//! Invariant: every live message is in exactly one place: ready, delayed, held by one subscription,
//! leaving (being dead-lettered), or damaged.
//! Invariant: a message leaves only with an [`Effect::Settled`] that names it, and only once.
//! Invariant: within a priority log, what is ready is handed out in order of index; what returns
//! takes its old place.
//! Invariant: this crate reads no clock, no file and no socket, and never sees a message's bytes.

mod consumer;
mod effect;
mod log;
mod priority_log;
mod queue;
mod returns;
mod runs;
mod settings;
mod state;

pub use consumer::{AttachError, Consumer, ConsumerView};
pub use effect::{Delivery, Effect, Got, Offer, Outcome, Reason, Settle};
pub use leveret_types::QueueKind;
pub use leveret_types::{DelayedRetry, Overflow, Retried};
pub use log::{Log, Meta, Peek, Position};
pub use queue::{Counters, Counts, Oldest, Queue, UnsettledMessage, Waiting};
pub use returns::Returns;
pub use runs::RunMap;
pub use settings::Settings;
pub use state::{PriorityLogState, RecoveredPriorityLog, State, StateError};
