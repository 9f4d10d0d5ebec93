//! Groups of consumers of a stream of which one at a time is active: who that is, and how it
//! changes. The stream's leader has them, for the consumers of all nodes.
//!
//! A group is the consumers of one name. Without a super stream, the first one that came is active.
//! On a partition of a super stream, it is the one whose place is the partition's number, counted
//! around: so the partitions spread over the consumers, as in RabbitMQ.
//!
//! An active consumer that is to be so no longer is told first, and the next one only once it has
//! answered: by then it has stored how far it has come. Each time that a consumer becomes active
//! has a [`Generation`] of its own, above all before it, also of those that another leader gave:
//! what a consumer stores under an older one than its group's is refused, however late it comes.
//!
//! Invariant: a group has one active consumer at most, and what others store is not taken.
//! Invariant: groups end with their leader. The next one has none until consumers join again.

use crate::host::{Generation, MemberId, Reference, SessionId};
use crate::replica::Epoch;
use leveret_types::limits::{
    STREAM_GROUP_MEMBERS_MAX, STREAM_GROUPS_MAX, STREAM_GROUPS_PER_SESSION_MAX,
};
use std::collections::{BTreeMap, BTreeSet};

/// How far an epoch stands above the count of generations within it, of which there are 16 million:
/// low enough for a hundred times the epochs that a replica without its promises passes over.
const EPOCH_SHIFT: u32 = 24;

/// A consumer of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Member {
    /// Its session.
    pub(crate) session: SessionId,
    /// Which one of that session.
    pub(crate) id: MemberId,
}

/// A consumer is to be told that it is active, or is so no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Update {
    /// Its group.
    pub(crate) group: Reference,
    /// Which.
    pub(crate) member: Member,
    /// Whether it is active from now on.
    pub(crate) is_active: bool,
    /// Under which generation it is, or was.
    pub(crate) generation: Generation,
    /// The offset that is stored for the group before it begins: an operator has set it.
    pub(crate) set: Option<u64>,
}

/// There are as many groups of the stream, or consumers in the group, as may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

/// All groups of a stream.
#[derive(Debug, Default)]
pub(crate) struct ActiveGroups {
    groups: BTreeMap<Reference, Group>,
    /// The consumers of each session that has any: a session that ends looks at no others.
    sessions: BTreeMap<SessionId, BTreeSet<(Reference, Member)>>,
    /// The last generation that was given.
    last: u64,
    /// The newest generation under which an offset was stored, or that a group had which has ended:
    /// who was active before is not to put a newer offset out. Of so many names as there may be
    /// groups, those with the newest ones.
    newest: BTreeMap<Reference, Generation>,
    /// Offsets that operators have set for groups that ended before anyone began there.
    left: Vec<(Reference, u64)>,
}

#[derive(Debug)]
struct Group {
    /// In the order in which they came; never empty.
    members: Vec<Member>,
    /// The partition's number; 0 without a super stream.
    partition: u32,
    active: Option<Member>,
    /// That of the last one that became active; 0 before anyone has.
    generation: Generation,
    /// The active one has been told that it is so no longer, and has not answered.
    is_stepping_down: bool,
    /// The offset that an operator has set, for the next one that becomes active.
    set: Option<u64>,
}

impl ActiveGroups {
    /// Generations from here on are above this.
    pub(crate) fn begin(&mut self, above: u64) {
        self.last = self.last.max(above);
    }

    /// Generations from here on are above those of all epochs before this one.
    pub(crate) fn begin_epoch(&mut self, epoch: Epoch) {
        self.begin(epoch.0 << EPOCH_SHIFT);
    }

