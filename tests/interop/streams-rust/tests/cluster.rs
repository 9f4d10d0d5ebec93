//! The Rust stream client over three nodes, of which the one that leads a stream is killed.
//!
//! This client does not connect again: who has lost a connection is begun anew by hand, at one node
//! after the other. It packs no batches within an entry.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::{FutureExt, StreamExt};
use rabbitmq_stream_client::types::{Message, OffsetSpecification};
use rabbitmq_stream_client::{Client, ClientOptions, Environment, FilterConfiguration};
use streams_rust::{Tried, body, by_hash, numbers, publish_to_super, unique};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// How long the loss of a node may take to get over.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long one step may take before it is begun anew at another node.
const STEP: Duration = Duration::from_secs(10);
/// Messages that are published, and confirmed, together.
const BATCH: u64 = 100;

fn variable(name: &str) -> Vec<String> {
    let value = std::env::var(name).unwrap();
    value.split(',').map(str::to_owned).collect()
}

fn ports() -> Vec<u16> {
    let address = |address: &String| address.rsplit(':').next().unwrap().parse().unwrap();
    variable("CLUSTER_STREAMS").iter().map(address).collect()
}

/// Tries at one node after the other until it succeeds, also over panics: the client has some where
/// a connection is lost.
async fn at_some_node<T, W: Future<Output = Tried<T>>>(what: &str, work: impl Fn(u16) -> W) -> T {
    let deadline = Instant::now() + PATIENCE;
    for port in ports().into_iter().cycle() {
        let error = match AssertUnwindSafe(work(port)).catch_unwind().await {
            Ok(Ok(value)) => return value,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "a panic".to_owned(),
        };
        assert!(Instant::now() < deadline, "{what}: {error}");
        sleep(Duration::from_millis(100)).await;
    }
    unreachable!("a cycle has no end")
}

/// The same with a client that knows this node, and goes where that one says that streams are.
async fn by_hand<T, W: Future<Output = Tried<T>>>(
    what: &str,
    work: impl Fn(Environment) -> W,
) -> T {
    let work = &work;
    at_some_node(what, |port| async move {
        let builder = Environment::builder().host("localhost").port(port);
        work(timeout(STEP, builder.build()).await??).await
    })
    .await
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let all = async {
        while !condition() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, all).await.expect(what);
}

async fn new_stream() -> String {
    let name = unique();
    by_hand("a stream", |env| {
        let name = name.clone();
        async move {
            timeout(STEP, env.stream_creator().create(&name)).await??;
            Ok(())
        }
    })
    .await;
    name
}

/// The number of the node that leads a stream, as the node at this port tells it.
async fn leader_at(port: u16, stream: &str) -> Tried<usize> {
    let mut options = ClientOptions::default();
    options.set_port(port);
    let client = timeout(STEP, Client::connect(options)).await??;
    let found = timeout(STEP, client.metadata(vec![stream.to_owned()])).await??;
    let _ = timeout(STEP, client.close()).await;
    let metadata = found.get(stream).ok_or("no such stream")?;
    let port = u16::try_from(metadata.leader.port)?;
    let node = ports().iter().position(|known| *known == port);
    Ok(node.ok_or("no leader")?)
}

/// kill -9 of the node that leads a stream, and a start on what it has; returns when it accepts.
async fn kill_leader(stream: String) {
    let stream = &stream;
    let leader = at_some_node("a leader", |port| leader_at(port, stream)).await;
    let control = variable("CLUSTER_CONTROLS")[leader].clone();
    let crashed = tokio::task::spawn_blocking(move || {
        let mut control = TcpStream::connect(control)?;
        control.write_all(b"crash\n")?;
        let mut answer = String::new();
        BufReader::new(control).read_line(&mut answer)?;
        std::io::Result::Ok(answer)
    });
    let answer = crashed.await.unwrap().unwrap();
    assert!(answer.starts_with("ok"), "{answer}");
}

fn message_of(number: u64, id: u64) -> Message {
    let message = Message::builder().publishing_id(id);
    message.body(number.to_string()).build()
}

/// Publishes numbers under a name, some at a time, until it is enough; what is not confirmed is
/// said again, under the same ids.
async fn publish(stream: &str, confirmed: &Arc<AtomicU64>, is_enough: impl Fn(u64) -> bool) {
    by_hand("a publisher", |env| {
        let (stream, confirmed) = (stream.to_owned(), confirmed.clone());
        let is_enough = &is_enough;
        async move {
            let named = env.producer().name("publisher");
            let mut producer = timeout(STEP, named.build(&stream)).await??;
            loop {
                let from = confirmed.load(Ordering::SeqCst);
                if is_enough(from) {
                    let _ = timeout(STEP, producer.close()).await;
                    return Ok(());
                }
                let batch = (from..from + BATCH).map(|number| message_of(number, number + 1));
                let sent = producer.batch_send_with_confirm(batch.collect());
                let statuses = timeout(STEP, sent).await??;
                if statuses.len() as u64 != BATCH || !statuses.iter().all(|s| s.confirmed()) {
                    return Err("not all were confirmed".into());
                }
                confirmed.store(from + BATCH, Ordering::SeqCst);
            }
        }
    })
    .await;
}

