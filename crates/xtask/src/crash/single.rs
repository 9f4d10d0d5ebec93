//! One broker, killed with kill -9 at random moments and started again on what it has.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::ledger::{Ledger, QUEUES, Rules};
use super::load::Load;
use super::streams::{self, StreamNode};
use super::{Scene, load};
use crate::broker::{Broker, Kind};
use crate::client::Client;
use crate::numbers::Random;

/// How long a life lasts, in milliseconds.
const LIFE_MS: std::ops::Range<u64> = 150..1_200;

/// The broker, and how long its slowest start has taken.
pub struct Single {
    broker: Broker,
    ledger: Ledger,
    slowest_start: Duration,
}

impl Single {
    /// Starts it with empty queues.
    pub fn start(kind: Kind, name: &str) -> Result<Single> {
        let broker = Broker::start(kind, name, &[])?;
        let mut client = Client::connect(broker.amqp)?;
        for queue in 0..QUEUES {
            client.declare(&load::queue_name(queue), true)?;
        }
        streams::create(&stream_nodes(&broker))?;
        Ok(Single {
            broker,
            ledger: Ledger::new(Rules::OneBroker),
            slowest_start: Duration::ZERO,
        })
    }
}

/// Where the load of streams goes. RabbitMQ confirms messages of streams that are in memory alone.
fn stream_nodes(broker: &Broker) -> Vec<StreamNode> {
    match broker.kind {
        Kind::Leveret => vec![StreamNode::of(broker)],
        Kind::RabbitMq => Vec::new(),
    }
}

impl Scene for Single {
    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn round(&mut self, number: u32, random: &mut Random) -> Result<String> {
        let consuming = random.between(0, 3) > 0;
        let life = Duration::from_millis(random.between(LIFE_MS.start, LIFE_MS.end));
        let broker = &mut self.broker;
        let load = Load {
            consuming,
            streams: stream_nodes(broker),
            ..Load::own(vec![broker.amqp])
        };
        load::during(&load, random, &self.ledger, |_| {
            thread::sleep(life);
            if !broker.is_alive() {
                bail!("the broker died by itself: see {}", broker.log().display());
            }
            broker.kill()
        })?;
        let started = Instant::now();
        self.broker.launch()?;
        self.slowest_start = self.slowest_start.max(started.elapsed());
        if number.is_multiple_of(self.audit_every()) {
            let slowest_s = self.slowest_start.as_secs_f64();
            return Ok(format!("slowest start {slowest_s:.2} s, "));
        }
        Ok(String::new())
    }

    fn audited_at(&self, _number: u32) -> SocketAddr {
        self.broker.amqp
    }

    fn stream_nodes(&self) -> Vec<StreamNode> {
        stream_nodes(&self.broker)
    }

    fn audit_every(&self) -> u32 {
        3
    }
}