    /// A consumer comes. It hears by an update that it is active, or hears nothing, as in RabbitMQ:
    /// clients take themselves for waiting until then. Others hear what changes for them. One that
    /// is there already changes nothing.
    ///
    /// # Errors
    /// If it is one too many.
    pub(crate) fn join(
        &mut self,
        name: &Reference,
        partition: u32,
        member: Member,
        updates: &mut Vec<Update>,
    ) -> Result<(), TooMany> {
        if self.groups.len() >= STREAM_GROUPS_MAX && !self.groups.contains_key(name)
            || self.has_its_share(name, member.session)
        {
            return Err(TooMany);
        }
        let group = self.groups.entry(name.clone()).or_insert_with(|| Group {
            members: Vec::new(),
            partition,
            active: None,
            generation: Generation(0),
            is_stepping_down: false,
            set: None,
        });
        let joined = (name.clone(), member);
        let of_session = self.sessions.get(&member.session);
        if of_session.is_some_and(|all| all.contains(&joined)) {
            return Ok(());
        }
        if group.members.len() >= STREAM_GROUP_MEMBERS_MAX {
            return Err(TooMany);
        }
        self.sessions
            .entry(member.session)
            .or_default()
            .insert(joined);
        group.members.push(member);
        group.choose(name, &mut self.last, updates);
        Ok(())
    }

    /// Whether a session is in as many groups as it may be, and not in this one.
    fn has_its_share(&self, name: &Reference, session: SessionId) -> bool {
        let joined = self.sessions.get(&session).into_iter().flatten();
        let mut groups: Vec<_> = joined.map(|(group, _)| group).collect();
        groups.dedup();
        groups.len() >= STREAM_GROUPS_PER_SESSION_MAX && !groups.contains(&name)
    }

    /// A consumer goes.
    pub(crate) fn leave(&mut self, name: &Reference, member: Member, updates: &mut Vec<Update>) {
        if let Some(session) = self.sessions.get_mut(&member.session) {
            session.remove(&(name.clone(), member));
            if session.is_empty() {
                self.sessions.remove(&member.session);
            }
        }
        let Some(group) = self.groups.get_mut(name) else {
            return;
        };
        group.members.retain(|other| *other != member);
        if group.members.is_empty() {
            let (mut generation, set) = (group.generation, group.set);
            self.groups.remove(name);
            if let Some(offset) = set {
                // What the last one stores of itself, however late it comes, does not put it out.
                self.last += 1;
                generation = Generation(self.last);
                self.left.push((name.clone(), offset));
            }
            self.stored(name, generation);
            return;
        }
        if group.active == Some(member) {
            group.active = None;
            group.is_stepping_down = false;
        }
        group.choose(name, &mut self.last, updates);
    }

    /// A session ends: its consumers go.
    pub(crate) fn leave_all(&mut self, session: SessionId, updates: &mut Vec<Update>) {
        for (name, member) in self.of_session(session) {
            self.leave(&name, member, updates);
        }
    }

    /// The consumers of a session with their groups, by the groups' names.
    fn of_session(&self, session: SessionId) -> Vec<(Reference, Member)> {
        let consumers = self.sessions.get(&session);
        consumers.into_iter().flatten().cloned().collect()
    }

    /// All groups end, without a word to their consumers.
    pub(crate) fn end(&mut self) {
        self.groups.clear();
        self.sessions.clear();
    }

    /// The offsets that are to be stored now, as those for whom operators had set them have gone.
    pub(crate) fn take_left(&mut self) -> Vec<(Reference, u64)> {
        std::mem::take(&mut self.left)
    }

