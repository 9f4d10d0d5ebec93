//! What a connection counts, and what of its client's words it keeps to be shown.

use leveret_stream_protocol::{ResponseCode, ServerCommand};
use leveret_types::limits::STREAM_SHOWN_PROPERTIES_BYTES_MAX;

/// What a connection has done, for counters; none of it ever goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Entries received from its publishers.
    pub received: u64,
    /// Entries confirmed to them.
    pub confirmed: u64,
    /// Messages sent to its subscriptions.
    pub delivered: u64,
    /// Errors that the client was told, by their response codes.
    pub errors: [u32; CODES],
}

/// Response codes that are counted: those below this number.
pub const CODES: usize = 0x14;

impl Totals {
    /// Takes note of what a client is told.
    pub(crate) fn note(&mut self, command: &ServerCommand<'_>) {
        match command {
            ServerCommand::Response { code, .. }
            | ServerCommand::CreditFailed { code, .. }
            | ServerCommand::Close { code, .. } => self.note_code(*code),
            ServerCommand::PublishError { errors, .. } => {
                errors.iter().for_each(|(_, code)| self.note_code(*code));
            }
            _ => {}
        }
    }

    fn note_code(&mut self, code: ResponseCode) {
        let count = self.errors.get_mut(usize::from(code.0));
        if let Some(count) = count.filter(|_| code != ResponseCode::OK) {
            *count = count.wrapping_add(1);
        }
    }
}

/// The first of a subscription's properties that listings have room for.
pub(crate) fn shown(properties: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut room = STREAM_SHOWN_PROPERTIES_BYTES_MAX;
    let fits = |(key, value): &&(&str, &str)| {
        let left = room.checked_sub(key.len() + value.len());
        room = left.unwrap_or(room);
        left.is_some()
    };
    let shown = properties.iter().filter(fits);
    shown
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_shown_up_to_the_limit_and_no_further() {
        let value = "v".repeat(STREAM_SHOWN_PROPERTIES_BYTES_MAX - 1);
        assert_eq!(shown(&[("k", &value)]).len(), 1);
        let longer = format!("{value}v");
        let some = shown(&[("k", &longer), ("name", "n")]);
        assert_eq!(some, [("name".to_owned(), "n".to_owned())]);
    }
}
