//! Which streams are the partitions of a super stream: what the bindings of its exchange say.

use leveret_metadata::Vhost;
use leveret_routing::is_super_stream;
use leveret_types::limits::SUPER_STREAM_BINDINGS_MAX;

/// The partitions of a super stream that a key leads to, or all, in their order; nothing if there
/// is no super stream of this name. Beside it how many bindings were looked at, of which there are
/// at most [`SUPER_STREAM_BINDINGS_MAX`]: an exchange with more is none of a super stream.
pub(super) fn of(vhost: &Vhost, name: &str, key: Option<&[u8]>) -> (Option<Vec<String>>, usize) {
    let marked = vhost.exchange(name);
    if !marked.is_some_and(|exchange| is_super_stream(exchange.arguments())) {
        return (None, 0);
    }
    let router = vhost.router();
    let bindings = router.exchange(name).map(|exchange| exchange.outgoing);
    let Some(bindings) = bindings.filter(|count| *count <= SUPER_STREAM_BINDINGS_MAX) else {
        return (None, 0);
    };
    let (names, looked_at) = match key {
        Some(key) => {
            let names = router.partitions_of_key(name, key);
            let looked_at = names.len();
            (names, looked_at)
        }
        None => {
            let mut partitions = router.partitions(name);
            partitions.dedup_by_key(|partition| (partition.order, partition.stream));
            let names = partitions.into_iter().map(|partition| partition.stream);
            (names.collect(), bindings)
        }
    };
    (
        Some(names.into_iter().map(str::to_owned).collect()),
        looked_at,
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that fails here says enough")]

    use super::*;
    use leveret_metadata::{Catalogue, Command, Config, Endpoint};
    use leveret_routing::{PARTITION_ORDER, SUPER_STREAM};
    use leveret_types::{FieldTable, FieldValue};

    /// A catalogue with an exchange that is marked as a super stream, and three queues.
    fn catalogue(kind: &str) -> Catalogue {
        let mut catalogue = Catalogue::new(Config::default());
        let vhost = || "/".to_owned();
        let put = Command::VhostPut {
            vhost: vhost(),
            description: None,
            tags: None,
            default_queue_type: None,
            protected: None,
            tracing: None,
        };
        catalogue.apply(&put).unwrap();
        let exchange = Command::ExchangeDeclare {
            vhost: vhost(),
            name: "super".to_owned(),
            kind: kind.to_owned(),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: FieldTable::from([(SUPER_STREAM, FieldValue::Bool(true))]),
        };
        catalogue.apply(&exchange).unwrap();
        for random in 0..3 {
            let queue = Command::QueueDeclare {
                vhost: vhost(),
                name: format!("super-{random}"),
                durable: true,
                exclusive: None,
                auto_delete: false,
                arguments: FieldTable::from([("x-queue-type", FieldValue::text("stream"))]),
                random: [random; 16],
                shards: 1,
                id: None,
            };
            catalogue.apply(&queue).unwrap();
        }
        catalogue
    }

    fn bind(catalogue: &mut Catalogue, queue: &str, key: &str, order: i64) {
        let bind = Command::Bind {
            vhost: "/".to_owned(),
            source: "super".to_owned(),
            destination: Endpoint::Queue(queue.to_owned()),
            routing_key: key.as_bytes().to_vec(),
            arguments: FieldTable::from([(PARTITION_ORDER, FieldValue::I64(order))]),
        };
        catalogue.apply(&bind).unwrap();
    }

    #[test]
    fn partitions_are_in_their_order_whatever_the_exchange_is() {
        for kind in ["direct", "topic"] {
            let mut catalogue = catalogue(kind);
            for (queue, key, order) in [
                ("super-0", "a", 2),
                ("super-1", "b", 0),
                ("super-2", "b", 1),
                ("super-2", "c", 1),
            ] {
                bind(&mut catalogue, queue, key, order);
            }
            let vhost = catalogue.vhost("/").unwrap();
            let found = |key: Option<&[u8]>| of(vhost, "super", key).0.unwrap();
            assert_eq!(found(None), ["super-1", "super-2", "super-0"]);
            assert_eq!(found(Some(b"b")), ["super-1", "super-2"]);
            assert!(found(Some(b"d")).is_empty());
            assert_eq!(of(vhost, "amq.direct", None), (None, 0));
            assert_eq!(of(vhost, "none", None), (None, 0));
        }
    }

    #[test]
    fn a_key_is_looked_up_and_no_more_bindings_are_looked_through_than_the_bound() {
        let mut catalogue = catalogue("direct");
        for key in 0..SUPER_STREAM_BINDINGS_MAX {
            bind(&mut catalogue, "super-0", &key.to_string(), 0);
        }
        let vhost = catalogue.vhost("/").unwrap();
        let found = Some(vec!["super-0".to_owned()]);
        let all = of(vhost, "super", None);
        assert_eq!(all, (found.clone(), SUPER_STREAM_BINDINGS_MAX));
        assert_eq!(of(vhost, "super", Some(b"7")), (found, 1));
        bind(&mut catalogue, "super-1", "one more", 0);
        let vhost = catalogue.vhost("/").unwrap();
        assert_eq!(of(vhost, "super", None), (None, 0));
        assert_eq!(of(vhost, "super", Some(b"7")), (None, 0));
    }
}
