//! Which dead letters leave a queue, and for where: one rule for `leveret redrive` and for the
//! API's moves of messages.

/// What somebody wants of the messages of a queue.
pub(crate) struct Wanted<'a> {
    /// The queue that takes them; without one, that in which each died first.
    pub to: Option<&'a str>,
    /// Only those that died first in this queue.
    pub from: Option<&'a str>,
    /// Only those that died first for this reason.
    pub reason: Option<&'a str>,
    /// What is said of a message that goes nowhere, as it says not where it died.
    pub unknown: &'a str,
}

impl Wanted<'_> {
    /// The queue that takes a message of `queue` that died first in `died_in` for `reason`, or why
    /// it stays where it is.
    pub(crate) fn destination(
        &self,
        queue: &str,
        died_in: Option<String>,
        reason: Option<&str>,
    ) -> Result<String, String> {
        if self.from.is_some() && self.from != died_in.as_deref() {
            return Err("from another queue".to_owned());
        }
        if self.reason.is_some() && self.reason != reason {
            return Err("died for another reason".to_owned());
        }
        let to = self.to.map(str::to_owned).or(died_in);
        let to = to.ok_or_else(|| self.unknown.to_owned())?;
        match to == queue {
            true => Err("would come back to this queue".to_owned()),
            false => Ok(to),
        }
    }
}
