//! Groups of consumers of which one at a time is active: who that is, and how it changes.
//!
//! A group is the consumers of one name on one stream. Without a super stream, the first one that
//! came is active. On a partition of a super stream, it is the one whose place is the partition's
//! number, counted around: so the partitions spread over the consumers, as in RabbitMQ.
//!
//! An active consumer that is to be so no longer is told first, and the next one only once it has
//! answered: by then it has stored how far it has come.

use leveret_stream::SessionId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A group by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupName {
    /// The virtual host.
    pub vhost: Arc<str>,
    /// The stream.
    pub stream: String,
    /// The consumers' name.
    pub name: String,
}

/// A consumer of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// Its session.
    pub session: SessionId,
    /// Its subscription there.
    pub subscription_id: u8,
}

/// A consumer is to be told that it is active, or is so no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// Its group.
    pub group: GroupName,
    /// Which.
    pub member: Member,
    /// Whether it is active from now on.
    pub active: bool,
    /// The offset that is stored for the group before it begins: an operator has set it.
    pub set: Option<u64>,
}

/// All groups of a node.
#[derive(Debug, Default)]
pub struct Groups {
    groups: BTreeMap<GroupName, Group>,
    /// The consumers of each session that has any: a session that ends looks at no others.
    sessions: BTreeMap<SessionId, BTreeSet<(GroupName, Member)>>,
}

#[derive(Debug)]
struct Group {
    /// In the order in which they came; never empty.
    members: Vec<Member>,
    /// The partition's number; 0 without a super stream.
    partition: usize,
    active: Option<Member>,
    /// The active one has been told that it is so no longer, and has not answered.
    is_stepping_down: bool,
    /// The offset that an operator has set, for the next one that becomes active.
    set: Option<u64>,
}

impl Groups {
    /// A consumer comes. It hears by an update that it is active, or hears nothing, as in RabbitMQ:
    /// clients take themselves for waiting until then. Others hear what changes for them.
    pub fn join(
        &mut self,
        name: GroupName,
        partition: usize,
        member: Member,
        updates: &mut Vec<Update>,
    ) {
        let group = self.groups.entry(name.clone()).or_insert_with(|| Group {
            members: Vec::new(),
            partition,
            active: None,
            is_stepping_down: false,
            set: None,
        });
        assert!(!group.members.contains(&member), "a consumer comes once");
        group.members.push(member);
        let session = self.sessions.entry(member.session).or_default();
        session.insert((name.clone(), member));
        group.choose(&name, updates);
    }

    /// A consumer goes.
    pub fn leave(&mut self, name: &GroupName, member: Member, updates: &mut Vec<Update>) {
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
        if group.active == Some(member) {
            group.active = None;
            group.is_stepping_down = false;
        }
        match group.members.is_empty() {
            true => drop(self.groups.remove(name)),
            false => group.choose(name, updates),
        }
    }

    /// All consumers of a session go.
    pub fn leave_all(&mut self, session: SessionId, updates: &mut Vec<Update>) {
        for (name, member) in self.of_session(session) {
            self.leave(&name, member, updates);
        }
    }

    /// The consumers of a session with their groups, by the groups' names.
    fn of_session(&self, session: SessionId) -> Vec<(GroupName, Member)> {
        let consumers = self.sessions.get(&session);
        consumers.into_iter().flatten().cloned().collect()
    }

    /// A consumer that was told that it is active no longer has answered.
    pub fn stepped_down(&mut self, name: &GroupName, member: Member, updates: &mut Vec<Update>) {
        if let Some(group) = self.groups.get_mut(name)
            && group.is_stepping_down
            && group.active == Some(member)
        {
            group.active = None;
            group.is_stepping_down = false;
            group.choose(name, updates);
        }
    }