    /// The sessions that have consumers here.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.sessions.keys().copied()
    }

    /// A consumer that was told that it is active no longer has answered.
    pub(crate) fn stepped_down(
        &mut self,
        name: &Reference,
        member: Member,
        updates: &mut Vec<Update>,
    ) {
        if let Some(group) = self.groups.get_mut(name)
            && group.is_stepping_down
            && group.active == Some(member)
        {
            group.active = None;
            group.is_stepping_down = false;
            group.choose(name, &mut self.last, updates);
        }
    }

    /// An operator has set the group's offset: the active consumer is told that it is so no longer,
    /// and whoever is active next begins there, after what that one has stored of itself.
    pub(crate) fn set_offset(&mut self, name: &Reference, offset: u64, updates: &mut Vec<Update>) {
        let Some(group) = self.groups.get_mut(name) else {
            return;
        };
        group.set = Some(offset);
        if let Some(member) = group.active
            && !group.is_stepping_down
        {
            group.is_stepping_down = true;
            updates.push(Update {
                group: name.clone(),
                member,
                is_active: false,
                generation: group.generation,
                set: None,
            });
        }
    }

    /// Whether a consumer that was active under this generation may store its offset: nobody is
    /// known to have become active after it.
    pub(crate) fn permits(&self, name: &Reference, generation: Generation) -> bool {
        let of_group = self.groups.get(name).map(|group| group.generation);
        let newest = of_group.max(self.newest.get(name).copied());
        newest.is_none_or(|newest| newest <= generation)
    }

    /// An offset was stored under this generation: nothing is under an older one any more.
    pub(crate) fn stored(&mut self, name: &Reference, generation: Generation) {
        let newest = self.newest.entry(name.clone()).or_insert(generation);
        *newest = generation.max(*newest);
        if self.newest.len() > STREAM_GROUPS_MAX {
            let oldest = self
                .newest
                .iter()
                .min_by_key(|(_, generation)| **generation);
            let oldest = oldest.map(|(name, _)| name.clone());
            oldest.map(|name| self.newest.remove(&name));
        }
    }
}

