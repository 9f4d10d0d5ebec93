//! A connection that breaks, and is opened again at another broker.

use super::wire::input_buffer;
use super::{Connection, Role, Shared, follow_consumer};
use crate::client::Opened;
use crate::engine::dial::Request;
use crate::engine::outage::Outage;
use crate::engine::shared::CONSUME;
use crate::error::Error;

impl Connection {
    /// Whether it broke and is not open again.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.outage.as_ref().is_some_and(Outage::is_down)
    }

    /// It ended with `error`; it is opened again, as its `timer_us` and [`Self::redial`] say, if
    /// that is no longer than `patience_us` ago.
    ///
    /// # Errors
    /// The error, if it is none that another connection would help against.
    pub fn on_break(
        &mut self,
        error: Error,
        number: usize,
        patience_us: u64,
        shared: &mut Shared,
    ) -> Result<(), Error> {
        let may_go_on = match self.outage {
            None => error.is_break(),
            Some(_) => error.may_pass(),
        };
        if !may_go_on || patience_us == 0 || self.closing {
            return Err(error);
        }
        let now_us = shared.clock.now_us();
        let tally = &mut shared.tallies[self.load];
        tally.broken += 1;
        self.transport.cut();
        self.output.clear();
        (self.output_from, self.input_from, self.input_to) = (0, 0, 0);
        (self.readable, self.writable, self.blocked) = (false, false, false);
        for channel in &mut self.channels {
            channel.incoming = None;
            match &mut channel.role {
                Role::Publisher(publisher) => publisher.on_break(now_us, tally),
                Role::Consumer(consumer) => consumer.on_break(&mut shared.ledgers),
            }
        }
        match self.outage {
            Some(_) => self.on_failed_attempt(error, patience_us, now_us),
            None => {
                let outage = self.outage.insert(Outage::begin(now_us, number));
                self.timer_us = outage.next_us();
                Ok(())
            }
        }
    }

    /// An attempt to open it again failed.
    ///
    /// # Errors
    /// [`Error::Outage`] if it has been tried for `patience_us`.
    pub fn on_failed_attempt(
        &mut self,
        error: Error,
        patience_us: u64,
        now_us: u64,
    ) -> Result<(), Error> {
        let Some(outage) = &mut self.outage else {
            return Ok(());
        };
        let length_us = outage.length_us(now_us);
        if length_us >= patience_us {
            return Err(Error::Outage {
                seconds: length_us as f64 / 1e6,
                last: Box::new(error),
            });
        }
        outage.failed(now_us);
        self.timer_us = outage.next_us();
        Ok(())
    }

    /// What is to be asked for now, so that it is opened again.
    pub fn redial(&mut self, now_us: u64, number: usize) -> Option<Request> {
        let outage = self.outage.as_mut().filter(|_| !self.closing)?;
        outage.attempt(now_us, number, &mut self.redial)
    }

    /// It is open again: publishers send again what has no confirm, and consumers consume.
    pub fn reopen(&mut self, opened: Opened, shared: &mut Shared) {
        let now_us = shared.clock.now_us();
        (self.input, self.input_to) = input_buffer(opened.input, opened.frame_max);
        self.input_from = 0;
        self.transport = opened.transport;
        self.place = opened.place;
        self.frame_max = opened.frame_max;
        self.session = opened.session;
        (self.readable, self.writable) = (true, true);
        self.read_closed = false;
        shared.tallies[self.load].reopened += 1;
        let mut is_heard = false;
        for (number, channel) in (1_u16..).zip(&mut self.channels) {
            match &mut channel.role {
                Role::Publisher(publisher) => {
                    is_heard |= publisher.window.is_some();
                    publisher.template.set_frame_max(opened.frame_max);
                    publisher.account(now_us, &mut shared.tallies[self.load]);
                    publisher.held = None;
                }
                Role::Consumer(consumer) => {
                    is_heard = true;
                    if shared.flags & CONSUME != 0 {
                        let (session, out) = (&mut self.session, &mut self.output);
                        follow_consumer(consumer, number, true, session, out);
                    }
                }
            }
        }
        if let Some(outage) = &mut self.outage {
            outage.opened(now_us);
        }
        if !is_heard {
            self.end_outage(now_us, shared);
        }
    }

    /// Something came, or could not have, over a connection that was opened again.
    pub(super) fn end_outage(&mut self, now_us: u64, shared: &mut Shared) {
        if let Some(outage) = self.outage.take() {
            let longest = &mut shared.tallies[self.load].outage_us_max;
            *longest = outage.length_us(now_us).max(*longest);
        }
    }

    /// A second is over: what nothing came over for a while may have nothing to say.
    pub fn look_at_outage(&mut self, now_us: u64, shared: &mut Shared) {
        if let Some(length_us) = self.outage.and_then(|outage| outage.over_us(now_us)) {
            let longest = &mut shared.tallies[self.load].outage_us_max;
            *longest = length_us.max(*longest);
            self.outage = None;
        }
    }
}
