//! The Rust stream client's own idioms against the broker at port $STREAM_PORT.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::StreamExt;
use rabbitmq_stream_client::error::{ClientError, ConsumerStoreOffsetError, StreamCreateError};
use rabbitmq_stream_client::types::{
    ByteCapacity, Message, OffsetSpecification, ResponseCode, RoutingKeyRoutingStrategy,
    RoutingStrategy, SimpleValue,
};
use rabbitmq_stream_client::{Consumer, Environment, FilterConfiguration};
use streams_rust::{PATIENCE, body, by_hash, message, numbers, publish_to_super, unique};

/// This client goes where the broker says that a stream's leader is: to the address under test.
async fn environment() -> Environment {
    let port = std::env::var("STREAM_PORT").unwrap().parse().unwrap();
    let builder = Environment::builder().host("127.0.0.1").port(port);
    builder.build().await.unwrap()
}

async fn new_stream(env: &Environment) -> String {
    let name = unique();
    env.stream_creator().create(&name).await.unwrap();
    name
}

/// Publishes numbers as bodies; returns when all are confirmed.
async fn publish(env: &Environment, stream: &str, from: u64, to: u64) {
    let producer = env.producer().build(stream).await.unwrap();
    for part in numbers(from, to).chunks(100) {
        let messages = part.iter().map(|body| message(body)).collect();
        let sent = producer.batch_send_with_confirm(messages);
        let statuses = tokio::time::timeout(PATIENCE, sent).await.unwrap().unwrap();
        assert_eq!(statuses.len(), part.len());
        assert!(statuses.iter().all(|status| status.confirmed()));
    }
    producer.close().await.unwrap();
}

async fn next_of(consumer: &mut Consumer) -> String {
    let next = tokio::time::timeout(PATIENCE, consumer.next()).await;
    let delivery = next.expect("a message in time").expect("an open consumer");
    body(delivery.unwrap().message())
}

async fn take(consumer: &mut Consumer, count: usize) -> Vec<String> {
    let mut found = Vec::new();
    for _ in 0..count {
        found.push(next_of(consumer).await);
    }
    found
}

async fn consume(env: &Environment, stream: &str, offset: OffsetSpecification) -> Consumer {
    env.consumer().offset(offset).build(stream).await.unwrap()
}

