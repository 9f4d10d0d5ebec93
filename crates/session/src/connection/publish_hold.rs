//! Why a client's publishes wait: an alarm, or no room for a body that is to arrive.
//!
//! Invariant: a client that was told of an alarm is told of its end.

/// See the module's description.
#[derive(Default)]
pub(crate) struct Hold {
    /// The alarm that holds publishers back.
    alarm: Option<Box<str>>,
    /// The client has been told of it.
    is_notified: bool,
    /// A publish has come since the alarm: it waits for the end of the alarm, and what is behind it
    /// waits with it.
    is_held: bool,
    has_published: bool,
    /// When a publish that waits for room looks again, in monotonic milliseconds; nothing if none
    /// waits.
    room_ms: Option<u64>,
}

impl Hold {
    /// The alarm from now on, or none; whether a publish waited for that.
    pub(super) fn set_alarm(&mut self, reason: Option<&str>) -> bool {
        self.alarm = reason.map(Into::into);
        self.alarm.is_none() && std::mem::take(&mut self.is_held)
    }

    /// The alarm that is on.
    pub(super) fn alarm(&self) -> Option<&str> {
        self.alarm.as_deref()
    }

    pub(super) const fn is_alarmed(&self) -> bool {
        self.alarm.is_some()
    }

    /// Whether the client is to be told how it is now: it counts as told after that. One that has
    /// not published hears of no alarm, but of the end of one.
    pub(super) fn take_news(&mut self) -> bool {
        let concerns = self.has_published || self.alarm.is_none();
        if !concerns || self.is_notified == self.alarm.is_some() {
            return false;
        }
        self.is_notified = self.alarm.is_some();
        true
    }

    /// A publish has come that waits for the end of the alarm.
    pub(super) const fn hold(&mut self) {
        self.is_held = true;
        self.has_published = true;
    }

    /// Whether a publish waits for the end of an alarm.
    pub(super) const fn is_held(&self) -> bool {
        self.is_held
    }

    /// A publish was sent off.
    pub(crate) const fn publishes(&mut self) {
        self.has_published = true;
    }

    /// Whether the client has published: only then does an alarm concern it.
    pub(super) const fn has_published(&self) -> bool {
        self.has_published
    }

    /// A publish looks for room again then, or has it.
    pub(crate) const fn wait_for_room(&mut self, until_ms: Option<u64>) {
        self.room_ms = until_ms;
    }

    /// When a publish that waits for room looks again.
    pub(crate) const fn room_ms(&self) -> Option<u64> {
        self.room_ms
    }

    /// Whether it is time for that: nothing waits after that, unless it finds none again.
    pub(super) fn take_room_check(&mut self, now_ms: u64) -> bool {
        self.room_ms.take_if(|at| *at <= now_ms).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_published_hears_once_of_an_alarm_and_once_of_its_end() {
        let mut hold = Hold::default();
        assert!(!hold.set_alarm(Some("low on memory")) && !hold.take_news());
        hold.hold();
        assert!(hold.take_news() && !hold.take_news(), "with its publish");
        assert!(!hold.set_alarm(Some("low on disk")) && !hold.take_news());
        assert!(hold.set_alarm(None), "the publish waited");
        assert!(hold.take_news() && !hold.take_news());
        assert!(!hold.set_alarm(Some("low on disk")) && hold.take_news());
        assert!(!hold.set_alarm(None), "nothing waited");
    }

    #[test]
    fn a_publish_that_waits_for_room_looks_when_its_time_has_come_and_once() {
        let mut hold = Hold::default();
        hold.wait_for_room(Some(20));
        assert!(!hold.take_room_check(19));
        assert!(hold.take_room_check(20) && !hold.take_room_check(20));
        assert_eq!(hold.room_ms(), None);
    }
}
