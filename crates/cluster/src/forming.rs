//! How nodes that were started with the same list of addresses become one cluster, in whatever
//! order they start, and never two.
//!
//! A node without a number asks everybody on its list to let it in. Whoever is part of the cluster
//! does. Where nobody is, the first address of the list founds the cluster as soon as more than
//! half of the list, itself included, has given it its vote. A node gives its vote once, to one
//! identity, writes that down before it answers, and gives it only to the first address of the very
//! list that it has itself: two founders would need two majorities of one list.
//!
//! A node that has data of its own founds (as the first of its list, or without a list) or stays
//! what it is; it never joins, because what it has would have to go.

use super::control::{Answer, Request};
use std::collections::BTreeSet;

/// A node that is on its way into a cluster.
#[derive(Debug)]
pub struct Forming {
    own: String,
    name: String,
    uuid: [u8; 16],
    listed: Vec<String>,
    has_data: bool,
    vote: Option<[u8; 16]>,
    /// The UUIDs of those who have given this node theirs: one node may be behind two addresses.
    votes: BTreeSet<[u8; 16]>,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Go on asking.
    Ask,
    /// Found the cluster.
    Found,
    /// It is part of the cluster: what [`Answer::Joined`] said.
    Joined(Answer),
}

impl Forming {
    /// A node with this address for its peers, started with this list, which may be empty. `vote`
    /// is what it has written down.
    ///
    /// # Errors
    /// What the operator has to change.
    pub fn new(
        own: &str,
        name: &str,
        uuid: [u8; 16],
        listed: &[String],
        has_data: bool,
        vote: Option<[u8; 16]>,
    ) -> Result<Self, String> {
        let distinct: BTreeSet<&String> = listed.iter().collect();
        let forming = Self {
            own: own.to_owned(),
            name: name.to_owned(),
            uuid,
            listed: distinct.into_iter().cloned().collect(),
            has_data,
            vote,
            votes: BTreeSet::new(),
        };
        if has_data && !forming.may_lead() {
            return Err(format!(
                "this node has data of its own, and only the first address of the list ({}) may \
                 bring data into a new cluster: start with an empty data folder to join",
                forming.listed[0],
            ));
        }
        Ok(forming)
    }

    /// Whether this is the node that founds, if any does.
    fn may_lead(&self) -> bool {
        self.listed.first().is_none_or(|first| *first == self.own)
    }

    /// Whom to ask, and what.
    #[must_use]
    pub fn requests(&self) -> Vec<(String, Request)> {
        let others = self.listed.iter().filter(|address| **address != self.own);
        let join = Request::Join {
            uuid: self.uuid,
            address: self.own.clone(),
            name: self.name.clone(),
        };
        let vote = Request::Vote {
            uuid: self.uuid,
            listed: self.listed.clone(),
        };
        others
            .flat_map(|address| {
                let join = (!self.has_data).then(|| (address.clone(), join.clone()));
                let vote = self.may_lead().then(|| (address.clone(), vote.clone()));
                join.into_iter().chain(vote)
            })
            .collect()
    }

    /// Takes in the answer of the node that has this UUID.
    pub fn answered(&mut self, from: [u8; 16], answer: Answer) -> Step {
        match answer {
            Answer::Joined { .. } => return Step::Joined(answer),
            Answer::Voted => drop(self.votes.insert(from)),
            Answer::Forming | Answer::Refused(_) => {}
        }
        self.step()
    }

    /// What is to be done now.
    #[must_use]
    pub fn step(&self) -> Step {
        let majority = self.votes.len() + 1 > self.listed.len() / 2;
        if self.may_lead() && majority {
            Step::Found
        } else {
            Step::Ask
        }
    }

    /// Answers a request. With [`Answer::Voted`], [`Self::vote`] is to be on disk before the answer
    /// leaves.
    pub fn answer(&mut self, request: &Request) -> Answer {
        let Request::Vote { uuid, listed } = request else {
            return Answer::Forming;
        };
        if *listed != self.listed {
            return Answer::Refused(format!(
                "the lists of nodes differ: {} here",
                self.listed.join(", ")
            ));
        }
        if self.may_lead() {
            return Answer::Refused("it is the first of the list itself".to_owned());
        }
        if self.has_data {
            return Answer::Refused("it has data of its own".to_owned());
        }
        if self.vote.is_some_and(|vote| vote != *uuid) {
            return Answer::Refused(
                "it has agreed to follow another founder, whose data folder is gone; if that one \
                 is lost for good, empty this node's data folder as well"
                    .to_owned(),
            );
        }
        self.vote = Some(*uuid);
        Answer::Voted
    }