/// What a consumer is given: offsets and numbers.
type Found = Arc<Mutex<Vec<(u64, u64)>>>;

/// A consumer that goes on behind what it has been given, at another node, where it has lost its
/// own.
fn reading(stream: &str, offset: OffsetSpecification) -> (Found, JoinHandle<()>) {
    let found = Found::default();
    let (stream, seen) = (stream.to_owned(), found.clone());
    let reading = tokio::spawn(async move {
        loop {
            let last = seen.lock().unwrap().last().map(|(offset, _)| *offset);
            let from = match last {
                Some(offset) => OffsetSpecification::Offset(offset + 1),
                None => offset.clone(),
            };
            let mut consumer = by_hand("a consumer", |env| {
                let (stream, from) = (stream.clone(), from.clone());
                async move {
                    let consumer = env.consumer().offset(from);
                    Ok(timeout(STEP, consumer.build(&stream)).await??)
                }
            })
            .await;
            while let Some(Ok(delivery)) = consumer.next().await {
                let number = body(delivery.message()).parse().unwrap();
                seen.lock().unwrap().push((delivery.offset(), number));
            }
        }
    });
    (found, reading)
}

/// What comes from there on to this number.
async fn read(stream: &str, offset: OffsetSpecification, last: u64) -> Vec<(u64, u64)> {
    let (found, reading) = reading(stream, offset);
    let is_there = || {
        found
            .lock()
            .unwrap()
            .last()
            .is_some_and(|(_, number)| *number == last)
    };
    until("the last number", is_there).await;
    reading.abort();
    found.lock().unwrap().clone()
}

