//! A place in a fake where a test holds up whoever comes by, and lets one after the other go on.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Open, until a test shuts it.
#[derive(Default)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_shut: bool,
    waiting: usize,
    /// How many of those that wait may go on.
    may_pass: usize,
}

impl Gate {
    /// Waits while it is shut.
    pub fn pass(&self) {
        let mut state = self.state.lock().expect("a gate");
        state.waiting += 1;
        self.changed.notify_all();
        let is_held = |state: &mut State| state.is_shut && state.may_pass == 0;
        let mut state = self.changed.wait_while(state, is_held).expect("a gate");
        state.waiting -= 1;
        state.may_pass = state.may_pass.saturating_sub(1);
    }

    pub fn shut(&self) {
        self.state.lock().expect("a gate").is_shut = true;
    }

    pub fn open(&self) {
        self.state.lock().expect("a gate").is_shut = false;
        self.changed.notify_all();
    }

    /// Lets one of those that wait, or the next that comes, go on.
    pub fn let_one_pass(&self) {
        self.state.lock().expect("a gate").may_pass += 1;
        self.changed.notify_all();
    }

    /// Waits until so many wait.
    pub fn await_waiting(&self, count: usize) {
        let state = self.state.lock().expect("a gate");
        let are_fewer = |state: &mut State| state.waiting < count;
        let waited = self
            .changed
            .wait_timeout_while(state, Duration::from_secs(30), are_fewer);
        let (state, _) = waited.expect("a gate");
        assert_eq!(state.waiting, count, "who waits");
    }
}
