//! The client's identity, as far as it has said.

use leveret_amqp::{RawTable, RawValue};

/// What the client is able to understand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Capabilities {
    pub authentication_failure_close: bool,
    pub connection_blocked: bool,
    pub consumer_cancel_notify: bool,
}

impl Capabilities {
    fn read(properties: RawTable<'_>) -> Self {
        let Some(RawValue::Table(table)) = properties.get(b"capabilities") else {
            return Self::default();
        };
        let has = |name: &[u8]| table.get(name) == Some(RawValue::Bool(true));
        Self {
            authentication_failure_close: has(b"authentication_failure_close"),
            connection_blocked: has(b"connection.blocked"),
            consumer_cancel_notify: has(b"consumer_cancel_notify"),
        }
    }
}

/// See the module's description.
#[derive(Default)]
pub(crate) struct Client {
    /// What it says of itself, as it came: checked, and decoded when somebody asks, for it may come
    /// from anybody.
    properties: Box<[u8]>,
    pub(crate) capabilities: Capabilities,
    pub(crate) mechanism: String,
    /// Empty before login.
    pub(crate) user: String,
    /// Empty before it is open.
    pub(crate) vhost: String,
}

impl Client {
    /// It says how it logs in, and this of itself.
    pub(crate) fn introduce(&mut self, mechanism: &str, properties: RawTable<'_>) {
        self.mechanism = mechanism.to_owned();
        self.capabilities = Capabilities::read(properties);
        self.properties = properties.as_bytes().into();
    }

    pub(crate) fn properties(&self) -> RawTable<'_> {
        RawTable::trusted(&self.properties)
    }

    /// The name that it gives the connection (`connection_name`).
    pub(crate) fn name(&self) -> Option<&str> {
        match self.properties().get(b"connection_name")? {
            RawValue::LongString(name) => std::str::from_utf8(name).ok(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leveret_amqp::TableBuilder;
    use leveret_types::FieldValue;

    #[test]
    fn a_client_is_able_to_do_what_it_says_that_it_is() {
        const NAMES: [&str; 3] = [
            "authentication_failure_close",
            "connection.blocked",
            "consumer_cancel_notify",
        ];
        let read = |value: &dyn Fn(usize) -> FieldValue| {
            let able = NAMES.iter().enumerate();
            let able = able.map(|(at, name)| ((*name).to_owned(), value(at)));
            let mut properties = TableBuilder::new();
            properties.push("capabilities", &FieldValue::Table(able.collect()));
            let read = Capabilities::read(properties.as_table());
            [
                read.authentication_failure_close,
                read.connection_blocked,
                read.consumer_cancel_notify,
            ]
        };
        for (one, name) in NAMES.iter().enumerate() {
            let told = read(&|at| FieldValue::Bool(at == one));
            assert_eq!(told, [0, 1, 2].map(|at| at == one), "{name}");
        }
        assert_eq!(read(&|_| FieldValue::text("true")), [false; 3]);
        let mut properties = TableBuilder::new();
        properties.push("capabilities", &FieldValue::Bool(true));
        assert!(!Capabilities::read(properties.as_table()).connection_blocked);
    }
}