async fn expect(env: &Environment, stream: &str, offset: OffsetSpecification, from: u64, to: u64) {
    let mut consumer = consume(env, stream, offset).await;
    let wanted = numbers(from, to);
    assert_eq!(take(&mut consumer, wanted.len()).await, wanted);
    consumer.handle().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_message_is_confirmed_and_read_in_order() {
    let env = environment().await;
    let stream = new_stream(&env).await;
    publish(&env, &stream, 0, 10_000).await;
    expect(&env, &stream, OffsetSpecification::First, 0, 10_000).await;
    env.delete_stream(&stream).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn consumers_begin_where_they_ask() {
    let env = environment().await;
    let stream = new_stream(&env).await;
    publish(&env, &stream, 0, 100).await;
    // Chunks' times are in milliseconds: what comes now has a later one.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let between = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let between = i64::try_from(between.as_millis()).unwrap();
    publish(&env, &stream, 100, 200).await;
    expect(&env, &stream, OffsetSpecification::First, 0, 200).await;
    expect(&env, &stream, OffsetSpecification::Offset(150), 150, 200).await;
    expect(
        &env,
        &stream,
        OffsetSpecification::Timestamp(between),
        100,
        200,
    )
    .await;
    let mut last = consume(&env, &stream, OffsetSpecification::Last).await;
    let first_of_last: u64 = next_of(&mut last).await.parse().unwrap();
    assert!(first_of_last > 0, "the last chunk is not the whole stream");
    let mut next = consume(&env, &stream, OffsetSpecification::Next).await;
    publish(&env, &stream, 200, 210).await;
    assert_eq!(take(&mut next, 10).await, numbers(200, 210));
    env.delete_stream(&stream).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn properties_come_back_as_they_were_sent() {
    let env = environment().await;
    let stream = new_stream(&env).await;
    let producer = env.producer().build(&stream).await.unwrap();
    let sent = Message::builder()
        .properties()
        .message_id(7_u64)
        .content_type("text/plain")
        .message_builder()
        .application_properties()
        .insert("name", "value")
        .message_builder()
        .message_annotations()
        .insert("x-own", "annotation")
        .message_builder()
        .body("ü")
        .build();
    assert!(
        producer
            .send_with_confirm(sent.clone())
            .await
            .unwrap()
            .confirmed()
    );
    let mut consumer = consume(&env, &stream, OffsetSpecification::First).await;
    let delivery = tokio::time::timeout(PATIENCE, consumer.next())
        .await
        .unwrap();
    let delivery = delivery.unwrap().unwrap();
    assert_eq!(delivery.offset(), 0);
    assert_eq!(body(delivery.message()), "ü");
    assert_eq!(delivery.message().properties(), sent.properties());
    let properties = delivery.message().application_properties().unwrap();
    assert_eq!(
        properties.get("name"),
        Some(&SimpleValue::String("value".to_owned()))
    );
    assert_eq!(
        delivery.message().message_annotations(),
        sent.message_annotations()
    );
    env.delete_stream(&stream).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_offsets_are_found_again() {
    let env = environment().await;
    let stream = new_stream(&env).await;
    publish(&env, &stream, 0, 100).await;
    let named = || {
        env.consumer()
            .name("app")
            .offset(OffsetSpecification::First)
    };
    let mut consumer = named().build(&stream).await.unwrap();
    assert!(matches!(
        consumer.query_offset().await,
        Err(ConsumerStoreOffsetError::Client(ClientError::RequestError(
            ResponseCode::OffsetNotFound
        )))
    ));
    assert_eq!(take(&mut consumer, 100).await, numbers(0, 100));
    consumer.store_offset(59).await.unwrap();
    consumer.handle().close().await.unwrap();
    let next = named().build(&stream).await.unwrap();
    assert_eq!(next.query_offset().await.unwrap(), 59);
    expect(&env, &stream, OffsetSpecification::Offset(60), 60, 100).await;
    env.delete_stream(&stream).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_publisher_says_twice_is_stored_once() {
    let env = environment().await;
    let stream = new_stream(&env).await;
    for count in [100_u64, 150] {
        let mut producer = env.producer().name("p").build(&stream).await.unwrap();
        for number in 0..count {
            let message = Message::builder()
                .publishing_id(number)
                .body(number.to_string());
            let sent = producer.send_with_confirm(message.build());
            let status = tokio::time::timeout(PATIENCE, sent).await.unwrap().unwrap();
            assert!(status.confirmed());
        }
        producer.close().await.unwrap();
    }
    publish(&env, &stream, 150, 151).await;
    expect(&env, &stream, OffsetSpecification::First, 0, 151).await;
    env.delete_stream(&stream).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_may_match_a_filter_is_sent() {
    let env = environment().await;
    let stream = new_stream(&env).await;
    for area in ["east", "west"] {
        let extractor = move |_: &Message| area.to_owned();
        let producer = env.producer().filter_value_extractor(extractor);
        let producer = producer.build(&stream).await.unwrap();
        let messages = (0..100).map(|_| message(area)).collect();
        let statuses = producer.batch_send_with_confirm(messages).await.unwrap();
        assert_eq!(statuses.len(), 100);
        producer.close().await.unwrap();
    }
    publish(&env, &stream, 0, 10).await;
    let wanted = |unfiltered| {
        let values = FilterConfiguration::new(vec!["west".to_owned()], unfiltered);
        let consumer = env.consumer().offset(OffsetSpecification::First);
        consumer.filter_input(Some(values.post_filter(|_| true)))
    };
    let mut consumer = wanted(true).build(&stream).await.unwrap();
    assert_eq!(take(&mut consumer, 100).await, vec!["west"; 100]);
    assert_eq!(take(&mut consumer, 10).await, numbers(0, 10));
    let mut consumer = wanted(false).build(&stream).await.unwrap();
    assert_eq!(take(&mut consumer, 100).await, vec!["west"; 100]);
    let more = tokio::time::timeout(Duration::from_millis(300), consumer.next()).await;
    assert!(more.is_err(), "what has no filter value is not sent");
    env.delete_stream(&stream).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_made_and_refused_as_asked() {
    let env = environment().await;
    let name = unique();
    let creator = || env.stream_creator().max_length(ByteCapacity::MB(10));
    creator().create(&name).await.unwrap();
    let code = |made: Result<(), StreamCreateError>| match made {
        Err(StreamCreateError::Create { status, .. }) => status,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        code(creator().create(&name).await),
        ResponseCode::StreamAlreadyExists
    );
    let other = env.stream_creator().max_length(ByteCapacity::MB(77));
    assert_eq!(
        code(other.create(&name).await),
        ResponseCode::PreconditionFailed
    );
    env.delete_stream(&name).await.unwrap();
    assert!(env.delete_stream(&name).await.is_err());
    assert!(env.producer().build(&name).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_and_a_host_that_is_not_there_are_refused() {
    let port: u16 = std::env::var("STREAM_PORT").unwrap().parse().unwrap();
    let builder = || Environment::builder().host("127.0.0.1").port(port);
    assert!(builder().password("wrong").build().await.is_err());
    assert!(builder().virtual_host("nowhere").build().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_super_stream_is_spread_over_its_partitions() {
    let env = environment().await;
    let name = unique();
    env.stream_creator()
        .create_super_stream(&name, 3, None)
        .await
        .unwrap();
    publish_to_super(&env, &name, by_hash(), &numbers(0, 300))
        .await
        .unwrap();
    let consumer = env
        .super_stream_consumer()
        .offset(OffsetSpecification::First);
    let mut consumer = { consumer }.build(&name).await.unwrap();
    let (mut found, mut streams) = (BTreeSet::new(), BTreeSet::new());
    while found.len() < 300 {
        let next = tokio::time::timeout(PATIENCE, consumer.next()).await;
        let delivery = next.expect("a message in time").unwrap().unwrap();
        assert!(found.insert(body(delivery.message())), "each of them once");
        streams.insert(delivery.stream().clone());
    }
    let partitions = (0..3).map(|number| format!("{name}-{number}"));
    assert_eq!(streams, partitions.collect());
    consumer.handle().close().await.unwrap();
    env.delete_super_stream(&name).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_super_stream_is_routed_by_keys() {
    let env = environment().await;
    let name = unique();
    let keys = ["amer", "emea", "apac"].map(str::to_owned).to_vec();
    env.stream_creator()
        .create_super_stream(&name, 3, Some(keys))
        .await
        .unwrap();
    let by_key = RoutingStrategy::RoutingKeyStrategy(RoutingKeyRoutingStrategy {
        routing_extractor: &body,
    });
    let bodies = ["emea", "apac", "emea"].map(str::to_owned);
    publish_to_super(&env, &name, by_key, &bodies)
        .await
        .unwrap();
    let emea = format!("{name}-emea");
    let mut consumer = consume(&env, &emea, OffsetSpecification::First).await;
    assert_eq!(take(&mut consumer, 2).await, ["emea", "emea"]);
    env.delete_super_stream(&name).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_group_one_consumer_is_active_and_the_next_one_goes_on() {
    let env = environment().await;
    let stream = new_stream(&env).await;
    // Two chunks: one that begins within a chunk is given all of it by this client after an update.
    publish(&env, &stream, 0, 5).await;
    publish(&env, &stream, 5, 10).await;
    let join = || {
        let consumer = env
            .consumer()
            .name("group")
            .enable_single_active_consumer(true);
        consumer
            .offset(OffsetSpecification::First)
            .consumer_update(|_, context| async move {
                let stored = context
                    .client()
                    .query_offset(context.name(), &context.stream())
                    .await;
                stored.map_or(OffsetSpecification::First, |offset| {
                    OffsetSpecification::Offset(offset + 1)
                })
            })
    };
    let mut one = join().build(&stream).await.unwrap();
    assert_eq!(take(&mut one, 10).await, numbers(0, 10));
    let mut two = join().build(&stream).await.unwrap();
    one.store_offset(4).await.unwrap();
    assert_eq!(one.query_offset().await.unwrap(), 4);
    let early = tokio::time::timeout(Duration::from_millis(300), two.next()).await;
    assert!(early.is_err(), "the second one waits");
    one.handle().close().await.unwrap();
    assert_eq!(take(&mut two, 5).await, numbers(5, 10));
    env.delete_stream(&stream).await.unwrap();
}
