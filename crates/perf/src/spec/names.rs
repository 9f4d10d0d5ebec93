//! The names of a load's queues.

use super::Load;

impl Load {
    /// Whether the load itself names its queues.
    #[must_use]
    pub fn names_queues(&self) -> bool {
        self.queue_name.is_some() || !self.queue_names.is_empty()
    }

    /// The names of its queues, by the pattern `own` where it gives none.
    #[must_use]
    pub fn named_queues(&self, own: &str) -> Vec<String> {
        if !self.queue_names.is_empty() {
            return self.queue_names.clone();
        }
        let numbers = (self.queue_first..).take(self.queues as usize);
        numbers.map(|number| self.queue(own, number)).collect()
    }

    /// The last of the names that a pattern gives; none where they are listed.
    pub(super) fn last_queue(&self, own: &str) -> Option<String> {
        let last = self.queue_first + self.queues.saturating_sub(1);
        self.queue_names.is_empty().then(|| self.queue(own, last))
    }

    fn queue(&self, own: &str, number: u32) -> String {
        let pattern = self.queue_name.as_deref().unwrap_or(own);
        match numbered(pattern, number) {
            Some(name) => name,
            None if self.queues == 1 => pattern.to_owned(),
            None => format!("{pattern}-{number}"),
        }
    }
}

/// Whether a pattern has a place for a number.
#[must_use]
pub fn has_number(pattern: &str) -> bool {
    numbered(pattern, 0).is_some()
}

/// The pattern with a number in each of its places for one, as `printf` writes it: `%d`, `%3d`,
/// `%03d`. None where there is no place.
fn numbered(pattern: &str, number: u32) -> Option<String> {
    let mut name = String::new();
    let mut rest = pattern;
    let mut found = false;
    while let Some((before, after)) = rest.split_once('%') {
        name.push_str(before);
        match place(after) {
            Some((zeros, width, after)) => {
                found = true;
                name.push_str(&match zeros {
                    true => format!("{number:0width$}"),
                    false => format!("{number:width$}"),
                });
                rest = after;
            }
            None => {
                name.push('%');
                rest = after;
            }
        }
    }
    name.push_str(rest);
    found.then_some(name)
}

/// A number's place, from what follows its `%`: whether zeros fill it, its width, what follows.
fn place(text: &str) -> Option<(bool, usize, &str)> {
    let (digits, after) = text.split_once('d')?;
    let known = digits.len() <= 3 && digits.bytes().all(|digit| digit.is_ascii_digit());
    known.then(|| (digits.starts_with('0'), digits.parse().unwrap_or(0), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(queue_name: &str, queue_first: u32, queues: u32) -> Vec<String> {
        let load = Load {
            queue_name: Some(queue_name.to_owned()),
            queue_first,
            queues,
            ..Load::default()
        };
        load.named_queues("own-%d")
    }

    #[test]
    fn numbers_are_written_as_printf_does() {
        assert_eq!(names("q-%d", 9, 2), ["q-9", "q-10"]);
        assert_eq!(names("q-%03d.x", 9, 2), ["q-009.x", "q-010.x"]);
        assert_eq!(names("%3d", 0, 1), ["  0"]);
        assert_eq!(names("%d of %02d", 1, 1), ["1 of 01"]);
    }

    #[test]
    fn a_name_without_a_place_has_its_number_at_the_end_where_there_are_several() {
        assert_eq!(names("q", 1, 1), ["q"]);
        assert_eq!(names("q", 1, 2), ["q-1", "q-2"]);
        assert_eq!(names("100 %", 1, 1), ["100 %"]);
        assert_eq!(names("%x-%0004d", 1, 1), ["%x-%0004d"]);
    }

    #[test]
    fn a_load_without_names_has_those_of_the_run() {
        let load = Load {
            queues: 2,
            ..Load::default()
        };
        assert_eq!(load.named_queues("own-%d"), ["own-1", "own-2"]);
        assert!(!load.names_queues());
    }
}
