//! Streams: created before the load, deleted after it.

use std::collections::BTreeMap;
use std::time::Instant;

use super::declare::{LOOK, SPREAD};
use super::{Setup, turn};
use crate::error::Error;
use crate::interrupt;
use crate::stream::StreamClient;

/// Arguments of streams that Leveret alone knows begin so.
const FLUSH: &str = "flush";
/// The product that knows them.
const LEVERET: &str = "Leveret";

impl Setup {
    /// Creates the loads' streams, and waits until every broker knows who leads them.
    pub(super) fn create_streams(&mut self) -> Result<(), Error> {
        let mut clients: BTreeMap<usize, StreamClient> = BTreeMap::new();
        for number in 0..self.loads.len() {
            for at in 0..self.loads[number].queues.len() {
                interrupt::check()?;
                let uri = turn(&self.loads[number].load.declare_at, at, self.brokers());
                let client = match clients.remove(&uri) {
                    Some(client) => client,
                    None => self.dialer.stream_client(uri)?,
                };
                self.product.clone_from(client.product());
                let client = self.create_stream(client, number, at)?;
                clients.insert(uri, client);
            }
        }
        for uri in 0..self.brokers() {
            let client = match clients.remove(&uri) {
                Some(client) => client,
                None => self.dialer.stream_client(uri)?,
            };
            self.await_streams(client)?;
        }
        Ok(())
    }

    fn create_stream(
        &mut self,
        mut client: StreamClient,
        number: usize,
        at: usize,
    ) -> Result<StreamClient, Error> {
        let planned = &self.loads[number];
        if planned.load.predeclared {
            return Ok(client);
        }
        let product = &self.product.0;
        let arguments = arguments(&planned.load.queue_arguments, product);
        if arguments.len() < planned.load.queue_arguments.len() && at == 0 {
            let load = &planned.load.name;
            let note = format!("load `{load}`: {product} knows no flush levels of streams");
            self.notes.push(note);
        }
        self.declared = true;
        client.create(&self.loads[number].queues[at], &arguments)?;
        Ok(client)
    }

    fn await_streams(&self, mut client: StreamClient) -> Result<(), Error> {
        let until = Instant::now() + SPREAD;
        for queue in self.loads.iter().flat_map(|planned| &planned.queues) {
            while !client.is_led(queue)? && Instant::now() < until {
                interrupt::check()?;
                std::thread::sleep(LOOK);
            }
        }
        client.close()
    }

    /// Deletes the streams under names of the run's own.
    pub(super) fn delete_streams(&self, uri: usize) -> Result<(), Error> {
        let mut client = self.dialer.stream_client(uri)?;
        for planned in self.loads.iter().filter(|planned| planned.queues_are_ours) {
            for stream in &planned.queues {
                client.delete(stream)?;
            }
        }
        client.close()
    }
}

/// A stream's arguments as its protocol has them, in text; without those that the product does not
/// know.
fn arguments(values: &BTreeMap<String, toml::Value>, product: &str) -> Vec<(String, String)> {
    let known = |name: &str| product == LEVERET || !name.starts_with(FLUSH);
    let values = values.iter().filter(|(name, _)| known(name));
    let text = |value: &toml::Value| match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    values
        .map(|(name, value)| (name.clone(), text(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_leveret_is_told_a_flush_level() {
        let values = toml::from_str(
            "flush = \"interval\"\nflush-interval-ms = 100\nmax-length-bytes = 5000",
        );
        let values = values.unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let bound = pair("max-length-bytes", "5000");
        assert_eq!(arguments(&values, "RabbitMQ"), std::slice::from_ref(&bound));
        let all = [
            pair("flush", "interval"),
            pair("flush-interval-ms", "100"),
            bound,
        ];
        assert_eq!(arguments(&values, "Leveret"), all);
    }
}
