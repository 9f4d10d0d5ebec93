//! What the tests of the Rust stream client share; they are in `tests`.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rabbitmq_stream_client::types::{HashRoutingMurmurStrategy, Message, RoutingStrategy};
use rabbitmq_stream_client::{ConfirmationStatus, Environment};

/// How long an answer, or a message, is waited for.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// What was tried, or what came in between.
pub type Tried<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// A name that nothing else has.
pub fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("rust-{}-{number}", now.as_nanos())
}

/// A message with nothing but this body.
pub fn message(body: &str) -> Message {
    Message::builder().body(body.to_owned()).build()
}

/// A message's body.
pub fn body(message: &Message) -> String {
    String::from_utf8(message.data().unwrap_or_default().to_vec()).unwrap()
}

/// Numbers as bodies.
pub fn numbers(from: u64, to: u64) -> Vec<String> {
    (from..to).map(|number| number.to_string()).collect()
}

/// Bodies lead to partitions by their hash.
pub fn by_hash() -> RoutingStrategy {
    RoutingStrategy::HashRoutingStrategy(HashRoutingMurmurStrategy {
        routing_extractor: &body,
    })
}

/// Publishes to a super stream; returns when all are confirmed.
pub async fn publish_to_super(
    env: &Environment,
    name: &str,
    by: RoutingStrategy,
    bodies: &[String],
) -> Tried<()> {
    let mut producer = env.super_stream_producer(by).build(name).await?;
    let confirmed = Arc::new(AtomicU64::new(0));
    for body in bodies {
        let confirmed = confirmed.clone();
        let count = move |status: Result<ConfirmationStatus, _>| {
            let is_confirmed = status.is_ok_and(|status| status.confirmed());
            confirmed.fetch_add(u64::from(is_confirmed), Ordering::Relaxed);
            async {}
        };
        producer.send(message(body), count).await?;
    }
    let all = async {
        while confirmed.load(Ordering::Relaxed) < bodies.len() as u64 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, all).await?;
    producer.close().await?;
    Ok(())
}