fn only_numbers(found: &[(u64, u64)]) -> Vec<u64> {
    found.iter().map(|(_, number)| *number).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_confirmed_is_there_once_though_the_leaders_node_is_killed() {
    let stream = new_stream().await;
    let confirmed = Arc::new(AtomicU64::new(0));
    let (found, reader) = reading(&stream, OffsetSpecification::First);
    publish(&stream, &confirmed, |count| count >= 1_000).await;
    // Chunks' times are in milliseconds: what comes now has a later one.
    sleep(Duration::from_millis(50)).await;
    let between = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let between = i64::try_from(between.as_millis()).unwrap();
    sleep(Duration::from_millis(50)).await;
    let killing = tokio::spawn(kill_leader(stream.clone()));
    publish(&stream, &confirmed, |_| killing.is_finished()).await;
    killing.await.unwrap();
    let enough = confirmed.load(Ordering::SeqCst) + 1_000;
    publish(&stream, &confirmed, |count| count >= enough).await;
    let total = confirmed.load(Ordering::SeqCst);
    let all: Vec<u64> = (0..total).collect();
    // The consumer that was there all the while has got over it too.
    let has_all = || found.lock().unwrap().len() as u64 >= total;
    until("all numbers", has_all).await;
    reader.abort();
    assert_eq!(only_numbers(&found.lock().unwrap()), all);
    let whole = read(&stream, OffsetSpecification::First, total - 1).await;
    assert_eq!(only_numbers(&whole), all);
    // Whatever a consumer asks to begin with.
    let middle = OffsetSpecification::Offset(whole[1_234].0);
    assert_eq!(read(&stream, middle, total - 1).await, whole[1_234..]);
    let later = OffsetSpecification::Timestamp(between);
    assert_eq!(read(&stream, later, total - 1).await, whole[1_000..]);
    let end = read(&stream, OffsetSpecification::Last, total - 1).await;
    assert_eq!(end, whole[whole.len() - end.len()..]);
    assert!(
        end.len() < whole.len(),
        "the last chunk is not the whole stream"
    );
    let (new, reader) = reading(&stream, OffsetSpecification::Next);
    // A consumer is told of what comes once it has subscribed, which nobody can see from here.
    let is_new = || !new.lock().unwrap().is_empty();
    let deadline = Instant::now() + PATIENCE;
    while !is_new() {
        assert!(Instant::now() < deadline, "what is new does not come");
        let next = confirmed.load(Ordering::SeqCst) + 1;
        publish(&stream, &confirmed, |count| count >= next).await;
        sleep(Duration::from_millis(200)).await;
    }
    let last = confirmed.load(Ordering::SeqCst) - 1;
    until("the last one", || {
        new.lock().unwrap().last().unwrap().1 == last
    })
    .await;
    reader.abort();
    let new = only_numbers(&new.lock().unwrap());
    assert!(new[0] >= total);
    assert_eq!(new, (new[0]..=last).collect::<Vec<u64>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_before_and_after_the_leaders_node_is_killed() {
    let stream = new_stream().await;
    for part in 0..2 {
        for area in ["east", "west"] {
            by_hand("a publisher", |env| {
                let stream = stream.clone();
                async move {
                    let named = env.producer().name(&format!("{area}-{part}"));
                    let filtered = named.filter_value_extractor(move |_| area.to_owned());
                    let mut producer = timeout(STEP, filtered.build(&stream)).await??;
                    let batch = (0..BATCH).map(|n| message_of(BATCH * part + n, n + 1));
                    let sent = producer.batch_send_with_confirm(batch.collect());
                    let statuses = timeout(STEP, sent).await??;
                    let _ = timeout(STEP, producer.close()).await;
                    match statuses.iter().all(|status| status.confirmed()) {
                        true => Ok(()),
                        false => Err("not all were confirmed".into()),
                    }
                }
            })
            .await;
        }
        if part == 0 {
            kill_leader(stream.clone()).await;
        }
    }
    let mut western = by_hand("a consumer", |env| {
        let stream = stream.clone();
        async move {
            let wanted = FilterConfiguration::new(vec!["west".to_owned()], false);
            let consumer = env.consumer().offset(OffsetSpecification::First);
            let consumer = consumer.filter_input(Some(wanted.post_filter(|_| true)));
            Ok(timeout(STEP, consumer.build(&stream)).await??)
        }
    })
    .await;
    let mut found = Vec::new();
    while found.len() < 200 {
        let next = timeout(PATIENCE, western.next()).await.expect("a message");
        found.push(body(next.unwrap().unwrap().message()));
    }
    assert_eq!(found, numbers(0, 200));
    let more = timeout(Duration::from_millis(300), western.next()).await;
    assert!(more.is_err(), "what does not match is not sent");
}

/// How often each body came to the members of a group.
type Counts = Arc<Mutex<BTreeMap<String, usize>>>;

/// A consumer of a super stream of whose group one is active in each partition; begun anew by
/// hand where it has lost a node.
async fn join(name: &str, counts: &Counts) -> JoinHandle<()> {
    let mut member = by_hand("a member", |env| {
        let name = name.to_owned();
        async move {
            let consumer = env.super_stream_consumer().name("group");
            let consumer = consumer.offset(OffsetSpecification::Next);
            let mut consumer = consumer.enable_single_active_consumer(true);
            Ok(timeout(STEP, consumer.build(&name)).await??)
        }
    })
    .await;
    let counts = counts.clone();
    tokio::spawn(async move {
        // A partition whose node is lost is an error once, and the others go on.
        while let Some(delivery) = member.next().await {
            if let Ok(delivery) = delivery {
                let body = body(delivery.message());
                *counts.lock().unwrap().entry(body).or_default() += 1;
            }
        }
    })
}

/// Returns when every node knows who leads each partition: a member that finds one of them missing
/// leaves those behind that it has begun with, which read on for nobody.
async fn partitions_are_led(name: &str) {
    let deadline = Instant::now() + PATIENCE;
    for port in ports() {
        for partition in 0..3 {
            let partition = format!("{name}-{partition}");
            while let Err(error) = leader_at(port, &partition).await {
                assert!(Instant::now() < deadline, "{partition}: {error}");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Publishes until each of the messages that were published together goes to one member. This client
/// leaves it at what the broker tells it of a partition whose leader has changed, with which its
/// subscription there has ended: where messages come to nobody another member joins.
async fn shared(name: &str, counts: &Counts, members: &mut Vec<JoinHandle<()>>) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let bodies: Vec<String> = (0..90).map(|_| unique()).collect();
        by_hand("a publisher", |env| {
            let (name, bodies) = (name.to_owned(), bodies.clone());
            async move { publish_to_super(&env, &name, by_hash(), &bodies).await }
        })
        .await;
        let of = |body: &String| counts.lock().unwrap().get(body).copied().unwrap_or(0);
        let all = async {
            while !bodies.iter().all(|body| of(body) > 0) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        let _ = timeout(STEP, all).await;
        // A second active consumer would be given them at the same time.
        sleep(Duration::from_millis(300)).await;
        let to = |times: fn(usize) -> bool| bodies.iter().filter(|body| times(of(body))).count();
        if to(|times| times == 1) == bodies.len() {
            return;
        }
        let (lost, twice) = (to(|times| times == 0), to(|times| times > 1));
        assert!(
            Instant::now() < deadline,
            "of {} messages {lost} came to nobody, {twice} more than once",
            bodies.len()
        );
        members.push(join(name, counts).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_super_streams_group_has_one_reader_of_each_partition_when_a_leader_is_killed() {
    let name = unique();
    by_hand("a super stream", |env| {
        let name = name.clone();
        async move {
            let creating = env.stream_creator();
            timeout(STEP, creating.create_super_stream(&name, 3, None)).await??;
            Ok(())
        }
    })
    .await;
    partitions_are_led(&name).await;
    let counts = Counts::default();
    let mut members = vec![join(&name, &counts).await, join(&name, &counts).await];
    shared(&name, &counts, &mut members).await;
    kill_leader(format!("{name}-0")).await;
    partitions_are_led(&name).await;
    members.push(join(&name, &counts).await);
    members.push(join(&name, &counts).await);
    shared(&name, &counts, &mut members).await;
    members.iter().for_each(JoinHandle::abort);
}