impl Group {
    /// Sees to it that the one who should be active becomes so.
    fn choose(&mut self, name: &Reference, last: &mut u64, updates: &mut Vec<Update>) {
        let chosen = self.members[self.partition as usize % self.members.len()];
        let (member, is_active) = match self.active {
            None => (chosen, true),
            Some(active) if active == chosen || self.is_stepping_down => return,
            Some(active) => (active, false),
        };
        let mut set = None;
        if is_active {
            *last += 1;
            self.generation = Generation(*last);
            self.active = Some(member);
            set = self.set.take();
        } else {
            self.is_stepping_down = true;
        }
        updates.push(Update {
            group: name.clone(),
            member,
            is_active,
            generation: self.generation,
            set,
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;
    use crate::replica::ReplicaState;
    use leveret_types::ConnectionId;

    fn name(text: &str) -> Reference {
        Reference::new(text.to_owned().into()).unwrap()
    }

    const fn connection(number: u64) -> SessionId {
        SessionId::Connection(ConnectionId(number))
    }

    const fn member(session: u64, id: u32) -> Member {
        Member {
            session: connection(session),
            id: MemberId(id),
        }
    }

    /// Plays a script on one group: `+1` consumer 1 comes, `-1` goes, `!1` has stepped down, `x1`
    /// its session ends, `=7` an operator sets the offset. The result is who is told what, and
    /// `left=7` where it is stored for nobody.
    fn check(partition: u32, script: &str, expected: &str) {
        let (mut groups, mut told) = (ActiveGroups::default(), Vec::new());
        let (name, mut newest) = (name("app"), Generation(0));
        for step in script.split(' ') {
            let (what, number) = step.split_at(1);
            let number = number.parse().unwrap();
            let member = member(number, 1);
            let mut updates = Vec::new();
            match what {
                "+" => groups.join(&name, partition, member, &mut updates).unwrap(),
                "-" => groups.leave(&name, member, &mut updates),
                "x" => groups.leave_all(member.session, &mut updates),
                "=" => groups.set_offset(&name, number, &mut updates),
                _ => groups.stepped_down(&name, member, &mut updates),
            }
            for update in &updates {
                match update.is_active {
                    true => assert!(update.generation > newest, "{script}"),
                    false => assert_eq!(update.generation, newest, "{script}"),
                }
                newest = newest.max(update.generation);
                let permits = |of: u64| groups.permits(&name, Generation(of));
                assert!(permits(newest.0), "{script}: the active one stores");
                assert!(
                    !update.is_active || !permits(newest.0 - 1),
                    "{script}: who was"
                );
            }
            let line = updates.iter().map(|update| {
                let SessionId::Connection(session) = update.member.session else {
                    panic!("all of them are connections");
                };
                let sign = if update.is_active { "" } else { "not" };
                let set = update.set.map(|offset| format!("={offset}"));
                format!("{sign}{session}{}", set.unwrap_or_default())
            });
            let left = groups.take_left();
            let left = left.iter().map(|(_, offset)| format!("left={offset}"));
            told.push(line.chain(left).collect::<Vec<_>>().join(","));
        }
        assert_eq!(told.join(" "), expected, "{script}");
    }

    #[test]
    fn the_first_one_is_active_until_it_goes() {
        check(0, "+1 +2 +3 -2 -1 -3", "1    3 ");
        check(0, "+1 x1 +2 +3 x2", "1  2  3");
        // Who is there already comes no second time.
        check(0, "+1 +1 +2 -1", "1   2");
    }

    #[test]
    fn a_session_that_ends_takes_its_consumers_out_of_their_groups_alone() {
        let (mut groups, mut updates) = (ActiveGroups::default(), Vec::new());
        let of = |group: u32| name(&group.to_string());
        for group in 0..3 {
            for session in [1, 2] {
                let joined = groups.join(&of(group), 0, member(session, group), &mut updates);
                assert_eq!(joined, Ok(()));
            }
        }
        groups.leave(&of(1), member(1, 1), &mut updates);
        let left = [(of(0), member(1, 0)), (of(2), member(1, 2))];
        assert_eq!(groups.of_session(connection(1)), left);
        updates.clear();
        groups.leave_all(connection(1), &mut updates);
        let told: Vec<_> = updates.iter().map(|u| (u.member, u.is_active)).collect();
        assert_eq!(told, [(member(2, 0), true), (member(2, 2), true)]);
        groups.leave_all(connection(2), &mut updates);
        assert!(groups.groups.is_empty() && groups.sessions.is_empty());
    }

    #[test]
    fn whoever_is_active_next_begins_at_the_offset_that_an_operator_has_set() {
        check(0, "+1 =7 !1 =8 =9 !1", "1 not1 1=7 not1  1=9");
        // Another one takes over, whether the old one answers or goes.
        check(1, "+1 =7 +2 !1 =8 -2", "1 not1  2=7 not2 1=8");
        check(0, "=7 +1", " 1");
    }

    #[test]
    fn what_an_operator_has_set_stays_where_the_last_one_goes_instead_of_answering() {
        check(0, "+1 =7 -1 +2", "1 not1 left=7 2");
        check(0, "+1 =7 x1", "1 not1 left=7");
        check(0, "+1 +2 =7 -1 =8 x2", "1  not1 2=7 not2 left=8");
        let (mut groups, mut updates) = (ActiveGroups::default(), Vec::new());
        let app = name("app");
        groups.join(&app, 0, member(1, 1), &mut updates).unwrap();
        groups.set_offset(&app, 7, &mut updates);
        groups.leave(&app, member(1, 1), &mut updates);
        let late = updates[0].generation;
        assert!(!groups.permits(&app, late), "it would put the 7 out");
    }

    #[test]
    fn partitions_spread_and_the_old_one_answers_before_the_new_one_begins() {
        check(1, "+1 +2 !1", "1 not1 2");
        // Who goes instead of answering has answered.
        check(1, "+1 +2 -1", "1 not1 2");
        // Who should be active has changed again by then.
        check(1, "+1 +2 -2 !1", "1 not1  1");
        check(2, "+1 +2 +3 !1", "1  not1 3");
        // An answer that nobody waits for changes nothing.
        check(1, "+1 !1 !2", "1  ");
    }

    #[test]
    fn who_was_active_under_an_older_leader_stores_until_another_one_is_active() {
        let (mut groups, mut updates) = (ActiveGroups::default(), Vec::new());
        let (name, older) = (name("app"), Generation((1 << EPOCH_SHIFT) + 5));
        groups.begin_epoch(Epoch(2));
        assert!(groups.permits(&name, older), "nobody has gone on");
        groups.join(&name, 0, member(1, 1), &mut updates).unwrap();
        assert!(!groups.permits(&name, older));
        assert!(groups.permits(&name, updates[0].generation));
        // What the leader of an older epoch would give is behind what was given.
        groups.begin_epoch(Epoch(1));
        groups.leave(&name, member(1, 1), &mut updates);
        groups.join(&name, 0, member(1, 2), &mut updates).unwrap();
        assert!(updates[1].generation > updates[0].generation);
    }

    #[test]
    fn generations_ascend_over_epochs_that_replicas_without_their_promises_have_passed_over() {
        let (mut state, mut before) = (ReplicaState::default(), Generation(0));
        for life in [0, u32::MAX - 10, 20, u32::MAX]
            .into_iter()
            .cycle()
            .take(100)
        {
            state.forgot = true;
            state.promise(state.promised.next(), life);
            let (mut groups, mut updates) = (ActiveGroups::default(), Vec::new());
            groups.begin_epoch(state.promised);
            groups
                .join(&name("app"), 0, member(1, 1), &mut updates)
                .unwrap();
            assert!(updates[0].generation > before, "{}", state.promised);
            before = updates[0].generation;
        }
    }

    #[test]
    fn who_was_active_stores_nothing_after_the_next_one_has_come_and_gone() {
        let (mut groups, mut updates) = (ActiveGroups::default(), Vec::new());
        let name = name("app");
        for session in 1..=2 {
            let joined = groups.join(&name, 0, member(session, 1), &mut updates);
            assert_eq!(joined, Ok(()));
            groups.leave_all(connection(session), &mut updates);
        }
        let [first, second] = [updates[0].generation, updates[1].generation];
        assert!(!groups.permits(&name, first));
        assert!(groups.permits(&name, second));
    }

    #[test]
    fn what_one_stored_under_an_older_leader_the_one_before_it_does_not_put_out() {
        let mut groups = ActiveGroups::default();
        let (name, before) = (name("app"), Generation((1 << EPOCH_SHIFT) + 5));
        groups.begin_epoch(Epoch(2));
        groups.stored(&name, Generation(before.0 + 1));
        assert!(!groups.permits(&name, before));
        // As many names are remembered as there may be groups, and the oldest makes room.
        for n in 1..STREAM_GROUPS_MAX as u64 {
            let other = Reference::new(n.to_string().into()).unwrap();
            groups.stored(&other, Generation((2 << EPOCH_SHIFT) + n));
        }
        assert!(!groups.permits(&name, before));
        groups.stored(&self::name("one more"), Generation(3 << EPOCH_SHIFT));
        assert!(groups.permits(&name, before));
    }

    #[test]
    fn one_consumer_or_group_too_many_does_not_join() {
        let (mut groups, mut updates) = (ActiveGroups::default(), Vec::new());
        for n in 0..STREAM_GROUP_MEMBERS_MAX as u64 {
            groups
                .join(&name("app"), 0, member(n, 1), &mut updates)
                .unwrap();
        }
        let more = member(u64::MAX, 1);
        assert_eq!(
            groups.join(&name("app"), 0, more, &mut updates),
            Err(TooMany)
        );
        assert_eq!(groups.of_session(more.session), []);
        let again = groups.join(&name("app"), 0, member(0, 1), &mut updates);
        assert_eq!(again, Ok(()), "it is there already");
        for n in 1..STREAM_GROUPS_MAX as u64 {
            let another = member(u64::MAX - n, 1);
            groups
                .join(&name(&n.to_string()), 0, another, &mut updates)
                .unwrap();
        }
        assert_eq!(
            groups.join(&name("more"), 0, more, &mut updates),
            Err(TooMany)
        );
        groups.leave(&name("1"), member(u64::MAX - 1, 1), &mut updates);
        assert_eq!(groups.join(&name("more"), 0, more, &mut updates), Ok(()));
    }

    #[test]
    fn a_session_is_in_its_number_of_groups_and_not_in_one_more() {
        let mut groups = ActiveGroups::default();
        let mut join = |group: usize, member| {
            let name = name(&group.to_string());
            groups.join(&name, 0, member, &mut Vec::new())
        };
        for group in 0..STREAM_GROUPS_PER_SESSION_MAX {
            join(group, member(1, group as u32)).unwrap();
        }
        assert_eq!(join(1_000, member(1, 1_000)), Err(TooMany));
        assert_eq!(join(0, member(1, 1_001)), Ok(()), "it is in that one");
        assert_eq!(join(1_000, member(2, 1)), Ok(()), "others have their own");
    }
}
