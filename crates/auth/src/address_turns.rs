//! Addresses from which something waits, and whose turn it is: whatever one of them brings, the
//! others have theirs.

use crate::network_of;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// Of so many turns all but one are of addresses from where somebody has logged in, while any of
/// these wait: whoever floods from many addresses has logged in from none.
const TURNS: u32 = 3;

/// The addresses that wait, each once.
#[derive(Debug, Default)]
pub struct AddressTurns {
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
    pub fn push(&mut self, address: IpAddr, is_familiar: bool) {
        match is_familiar {
            true => self.familiar.push_back(address),
            false => self.strangers.push_back(address),
        }
    }

    /// Adds a stranger's that is to have one of so many turns of strangers, while others wait.
    pub fn push_behind(&mut self, address: IpAddr) {
        self.behind.push_back(address);
    }

    /// Whose turn it is, and whether somebody has logged in from there. It waits no more, unless it
    /// is added again.
    pub fn take_next(&mut self) -> Option<(bool, IpAddr)> {
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
    pub fn retain(&mut self, waits: impl Fn(bool, IpAddr) -> bool) {
        self.strangers.retain(|address| waits(false, *address));
        self.behind.retain(|address| waits(false, *address));
        self.familiar.retain(|address| waits(true, *address));
    }
}

/// From where something comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    network: IpAddr,
    is_familiar: bool,
}

impl Origin {
    /// This address, from where somebody has logged in before or nobody has.
    #[must_use]
    pub fn new(address: IpAddr, is_familiar: bool) -> Self {
        Self {
            network: network_of(address),
            is_familiar,
        }
    }

    /// Whether somebody has logged in from there.
    #[must_use]
    pub const fn is_familiar(&self) -> bool {
        self.is_familiar
    }
}

/// What waits in a line for each origin. The lines take turns.
#[derive(Debug)]
pub struct AddressLines<T> {
    lines: HashMap<Origin, VecDeque<T>>,
    turns: AddressTurns,
    /// How much waits of strangers, and of others.
    counts: [usize; 2],
}

impl<T> Default for AddressLines<T> {
    fn default() -> Self {
        Self {
            lines: HashMap::new(),
            turns: AddressTurns::default(),
            counts: [0; 2],
        }
    }
}

impl<T> AddressLines<T> {
    /// Adds one at the end of its line.
    pub fn push(&mut self, origin: Origin, one: T) {
        let line = self.lines.entry(origin).or_insert_with(|| {
            self.turns.push(origin.network, origin.is_familiar);
            VecDeque::new()
        });
        line.push_back(one);
        self.counts[usize::from(origin.is_familiar)] += 1;
    }

    /// The next one that is wanted, of the line whose turn it is. Those before it are dropped.
    pub fn pop(&mut self, is_wanted: impl Fn(&T) -> bool) -> Option<T> {
        while let Some((is_familiar, network)) = self.turns.take_next() {
            let origin = Origin {
                network,
                is_familiar,
            };
            let Some(line) = self.lines.get_mut(&origin) else {
                continue;
            };
            let before = line.len();
            let next = std::iter::from_fn(|| line.pop_front()).find(&is_wanted);
            self.counts[usize::from(is_familiar)] -= before - line.len();
            match line.is_empty() {
                true => drop(self.lines.remove(&origin)),
                false => self.turns.push(network, is_familiar),
            }
            if next.is_some() {
                return next;
            }
        }
        None
    }

    /// Drops all that is not wanted any more.
    pub fn retain(&mut self, is_wanted: impl Fn(&T) -> bool) {
        self.counts = [0; 2];
        self.lines.retain(|origin, line| {
            line.retain(&is_wanted);
            self.counts[usize::from(origin.is_familiar)] += line.len();
            !line.is_empty()
        });
        let lines = &self.lines;
        self.turns.retain(|is_familiar, network| {
            lines.contains_key(&Origin {
                network,
                is_familiar,
            })
        });
    }

    /// How much waits of an origin.
    #[must_use]
    pub fn len_of(&self, origin: Origin) -> usize {
        self.lines.get(&origin).map_or(0, VecDeque::len)
    }

    /// How much waits of all from where nobody has logged in, and of all others.
    #[must_use]
    pub const fn counts(&self) -> [usize; 2] {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(last: u8, is_familiar: bool) -> Origin {
        Origin::new(IpAddr::from([10, 0, 0, last]), is_familiar)
    }

    fn all(lines: &mut AddressLines<u8>) -> Vec<u8> {
        std::iter::from_fn(|| lines.pop(|_| true)).collect()
    }

    #[test]
    fn origins_take_turns_and_familiar_ones_have_most() {
        let mut lines = AddressLines::default();
        for one in 0..4 {
            lines.push(origin(1, false), one);
        }
        lines.push(origin(2, false), 10);
        assert_eq!(all(&mut lines), [0, 10, 1, 2, 3]);
        for one in 0..4 {
            lines.push(origin(1, false), one);
            lines.push(origin(3, true), 20 + one);
        }
        assert_eq!(lines.counts(), [4, 4]);
        let order = all(&mut lines);
        let before_last = order.iter().take_while(|one| **one != 23);
        let strangers = before_last.filter(|one| **one < 20).count();
        assert!(strangers < TURNS as usize, "{order:?}");
        assert_eq!(lines.counts(), [0, 0]);
    }

    /// While nobody else waits, each turn is theirs: also the one that familiar ones leave.
    #[test]
    fn strangers_that_wait_behind_others_have_every_turn_while_nobody_else_waits() {
        let mut turns = AddressTurns::default();
        let count = 3 * TURNS as u8;
        let address = |last| IpAddr::from([10, 0, 0, last]);
        (0..count).for_each(|last| turns.push_behind(address(last)));
        for last in 0..count {
            assert_eq!(turns.take_next(), Some((false, address(last))));
        }
        assert_eq!(turns.take_next(), None);
    }

    #[test]
    fn a_network_of_ipv6_is_one_origin() {
        let mut lines = AddressLines::default();
        for (address, one) in [("2001:db8::1", 0), ("2001:db8::2", 1), ("192.0.2.1", 2)] {
            lines.push(
                Origin::new(address.parse().expect("an address"), false),
                one,
            );
        }
        assert_eq!(all(&mut lines), [0, 2, 1]);
    }

    #[test]
    fn what_is_not_wanted_takes_no_turn_and_no_room() {
        let mut lines = AddressLines::default();
        for one in 0..4 {
            lines.push(origin(1, false), one);
        }
        lines.push(origin(2, true), 4);
        lines.retain(|one| *one != 4 && *one != 0);
        assert_eq!(
            (lines.len_of(origin(1, false)), lines.counts()),
            (3, [3, 0])
        );
        assert_eq!(lines.pop(|one| *one == 3), Some(3));
        assert_eq!((lines.counts(), lines.pop(|_| true)), ([0, 0], None));
    }
}
