//! Addresses from which something waits, and whose turn it is: whatever one of them brings, the
//! others have theirs.

use std::collections::VecDeque;
use std::net::IpAddr;

/// Of so many turns all but one are of addresses from where somebody has logged in, while any of
/// these wait: whoever floods from many addresses has logged in from none.
const TURNS: u32 = 3;

/// The addresses that wait, each once.
#[derive(Default)]
pub(crate) struct AddressTurns {
    /// Those from where nobody has logged in.
    strangers: VecDeque<IpAddr>,
    /// Those of them that have most turns of strangers before them.
    behind: VecDeque<IpAddr>,
    /// The others.
    familiar: VecDeque<IpAddr>,
    turn: u32,
    /// Of strangers.
    strangers_turn: u32,
}

impl AddressTurns {
    /// Adds one, behind those of its kind.
    pub(crate) fn push(&mut self, address: IpAddr, is_familiar: bool) {
        match is_familiar {
            true => self.familiar.push_back(address),
            false => self.strangers.push_back(address),
        }
    }

    /// Adds a stranger's that is to have one of so many turns of strangers, while others wait.
    pub(crate) fn push_behind(&mut self, address: IpAddr) {
        self.behind.push_back(address);
    }

    /// Whose turn it is, and whether somebody has logged in from there. It waits no more, unless it
    /// is added again.
    pub(crate) fn next(&mut self) -> Option<(bool, IpAddr)> {
        self.turn = (self.turn + 1) % TURNS;
        let is_familiar = match self.turn {
            0 => self.strangers.is_empty() && self.behind.is_empty(),
            _ => !self.familiar.is_empty(),
        };
        let next = match is_familiar {
            true => self.familiar.pop_front(),
            false => self.next_stranger(),
        };
        next.map(|address| (is_familiar, address))
    }

    fn next_stranger(&mut self) -> Option<IpAddr> {
        self.strangers_turn = (self.strangers_turn + 1) % TURNS;
        let (first, second) = match self.strangers_turn {
            0 => (&mut self.behind, &mut self.strangers),
            _ => (&mut self.strangers, &mut self.behind),
        };
        first.pop_front().or_else(|| second.pop_front())
    }

    /// Drops those from which nothing waits any more.
    pub(crate) fn retain(&mut self, waits: impl Fn(bool, IpAddr) -> bool) {
        self.strangers.retain(|address| waits(false, *address));
        self.behind.retain(|address| waits(false, *address));
        self.familiar.retain(|address| waits(true, *address));
    }
}