    /// An operator has set the group's offset: the active consumer is told that it is so no longer,
    /// and whoever is active next begins there, after what that one has stored of itself.
    pub fn set_offset(&mut self, name: &GroupName, offset: u64, updates: &mut Vec<Update>) {
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
                active: false,
                set: None,
            });
        }
    }

    /// The consumers of a group, the active one and those that wait, in the order in which they
    /// came: for listings.
    pub fn members(&self, name: &GroupName) -> impl Iterator<Item = (Member, bool)> + '_ {
        let group = self.groups.get(name);
        group.into_iter().flat_map(|group| {
            let state = |member: &Member| (*member, group.active == Some(*member));
            group.members.iter().map(state)
        })
    }
}

impl Group {
    /// Sees to it that the one who should be active becomes so.
    fn choose(&mut self, name: &GroupName, updates: &mut Vec<Update>) {
        let chosen = self.members[self.partition % self.members.len()];
        let (member, active) = match self.active {
            None => (chosen, true),
            Some(active) if active == chosen || self.is_stepping_down => return,
            Some(active) => (active, false),
        };
        match active {
            true => self.active = Some(member),
            false => self.is_stepping_down = true,
        }
        let set = if active { self.set.take() } else { None };
        updates.push(Update {
            group: name.clone(),
            member,
            active,
            set,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a script on one group: `+1` consumer 1 comes, `-1` goes, `!1` has stepped down. The
    /// result is who is told what.
    fn check(partition: usize, script: &str, expected: &str) {
        let (mut groups, mut told) = (Groups::default(), Vec::new());
        let name = GroupName {
            vhost: "/".into(),
            stream: "s".to_owned(),
            name: "app".to_owned(),
        };
        for step in script.split(' ') {
            let (what, number) = step.split_at(1);
            let member = Member {
                session: SessionId(number.parse().expect("a number")),
                subscription_id: 1,
            };
            let mut updates = Vec::new();
            match what {
                "+" => groups.join(name.clone(), partition, member, &mut updates),
                "-" => groups.leave(&name, member, &mut updates),
                "x" => groups.leave_all(member.session, &mut updates),
                "=" => groups.set_offset(&name, member.session.0, &mut updates),
                _ => groups.stepped_down(&name, member, &mut updates),
            }
            let active = groups.members(&name).filter(|(_, active)| *active).count();
            assert!(active <= 1, "{script}: {active} are active");
            let line = updates.iter().map(|update| {
                let sign = if update.active { "" } else { "not" };
                let set = update.set.map(|offset| format!("={offset}"));
                format!(
                    "{sign}{}{}",
                    update.member.session.0,
                    set.unwrap_or_default()
                )
            });
            told.push(line.collect::<Vec<_>>().join(","));
        }
        assert_eq!(told.join(" "), expected, "{script}");
    }

    #[test]
    fn the_first_one_is_active_until_it_goes() {
        check(0, "+1 +2 +3 -2 -1 -3", "1    3 ");
        check(0, "+1 x1 +2 +3 x2", "1  2  3");
    }

    #[test]
    fn a_session_that_ends_takes_its_consumers_out_of_their_groups_alone() {
        let (mut groups, mut updates) = (Groups::default(), Vec::new());
        let member = |session, subscription_id| Member {
            session: SessionId(session),
            subscription_id,
        };
        let name = |name: u32| GroupName {
            vhost: "/".into(),
            stream: "s".to_owned(),
            name: name.to_string(),
        };
        for group in 0..3 {
            groups.join(name(group), 0, member(1, group as u8), &mut updates);
            groups.join(name(group), 0, member(2, group as u8), &mut updates);
        }
        groups.leave(&name(1), member(1, 1), &mut updates);
        let left = [(name(0), member(1, 0)), (name(2), member(1, 2))];
        assert_eq!(groups.of_session(SessionId(1)), left);
        updates.clear();
        groups.leave_all(SessionId(1), &mut updates);
        let told: Vec<_> = updates.iter().map(|u| (u.member, u.active)).collect();
        assert_eq!(told, [(member(2, 0), true), (member(2, 2), true)]);
        groups.leave_all(SessionId(2), &mut updates);
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
}