    /// Whom this node has given its vote.
    #[must_use]
    pub const fn vote(&self) -> Option<[u8; 16]> {
        self.vote
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(addresses: &[&str]) -> Vec<String> {
        addresses
            .iter()
            .map(|address| (*address).to_owned())
            .collect()
    }

    fn node(own: &str, listed: &[&str]) -> Forming {
        let uuid = [own.as_bytes()[0]; 16];
        Forming::new(own, own, uuid, &list(listed), false, None).expect("fresh")
    }

    /// Lets `asker` ask those of `others` that can be reached, once each.
    fn ask(asker: &mut Forming, others: &mut [&mut Forming]) -> Step {
        let mut step = asker.step();
        for (address, request) in asker.requests() {
            if let Some(other) = others.iter_mut().find(|other| other.own == address) {
                let answer = other.answer(&request);
                step = asker.answered(other.uuid, answer);
            }
        }
        step
    }

    #[test]
    fn a_node_without_a_list_founds_at_once() {
        assert_eq!(node("a", &[]).step(), Step::Found);
        assert_eq!(node("a", &["a"]).step(), Step::Found);
    }

    #[test]
    fn the_first_founds_with_a_majority_and_nobody_else_does() {
        let mut a = node("a", &["c", "b", "a", "a"]);
        let mut b = node("b", &["a", "b", "c"]);
        let mut c = node("c", &["b", "a", "c"]);
        assert_eq!(ask(&mut a, &mut []), Step::Ask, "alone");
        assert_eq!(
            ask(&mut b, &mut [&mut c]),
            Step::Ask,
            "a majority, without the first"
        );
        assert_eq!(ask(&mut a, &mut [&mut c]), Step::Found);
    }

    #[test]
    fn a_vote_is_given_once_and_survives_a_restart() {
        let mut b = node("b", &["a", "b", "c"]);
        let mut a = node("a", &["a", "b", "c"]);
        assert_eq!(ask(&mut a, &mut [&mut b]), Step::Found);
        let listed = list(&["a", "b", "c"]);
        let mut wiped = Forming::new("a", "a", [99; 16], &listed, false, None).expect("fresh");
        let mut b = Forming::new("b", "b", [1; 16], &listed, false, b.vote()).expect("fresh");
        assert_eq!(ask(&mut wiped, &mut [&mut b]), Step::Ask);
        assert_eq!(
            ask(&mut a, &mut [&mut b]),
            Step::Found,
            "the same one may ask again"
        );
    }

    #[test]
    fn lists_that_differ_never_make_a_cluster() {
        let mut a = node("a", &["a", "b"]);
        let mut b = node("b", &["b", "c"]);
        let mut c = node("c", &["b", "c"]);
        assert_eq!(ask(&mut a, &mut [&mut b]), Step::Ask);
        assert_eq!(ask(&mut b, &mut [&mut c]), Step::Found);
    }

    #[test]
    fn data_is_never_given_up() {
        let listed = list(&["a", "b"]);
        let new = |own: &str, data| Forming::new(own, own, [1; 16], &listed, data, None);
        assert!(new("b", true).is_err_and(|why| why.contains("data of its own")));
        let founder = new("a", true).expect("the first");
        let joins = |(_, request): &(String, Request)| matches!(request, Request::Join { .. });
        assert!(!founder.requests().iter().any(joins));
        let mut b = new("b", false).expect("fresh");
        b.has_data = true;
        let vote = Request::Vote {
            uuid: [1; 16],
            listed: listed.clone(),
        };
        assert!(matches!(b.answer(&vote), Answer::Refused(_)));
    }

    #[test]
    fn whoever_is_let_in_joins_whatever_else_is_said() {
        let mut a = node("a", &["a", "b", "c"]);
        let joined = Answer::Joined {
            cluster: [1; 16],
            node: leveret_types::NodeId(2),
            members: Vec::new(),
        };
        assert_eq!(a.answered([1; 16], joined.clone()), Step::Joined(joined));
    }

    #[test]
    fn a_node_behind_two_addresses_has_one_vote() {
        let mut a = node("a", &["a", "b", "c", "d", "e"]);
        for _address in ["b", "c", "d"] {
            assert_eq!(a.answered([1; 16], Answer::Voted), Step::Ask);
        }
        assert_eq!(a.answered([2; 16], Answer::Voted), Step::Found);
    }
}
