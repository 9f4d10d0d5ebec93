//! The steps of TLS handshakes, on threads of their own that give way to those who are in: a step
//! takes a millisecond or more of a processor (the node signs with its key, and looks at clients'
//! certificates), and a flood of strangers brings hundreds a second.
//!
//! Addresses take turns, as they do at the [checks of passwords](crate::logins): those from where
//! somebody has logged in have most turns, and places of their own. What nobody waits for any more
//! is not computed.

use crate::urgency::give_way;
use leveret_auth::{AddressLines, Origin};
use leveret_types::limits::{
    HANDSHAKES_WAITING_MAX, HANDSHAKES_WAITING_PER_ADDRESS_MAX, HANDSHAKES_WAITING_UNFAMILIAR_MAX,
};
use parking_lot::{Condvar, Mutex};
use std::net::IpAddr;
use std::sync::Weak;

/// A step of a handshake that waits for a thread.
pub(crate) struct Step {
    /// Where the client is.
    pub(crate) from: IpAddr,
    /// Whether somebody has logged in from there.
    pub(crate) is_familiar: bool,
    /// Dead once the client has gone.
    pub(crate) wanted: Weak<()>,
    /// What is to be done, and told.
    pub(crate) work: Box<dyn FnOnce() + Send>,
}

impl Step {
    fn is_wanted(&self) -> bool {
        self.wanted.strong_count() > 0
    }
}

/// The steps that wait.
#[derive(Default)]
pub(crate) struct Handshakes {
    state: Mutex<State>,
    waker: Condvar,
}

#[derive(Default)]
struct State {
    waiting: AddressLines<Step>,
    is_stopped: bool,
}

impl State {
    fn is_full_for(&self, origin: Origin) -> bool {
        let [unfamiliar, familiar] = self.waiting.counts();
        unfamiliar + familiar >= HANDSHAKES_WAITING_MAX
            || self.waiting.len_of(origin) >= HANDSHAKES_WAITING_PER_ADDRESS_MAX
            || !origin.is_familiar() && unfamiliar >= HANDSHAKES_WAITING_UNFAMILIAR_MAX
    }

    /// Adds a step; false if too many wait.
    fn push(&mut self, step: Step) -> bool {
        let origin = Origin::new(step.from, step.is_familiar);
        if self.is_full_for(origin) {
            self.waiting.retain(Step::is_wanted);
        }
        if self.is_full_for(origin) {
            return false;
        }
        self.waiting.push(origin, step);
        true
    }

    /// The next step that somebody waits for.
    fn pop(&mut self) -> Option<Step> {
        self.waiting.pop(Step::is_wanted)
    }
}

impl Handshakes {
    /// Has a step computed when it is its turn; false if too many wait.
    pub(crate) fn push(&self, step: Step) -> bool {
        let is_taken = self.state.lock().push(step);
        if is_taken {
            self.waker.notify_one();
        }
        is_taken
    }

    /// Computes what waits until the node ends.
    pub(crate) fn run(&self) {
        give_way();
        while let Some(step) = self.next() {
            (step.work)();
        }
    }

    fn next(&self) -> Option<Step> {
        let mut state = self.state.lock();
        while !state.is_stopped {
            match state.pop() {
                Some(step) => return Some(step),
                None => self.waker.wait(&mut state),
            }
        }
        None
    }

    /// Ends the threads; what still waits is not computed.
    pub(crate) fn stop(&self) {
        self.state.lock().is_stopped = true;
        self.waker.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[derive(Default)]
    struct Pool {
        handshakes: Handshakes,
        done: Arc<Mutex<Vec<usize>>>,
        open: Arc<()>,
    }

    impl Pool {
        fn bring(&self, address: u8, number: usize, wanted: &Arc<()>, is_familiar: bool) -> bool {
            let done = Arc::clone(&self.done);
            self.handshakes.push(Step {
                from: IpAddr::from([10, 0, 0, address]),
                is_familiar,
                wanted: Arc::downgrade(wanted),
                work: Box::new(move || done.lock().push(number)),
            })
        }

        /// Computes all that waits; what was computed so far.
        fn work(&self) -> Vec<usize> {
            loop {
                let next = self.handshakes.state.lock().pop();
                match next {
                    Some(step) => (step.work)(),
                    None => return std::mem::take(&mut *self.done.lock()),
                }
            }
        }
    }

    #[test]
    fn handshakes_of_addresses_take_turns_and_familiar_ones_have_most() {
        let pool = Pool::default();
        for number in 0..4 {
            assert!(pool.bring(1, number, &pool.open, false));
        }
        assert!(pool.bring(2, 10, &pool.open, false));
        assert_eq!(pool.work(), [0, 10, 1, 2, 3]);
        for number in 0..4 {
            assert!(pool.bring(1, number, &pool.open, false));
            assert!(pool.bring(3, 20 + number, &pool.open, true));
        }
        let order = pool.work();
        let familiar: Vec<usize> = order.iter().copied().filter(|n| *n >= 20).collect();
        assert_eq!(familiar, [20, 21, 22, 23]);
        let strangers_before = order.iter().take_while(|n| **n != 23).filter(|n| **n < 20);
        assert!(strangers_before.count() <= 2, "{order:?}");
    }

    #[test]
    fn a_handshake_whose_client_has_gone_is_not_computed() {
        let pool = Pool::default();
        let gone = Arc::new(());
        for number in 0..3 {
            pool.bring(1, number, &gone, false);
        }
        pool.bring(1, 3, &pool.open, false);
        drop(gone);
        assert_eq!(pool.work(), [3]);
        assert_eq!(pool.handshakes.state.lock().waiting.counts(), [0, 0]);
    }

    #[test]
    fn one_address_has_its_number_of_handshakes_and_not_one_more() {
        let pool = Pool::default();
        let gone = Arc::new(());
        for number in 0..HANDSHAKES_WAITING_PER_ADDRESS_MAX {
            let wanted = if number == 7 { &gone } else { &pool.open };
            assert!(pool.bring(1, number, wanted, false), "{number}");
        }
        assert!(!pool.bring(1, 0, &pool.open, false));
        assert!(pool.bring(2, 0, &pool.open, false), "another");
        // Who has gone makes room.
        drop(gone);
        assert!(pool.bring(1, 0, &pool.open, false));
        assert!(!pool.bring(1, 0, &pool.open, false));
        assert_eq!(pool.work().len(), HANDSHAKES_WAITING_PER_ADDRESS_MAX + 1);
    }

    #[test]
    fn handshakes_of_strangers_leave_places_to_those_from_where_somebody_has_logged_in() {
        let pool = Pool::default();
        for number in 0..HANDSHAKES_WAITING_UNFAMILIAR_MAX {
            assert!(pool.bring((number % 100) as u8, number, &pool.open, false));
        }
        assert!(!pool.bring(200, 0, &pool.open, false));
        for number in HANDSHAKES_WAITING_UNFAMILIAR_MAX..HANDSHAKES_WAITING_MAX {
            assert!(pool.bring((number % 100) as u8, number, &pool.open, true));
        }
        assert!(
            !pool.bring(200, 0, &pool.open, true),
            "all places are taken"
        );
        assert_eq!(pool.work().len(), HANDSHAKES_WAITING_MAX);
    }

    #[test]
    fn threads_end_when_they_are_told_to() {
        let pool = Arc::new(Pool::default());
        let thread = {
            let pool = Arc::clone(&pool);
            std::thread::spawn(move || while pool.handshakes.next().is_some() {})
        };
        pool.handshakes.stop();
        thread.join().expect("ended");
    }
}
