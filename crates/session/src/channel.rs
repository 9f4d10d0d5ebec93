//! One channel's memory.

use crate::publish::Assembly;
use crate::unacked::{Unacked, UnackedDelivery};
use leveret_client::contract::{Publish, SettleOutcome};
use leveret_client::{ChannelCounters, ChannelStatus, Ledger};
use leveret_types::{ChannelId, ConsumerId};
use std::collections::BTreeMap;

/// A channel from `channel.open` to the end of its closing.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    /// The broker has closed it and awaits `channel.close-ok`: nothing else is heard until then.
    pub closing: bool,
    /// Something that was sent off on it has failed: what is behind that does not count.
    pub failed: bool,
    /// The publish whose content is arriving.
    pub assembly: Option<Box<Assembly>>,
    /// What publishes are owed, and how they are grouped.
    pub mode: Mode,
    /// Deliveries that the client holds.
    pub unacked: Unacked,
    /// The last delivery tag given out.
    pub last_tag: u64,
    /// The consumers by their tags. An ordered map: the tags are the client's choice, and so would
    /// collisions be.
    pub consumers: BTreeMap<Box<str>, ConsumerId>,
    /// Consumer tags generated.
    pub tags_generated: u64,
    /// `basic.qos`: for consumers to come.
    pub prefetch: u16,
    /// `basic.qos` with `global` is in force.
    pub prefetch_global: bool,
    /// The queue that an empty name stands for; empty if none was declared.
    pub last_queue: Box<str>,
    /// For listings.
    pub counters: LazyCounters,
}

/// The counters of a channel, which takes no room for them before something happens.
#[derive(Debug, Default)]
pub(crate) struct LazyCounters(Option<Box<ChannelCounters>>);

impl LazyCounters {
    /// As they stand.
    pub fn get(&self) -> ChannelCounters {
        self.0.as_deref().copied().unwrap_or_default()
    }

    /// To count something.
    pub fn edit(&mut self) -> &mut ChannelCounters {
        self.0.get_or_insert_default()
    }
}

// A client may open many that it does not use.
const _: () = assert!(size_of::<Channel>() <= 144);

/// How a channel publishes.
#[derive(Debug, Default)]
pub(crate) enum Mode {
    /// Nobody hears of it.
    #[default]
    Plain,
    /// `confirm.select`.
    Confirm(Box<Ledger>),
    /// `tx.select`.
    Transaction(Box<Transaction>),
}

/// What waits for `tx.commit`.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    /// Publishes in order.
    pub publishes: Vec<Publish>,
    /// Octets that they hold.
    pub bytes: usize,
    /// Settles in order.
    pub settles: Vec<(UnackedDelivery, SettleOutcome)>,
}

impl Channel {
    /// The next delivery's tag.
    pub fn next_tag(&mut self) -> u64 {
        self.last_tag += 1;
        self.last_tag
    }

    /// Whether it is transactional.
    pub const fn is_transactional(&self) -> bool {
        matches!(self.mode, Mode::Transaction(_))
    }

    /// How many deliveries to a consumer are held, or settled in a transaction that is open.
    pub fn unsettled_by(&self, consumer: ConsumerId) -> usize {
        let settled = match &self.mode {
            Mode::Transaction(tx) => &tx.settles[..],
            _ => &[],
        };
        let settled = settled.iter().map(|(delivery, _)| delivery);
        let delivery = self.unacked.iter().chain(settled);
        delivery
            .filter(|delivery| delivery.subscription == consumer)
            .count()
    }

    /// Whether a publish waits for a log.
    pub fn awaits_durability(&self) -> bool {
        matches!(&self.mode, Mode::Confirm(ledger) if ledger.awaits_durability())
    }

    /// The confirm ledger, in confirm mode.
    pub fn ledger(&mut self) -> Option<&mut Ledger> {
        match &mut self.mode {
            Mode::Confirm(ledger) => Some(ledger),
            _ => None,
        }
    }

    /// Gives memory back that nothing is in.
    pub fn shrink(&mut self) {
        self.unacked.shrink();
        if let Some(ledger) = self.ledger() {
            ledger.shrink();
        }
    }

    /// Forgets all but that it is closing.
    pub fn begin_closing(&mut self) {
        *self = Self {
            closing: true,
            ..Self::default()
        };
    }

    /// What listings show of it.
    pub fn status(&self, number: u16) -> ChannelStatus {
        let (uncommitted, uncommitted_acks) = match &self.mode {
            Mode::Transaction(tx) => (tx.publishes.len(), tx.settles.len()),
            _ => (0, 0),
        };
        let unconfirmed = match &self.mode {
            Mode::Confirm(ledger) => usize::try_from(ledger.unanswered()).unwrap_or(usize::MAX),
            _ => 0,
        };
        ChannelStatus {
            number: ChannelId(number),
            consumers: self.consumers.len(),
            prefetch: self.prefetch,
            unacknowledged: self.unacked.len(),
            unconfirmed,
            uncommitted,
            uncommitted_acks,
            confirm: matches!(self.mode, Mode::Confirm(_)),
            transactional: matches!(self.mode, Mode::Transaction(_)),
            counters: self.counters.get(),
        }
    }
}
