//! A whole node on real sockets and files, started and ended in this process.

use crate::client::{Client, PENDING_MAX, address, config, connect, scratch, start};
use crate::messages;
use leveret_amqp::{Method, RawTable, basic, client, confirm, connection, encode, queue};
use leveret_auth::Credentials;
use leveret_node::{ConnectionStatus, ConsumerStatus, Env as _};
use leveret_session::Settings;
use leveret_shell::disk::{DeviceModel, RealDisk};
use leveret_shell::node::{
    CONSUMERS_LISTED, LISTED_MAX, Node, Which, consumers_behind, each_consuming, each_portion,
    some_connections,
};
use leveret_types::ConnectionId;
use leveret_types::limits::{
    CLIENT_GONE_MS_MAX, FRAME_BYTES_MAX, IO_THREADS_MAX, SHARDS_MAX, UNFINISHED_NODE_BYTES_MAX,
    UNREAD_PROBE_MS,
};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

fn log_in(address: SocketAddr) -> Client<TcpStream> {
    Client::log_in(connect(address), "PLAIN", b"\0guest\0guest").expect("logged in")
}

/// Declares the queue `durable`, or looks whether it is there; gives how many messages are ready.
fn declare(client: &mut Client<TcpStream>, passive: bool) -> u32 {
    let declare = queue::Declare {
        queue: "durable",
        passive,
        durable: true,
        exclusive: false,
        auto_delete: false,
        nowait: false,
        arguments: RawTable::EMPTY,
    };
    let answer = client.call(1, &declare).expect("an answer");
    match Method::decode(&answer) {
        Ok(Method::QueueDeclareOk(ok)) => ok.message_count,
        other => panic!("{other:?}"),
    }
}

/// A frame that says nothing.
const HEARTBEAT: [u8; 8] = [8, 0, 0, 0, 0, 0, 0, 0xCE];
/// How long something may take that does not take long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A persistent message to the queue `durable`.
fn publish(body: &[u8]) -> Vec<u8> {
    messages::publish("durable", body)
}

#[test]
fn a_node_with_as_many_threads_and_shards_as_may_be_serves_a_client_of_each_thread() {
    let scratch = scratch("most-threads");
    let mut config = config(scratch.path(), None);
    (config.io_threads, config.shards) = (IO_THREADS_MAX, SHARDS_MAX as u16);
    let node = Node::start(config, RealDisk::new()).expect("the node starts");
    let mut clients = Vec::new();
    for _ in 0..=IO_THREADS_MAX {
        let mut client = log_in(address(&node, false));
        declare(&mut client, false);
        let select = confirm::Select { nowait: false };
        client.call(1, &select).expect("confirms");
        client.send_bytes(&publish(b"one")).expect("sent");
        let answer = client.answer().expect("a confirm");
        assert!(matches!(Method::decode(&answer), Ok(Method::BasicAck(_))));
        clients.push(client);
    }
    drop(clients);
    node.shut_down();
}

#[test]
fn what_was_confirmed_is_there_after_an_orderly_end() {
    let scratch = scratch("orderly");
    let node = start(scratch.path(), None);
    assert!(node.report.created);
    let mut client = log_in(address(&node, false));
    assert_eq!(declare(&mut client, false), 0);
    client
        .call(1, &confirm::Select { nowait: false })
        .expect("confirms");
    let three = [publish(b"one"), publish(b"two"), publish(&[3; 100_000])];
    client.send_bytes(&three.concat()).expect("sent");
    let mut confirmed = 0;
    while confirmed < 3 {
        let answer = client.answer().expect("confirms");
        match Method::decode(&answer) {
            Ok(Method::BasicAck(ack)) if ack.multiple => confirmed = ack.delivery_tag,
            Ok(Method::BasicAck(_)) => confirmed += 1,
            other => panic!("{other:?}"),
        }
    }
    client.close();
    node.shut_down();

    let node = start(scratch.path(), None);
    assert!(!node.report.created);
    assert!(node.report.clean, "{:?}", node.report);
    let mut client = log_in(address(&node, false));
    assert_eq!(declare(&mut client, true), 3);
    // A client that is still there is told, and hears nothing more.
    let ended = std::thread::spawn(move || node.shut_down());
    let answer = client.answer().expect("told");
    match Method::decode(&answer) {
        Ok(Method::ConnectionClose(close)) => assert_eq!(close.reply_code, 320),
        other => panic!("{other:?}"),
    }
    client
        .send(0, &leveret_amqp::connection::CloseOk {})
        .expect("answered");
    ended.join().expect("ended in order");
}

/// What an orderly end may copy in the two seconds that it may take; the rest stays in the log.
#[test]
fn an_orderly_end_copies_what_waits_for_seconds_at_most_and_leaves_the_rest_in_the_log() {
    const BODIES: u32 = 200;
    const BODY_BYTES: usize = 100_000;
    const FAST: DeviceModel = DeviceModel {
        seek_us: 0,
        bytes_per_second: 10_000_000_000,
        sync_us: 0,
    };
    const SLOW: DeviceModel = DeviceModel {
        bytes_per_second: 2_000_000,
        ..FAST
    };
    let scratch = scratch("slow-end");
    let disk = RealDisk::with_model(FAST);
    let mut config = config(scratch.path(), None);
    // All of it waits in one file, and has to be read to be copied.
    config.wal_file_bytes = 2 * u64::from(BODIES) * BODY_BYTES as u64;
    config.cache_bytes = 64 * 1024;
    let node = Node::start(config, disk.clone()).expect("it starts");
    let mut client = log_in(address(&node, false));
    declare(&mut client, false);
    let select = confirm::Select { nowait: false };
    client.call(1, &select).expect("confirms");
    let message = publish(&[7; BODY_BYTES]);
    for _ in 0..BODIES {
        client.send_bytes(&message).expect("sent");
        let answer = client.answer().expect("a confirm");
        assert!(matches!(Method::decode(&answer), Ok(Method::BasicAck(_))));
    }
    client.close();
    let before = disk.device_read_bytes();
    disk.set_model(SLOW);
    node.shut_down();
    // However slow the machine is: less is copied then.
    let copied = disk.device_read_bytes() - before;
    assert!(copied > 0, "nothing was to be copied");
    assert!(copied <= 2 * SLOW.bytes_per_second, "{copied} bytes");

    let node = start(scratch.path(), None);
    let mut client = log_in(address(&node, false));
    assert_eq!(declare(&mut client, true), BODIES);
    client.close();
    node.shut_down();
}

/// A node whose orderly end would wait for clients much longer than a test has patience.
fn start_patient(folder: &Path) -> Node {
    let mut config = config(folder, None);
    config.drain = Duration::from_secs(600);
    Node::start(config, RealDisk::new()).expect("it starts")
}

/// Ends a node in order; a word comes when that is done.
fn end(node: Node) -> Receiver<()> {
    let (done, ended) = channel();
    std::thread::spawn(move || {
        node.shut_down();
        done.send(())
    });
    ended
}

#[test]
fn an_orderly_end_does_not_wait_for_who_never_says_that_it_has_heard_of_it() {
    let scratch = scratch("mute");
    let node = start_patient(scratch.path());
    let mute = log_in(address(&node, false));
    let unknown = connect(address(&node, false));
    let mut talking = log_in(address(&node, false));
    let ended = end(node);
    // One of them goes on as if nothing had happened, until its socket is gone.
    let beats = std::thread::spawn(move || {
        while talking.send_bytes(&HEARTBEAT).is_ok() {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    ended.recv_timeout(PATIENCE).expect("it has ended");
    beats.join().expect("its socket is gone");
    drop((mute, unknown));
}

/// Takes about a megabyte a second.
struct Slow(TcpStream);

impl Read for Slow {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        std::thread::sleep(Duration::from_millis(4));
        self.0.read(buffer)
    }
}

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

#[test]
fn an_orderly_end_waits_for_who_still_takes_what_was_sent_to_it() {
    let scratch = scratch("slow");
    let node = start_patient(scratch.path());
    let mut publisher = log_in(address(&node, false));
    declare(&mut publisher, false);
    let message = publish(&[7; 100_000]);
    publisher.send_bytes(&message.repeat(300)).expect("sent");
    while declare(&mut publisher, true) < 300 {}
    publisher.close();
    let socket = Slow(connect(address(&node, false)));
    let mut consumer = Client::log_in(socket, "PLAIN", b"\0guest\0guest").expect("logged in");
    let consume = basic::Consume {
        queue: "durable",
        consumer_tag: "slow",
        no_local: false,
        no_ack: true,
        exclusive: false,
        nowait: false,
        arguments: RawTable::EMPTY,
    };
    consumer.call(1, &consume).expect("consuming");
    let ended = end(node);
    // It takes several times as long as is waited for who takes nothing.
    loop {
        let answer = consumer.answer().expect("all that was sent");
        match Method::decode(&answer) {
            Ok(Method::BasicDeliver(_)) => {}
            Ok(Method::ConnectionClose(close)) => break assert_eq!(close.reply_code, 320),
            other => panic!("{other:?}"),
        }
    }
    let heard = connection::CloseOk {};
    consumer.send(0, &heard).expect("answered");
    ended.recv_timeout(PATIENCE).expect("it has ended");
}

/// Without a user that an operator chose for it, `ANONYMOUS` is refused even where it is offered.
#[test]
fn who_does_not_say_who_it_is_is_whom_the_operator_chose() {
    let folder = scratch("anonymous");
    for (chosen, enters) in [
        (None, false),
        (Some(("guest", "guest")), true),
        (Some(("guest", "wrong")), false),
        (Some(("nobody", "guest")), false),
    ] {
        let mut config = config(folder.path(), None);
        config.settings.session = Arc::new(Settings {
            mechanisms: "PLAIN ANONYMOUS".to_owned(),
            ..Settings::default()
        });
        config.settings.anonymous = chosen.map(|(user, password)| Credentials {
            user: user.to_owned(),
            password: Some(password.into()),
        });
        let node = Node::start(config, RealDisk::new()).expect("it starts");
        let socket = connect(address(&node, false));
        let client = Client::log_in(socket, "ANONYMOUS", b"who@example.org");
        assert_eq!(client.is_ok(), enters, "{chosen:?}");
        if let Ok(client) = client {
            client.close();
        }
        node.shut_down();
    }
}

#[test]
fn who_goes_with_its_last_words_is_gone() {
    let scratch = scratch("last-words");
    let node = start(scratch.path(), None);
    let at = address(&node, false);
    let clients: Vec<_> = (0..100).map(|_| log_in(at)).collect();
    assert_eq!(node.broker.connection_count(), clients.len());
    // While the node is at work on one of them, both have come of the next.
    for mut client in clients {
        client.send_bytes(&publish(b"bye")).expect("sent");
    }
    await_none(&node);
    node.shut_down();
}

/// Waits until the node has no connections.
fn await_none(node: &Node) {
    await_none_for(node, 10_000);
}

/// The same, for so many milliseconds.
fn await_none_for(node: &Node, patience_ms: u64) {
    let mut waited_ms = 0;
    while node.broker.connection_count() > 0 {
        std::thread::sleep(std::time::Duration::from_millis(10));
        waited_ms += 10;
        assert!(waited_ms < patience_ms, "some have not been seen to go");
    }
}

#[test]
fn who_still_writes_when_the_connection_is_closed_is_heard_out() {
    let scratch = scratch("late-words");
    let node = start(scratch.path(), None);
    let at = address(&node, false);
    // Far more than the kernel takes for a node that does not read.
    let late = publish(&[7; 100_000]).repeat(200);

    let mut client = log_in(at);
    let mut bytes = Vec::new();
    let close = connection::Close {
        reply_code: 200,
        reply_text: "bye",
        class_id: 0,
        method_id: 0,
    };
    encode::method(&mut bytes, 0, &close);
    bytes.extend(&late);
    client.send_bytes(&bytes).expect("read to the end");
    let answer = client.answer().expect("told");
    assert!(matches!(
        Method::decode(&answer),
        Ok(Method::ConnectionCloseOk(_))
    ));
    client.send_bytes(&late).expect("read on");
    drop(client);
    await_none(&node);

    // The same where the broker has closed it; here the client may wait for the broker to go first.
    let mut client = log_in(at);
    let immediate = basic::Publish {
        exchange: b"",
        routing_key: b"durable",
        mandatory: false,
        immediate: true,
    };
    let answer = client.call(1, &immediate).expect("told");
    assert!(matches!(
        Method::decode(&answer),
        Ok(Method::ConnectionClose(_))
    ));
    let mut bytes = Vec::new();
    encode::method(&mut bytes, 0, &connection::CloseOk {});
    bytes.extend(&late);
    client.send_bytes(&bytes).expect("read to the end");
    let end = client.answer().expect_err("nothing more is said");
    assert_eq!(end.kind(), ErrorKind::UnexpectedEof);
    client.send_bytes(&late).expect("read on");
    drop(client);
    await_none(&node);
    node.shut_down();
}

#[test]
fn a_silent_client_is_dropped_though_it_does_not_take_what_it_is_sent() {
    let scratch = scratch("stuck");
    let node = start(scratch.path(), None);
    let at = address(&node, false);
    let mut client = log_in(at);
    declare(&mut client, false);
    // More than sockets and the connection's outbox hold.
    client
        .send_bytes(&publish(&[7; 100_000]).repeat(240))
        .expect("sent");
    while declare(&mut client, true) < 240 {}
    client.close();
    await_none(&node);

    let mut stuck =
        Client::log_in_beating(connect(at), "PLAIN", b"\0guest\0guest", 1).expect("logged in");
    let consume = basic::Consume {
        queue: "durable",
        consumer_tag: "t",
        no_local: false,
        no_ack: false,
        exclusive: false,
        nowait: false,
        arguments: RawTable::EMPTY,
    };
    stuck.send(1, &consume).expect("sent");
    await_none(&node);
    let mut client = log_in(at);
    assert_eq!(declare(&mut client, true), 240);
    drop(stuck);
    node.shut_down();
}

#[test]
fn a_client_that_an_alarm_holds_back_is_seen_to_go() {
    let scratch = scratch("gone");
    let mut config = config(scratch.path(), None);
    config.watermarks.memory_bytes = 1;
    let node = Node::start(config, RealDisk::new()).expect("the node starts");
    let mut client = log_in(address(&node, false));
    client.send_bytes(&publish(b"held")).expect("sent");
    let told = client.answer().expect("told");
    assert!(matches!(
        Method::decode(&told),
        Ok(Method::ConnectionBlocked(_))
    ));
    client.send_bytes(&publish(b"held")).expect("sent");
    drop(client);
    await_none(&node);
    node.shut_down();
}

/// The end of a client that has sent more than the node's socket takes is behind what waits at the
/// client, which its system keeps for as long as it can.
#[test]
fn a_client_that_an_alarm_holds_back_is_seen_to_go_though_much_is_unread() {
    let scratch = scratch("gone-behind-much");
    let mut config = config(scratch.path(), None);
    config.watermarks.memory_bytes = 1;
    let node = Node::start(config, RealDisk::new()).expect("the node starts");
    let socket = connect(address(&node, false));
    let mut writes = socket.try_clone().expect("the same socket");
    let mut client = Client::log_in(socket, "PLAIN", b"\0guest\0guest").expect("logged in");
    client.send_bytes(&publish(b"held")).expect("sent");
    let told = client.answer().expect("told");
    assert!(matches!(
        Method::decode(&told),
        Ok(Method::ConnectionBlocked(_))
    ));
    writes.set_nonblocking(true).expect("an option");
    let (much, mut refusals) = (publish(&[7; 100_000]), 0);
    // A moment after the first refusal the systems have moved on what they could.
    while refusals < 50 {
        match writes.write(&much) {
            Ok(_) => refusals = 0,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                refusals += 1;
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            Err(error) => panic!("{error}"),
        }
    }
    drop((client, writes));
    await_none_for(&node, UNREAD_PROBE_MS + CLIENT_GONE_MS_MAX + 20_000);
    node.shut_down();
}

/// Declares a queue of the connection's own; false if another connection has it.
fn declare_own(client: &mut Client<TcpStream>) -> bool {
    let declare = queue::Declare {
        queue: "own",
        passive: false,
        durable: false,
        exclusive: true,
        auto_delete: false,
        nowait: false,
        arguments: RawTable::EMPTY,
    };
    let answer = client.call(1, &declare).expect("an answer");
    match Method::decode(&answer) {
        Ok(Method::QueueDeclareOk(_)) => true,
        Ok(Method::ChannelClose(close)) if close.reply_code == 405 => false,
        other => panic!("{other:?}"),
    }
}

/// One that says that it sends nothing more, and goes on reading, has its connection ended as well.
#[test]
fn a_client_that_an_alarm_holds_back_and_that_ends_its_sending_alone_is_seen_to() {
    let scratch = scratch("half-closed");
    let mut config = config(scratch.path(), None);
    config.watermarks.memory_bytes = 1;
    let node = Node::start(config, RealDisk::new()).expect("the node starts");
    let socket = connect(address(&node, false));
    let sending = socket.try_clone().expect("the same socket");
    let mut client = Client::log_in(socket, "PLAIN", b"\0guest\0guest").expect("logged in");
    assert!(declare_own(&mut client));
    client.send_bytes(&publish(b"held")).expect("sent");
    let told = client.answer().expect("told");
    assert!(matches!(
        Method::decode(&told),
        Ok(Method::ConnectionBlocked(_))
    ));
    client.send_bytes(&publish(b"held")).expect("sent");
    assert!(!declare_own(&mut log_in(address(&node, false))));
    sending.shutdown(Shutdown::Write).expect("half of it");
    let end = client.answer().expect_err("its connection is ended");
    let ends = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset];
    assert!(ends.contains(&end.kind()), "{end}");
    let again = (0..1_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        declare_own(&mut log_in(address(&node, false)))
    });
    assert!(again, "its queue is gone with it");
    await_none(&node);
    node.shut_down();
}

#[test]
fn a_client_that_takes_nothing_and_ends_its_sending_is_seen_to() {
    let scratch = scratch("half-closed-stuck");
    let node = start(scratch.path(), None);
    let at = address(&node, false);
    let mut client = log_in(at);
    declare(&mut client, false);
    // More than sockets and the connection's outbox hold.
    client
        .send_bytes(&publish(&[7; 100_000]).repeat(240))
        .expect("sent");
    while declare(&mut client, true) < 240 {}
    let socket = connect(at);
    let sending = socket.try_clone().expect("the same socket");
    let mut stuck = Client::log_in(socket, "PLAIN", b"\0guest\0guest").expect("logged in");
    let consume = basic::Consume {
        queue: "durable",
        consumer_tag: "t",
        no_local: false,
        no_ack: false,
        exclusive: false,
        nowait: false,
        arguments: RawTable::EMPTY,
    };
    stuck.send(1, &consume).expect("sent");
    // Until no more of it goes anywhere.
    let (mut ready, mut looks) = (240, 0);
    while looks < 20 {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let now_ready = declare(&mut client, true);
        looks = match now_ready == ready && ready < 240 {
            true => looks + 1,
            false => 0,
        };
        ready = now_ready;
    }
    sending.shutdown(Shutdown::Write).expect("half of it");
    let mut waited_ms = 0;
    while declare(&mut client, true) < 240 {
        std::thread::sleep(std::time::Duration::from_millis(10));
        waited_ms += 10;
        assert!(
            waited_ms < CLIENT_GONE_MS_MAX + 20_000,
            "it holds what it has"
        );
    }
    client.close();
    await_none(&node);
    drop(stuck);
    node.shut_down();
}

/// What it sent before is carried out to the last of it, whether or not it closes the connection
/// first.
#[test]
fn a_client_that_ends_its_sending_behind_much_has_all_of_it_carried_out() {
    const MESSAGES: u32 = 200;
    let scratch = scratch("half-closed-behind-much");
    let node = start(scratch.path(), None);
    let at = address(&node, false);
    let mut looks = log_in(at);
    declare(&mut looks, false);
    for (times, closes) in [(1, true), (2, false)] {
        let socket = connect(at);
        let sending = socket.try_clone().expect("the same socket");
        let mut client = Client::log_in(socket, "PLAIN", b"\0guest\0guest").expect("logged in");
        let mut bytes = publish(&[7; 100_000]).repeat(MESSAGES as usize);
        let close = connection::Close {
            reply_code: 200,
            reply_text: "bye",
            class_id: 0,
            method_id: 0,
        };
        if closes {
            encode::method(&mut bytes, 0, &close);
        }
        client.send_bytes(&bytes).expect("read to the end");
        sending.shutdown(Shutdown::Write).expect("half of it");
        if closes {
            let answer = client.answer().expect("told");
            assert!(matches!(
                Method::decode(&answer),
                Ok(Method::ConnectionCloseOk(_))
            ));
        }
        let end = client.answer().expect_err("nothing more is said");
        assert_eq!(end.kind(), ErrorKind::UnexpectedEof);
        // What it left is in its queue once all others have seen it go.
        let mut waited_ms = 0;
        while declare(&mut looks, true) < times * MESSAGES {
            std::thread::sleep(std::time::Duration::from_millis(10));
            waited_ms += 10;
            assert!(waited_ms < 20_000, "closes: {closes}");
        }
    }
    looks.close();
    node.shut_down();
}

/// Where a publish waits for room among unfinished ones, its client's end is seen at once if it has
/// not sent all of it; one that has is waited for, and that is carried out.
#[test]
fn a_client_that_goes_is_waited_for_if_its_publish_that_waits_for_room_can_become_whole() {
    let scratch = scratch("gone-waiting");
    let node = start(scratch.path(), None);
    let at = address(&node, false);
    let mut looks = log_in(at);
    declare(&mut looks, false);
    let unfinished = &node.broker.settings().session.unfinished;
    let mut all = unfinished.reserve("another", UNFINISHED_NODE_BYTES_MAX);
    assert!(all.grow(UNFINISHED_NODE_BYTES_MAX, 0));
    let ends_behind = |bytes: &[u8]| {
        let socket = connect(at);
        let sending = socket.try_clone().expect("the same socket");
        let mut client = Client::log_in(socket, "PLAIN", b"\0guest\0guest").expect("logged in");
        client.send_bytes(bytes).expect("sent");
        sending.shutdown(Shutdown::Write).expect("half of it");
        client
    };
    let method = basic::Publish {
        exchange: b"",
        routing_key: b"durable",
        mandatory: false,
        immediate: false,
    };
    // In several frames: one that comes whole in one read needs no room.
    let (mut whole, frame_max) = (Vec::new(), FRAME_BYTES_MAX);
    client::publish(&mut whole, 1, &method, &[0, 0], &[7; 150_000], frame_max);
    let _kept = ends_behind(&whole);
    let mut cut = ends_behind(&whole[..whole.len() - 10_000]);
    let end = cut.answer().expect_err("its connection is ended");
    let ends = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset];
    assert!(ends.contains(&end.kind()), "{end}");
    assert_eq!(declare(&mut looks, true), 0, "it waits");
    drop(all);
    let mut waited_ms = 0;
    while declare(&mut looks, true) == 0 {
        std::thread::sleep(Duration::from_millis(10));
        waited_ms += 10;
        assert!(waited_ms < 20_000, "it went with the other one");
    }
    looks.close();
    node.shut_down();
}

/// Whether the node keeps a connection that says nothing yet.
fn is_kept(socket: &mut TcpStream) -> bool {
    socket.set_nonblocking(true).expect("an option");
    let mut byte = [0];
    let kept = !matches!(socket.read(&mut byte), Ok(0))
        && !matches!(socket.read(&mut byte), Err(e) if e.kind() == ErrorKind::ConnectionReset);
    socket.set_nonblocking(false).expect("an option");
    kept
}

#[test]
fn clients_that_do_not_log_in_are_bounded_and_those_who_have_do_not_count() {
    let scratch = scratch("guests");
    let node = start(scratch.path(), None);
    let at = address(&node, false);
    // Connections are accepted in their order: one that is served tells that those before it are.
    let logged_in = log_in(at);
    let mut silent: Vec<_> = (0..PENDING_MAX).map(|_| connect(at)).collect();
    let mut refused = connect(at);
    let ended = refused.read(&mut [0]);
    assert!(
        matches!(&ended, Ok(0))
            || matches!(&ended, Err(e) if e.kind() == ErrorKind::ConnectionReset),
        "{ended:?}"
    );
    assert!(silent.iter_mut().all(is_kept));
    drop(silent);
    // The node has their places back once it has seen them go.
    let again = (0..1_000).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        Client::log_in(connect(at), "PLAIN", b"\0guest\0guest").ok()
    });
    again.expect("a place").close();
    logged_in.close();
    node.shut_down();
}

#[test]
fn clients_that_come_together_are_all_let_in_some_in_each_turn() {
    let scratch = scratch("together");
    let node = start(scratch.path(), None);
    let at = address(&node, false);
    let mut clients: Vec<_> = (0..PENDING_MAX).map(|_| connect(at)).collect();
    for client in &mut clients {
        client.write_all(b"AMQP\0\0\x09\x01").expect("a header");
        client
            .read_exact(&mut [0])
            .expect("the start of a handshake");
    }
    node.shut_down();
}

#[test]
fn who_says_nothing_has_little_time() {
    let scratch = scratch("says-nothing");
    let node = start(scratch.path(), None);
    let at = address(&node, false);
    // What says something has the time of a whole handshake, though it came before.
    let mut slow = connect(at);
    slow.write_all(b"A").expect("a byte");
    let mut silent = connect(at);
    assert_eq!(silent.read(&mut [0]).expect("its end"), 0);
    assert!(is_kept(&mut slow));
    node.shut_down();
}

#[test]
fn connections_are_listed_a_few_in_each_turn_and_some_by_their_ids() {
    let scratch = scratch("listed");
    let node = start(scratch.path(), None);
    let many = 3 * LISTED_MAX;
    let clients: Vec<_> = (0..many).map(|_| log_in(address(&node, false))).collect();
    let mut portions = Vec::new();
    each_portion(&node.broker, &mut |portion| portions.push(portion));
    assert!(portions.iter().all(|portion| portion.len() <= LISTED_MAX));
    let ids: BTreeSet<ConnectionId> = portions.iter().flatten().map(|c| c.id).collect();
    assert_eq!(ids.len(), many, "each is told of once");
    let some: Vec<ConnectionId> = ids.iter().copied().step_by(7).collect();
    let gone = ConnectionId(some[0].0 + (1 << 40));
    let asked: Arc<[ConnectionId]> = some.iter().copied().chain([gone]).collect();
    let told = some_connections(&node.broker, &Which::These(asked));
    let told: BTreeSet<ConnectionId> = told.iter().map(|c| c.id).collect();
    assert_eq!(told.into_iter().collect::<Vec<_>>(), some);
    drop(clients);
    node.shut_down();
}

/// What a connection's status shows, and all that is behind that.
fn all_consumers(node: &Node, mut status: ConnectionStatus) -> Vec<ConsumerStatus> {
    let mut all = Vec::new();
    while !status.consumers.is_empty() {
        let known = std::mem::take(&mut status.consumers);
        assert!(known.len() <= CONSUMERS_LISTED, "{}", known.len());
        status.consumers = consumers_behind(&node.broker, status.id, &known);
        all.extend(known);
    }
    all
}

#[test]
fn consumers_of_one_connection_are_listed_a_few_in_each_turn_and_some_by_their_ids() {
    let scratch = scratch("consumers-listed");
    let node = start(scratch.path(), None);
    let mut client = log_in(address(&node, false));
    declare(&mut client, false);
    for many in [
        1,
        CONSUMERS_LISTED - 1,
        CONSUMERS_LISTED,
        2 * CONSUMERS_LISTED + 1,
    ] {
        let mut known = 0;
        each_consuming_of(&node, &mut |status| {
            known += all_consumers(&node, status).len()
        });
        for number in known..many {
            let consume = basic::Consume {
                queue: "durable",
                consumer_tag: &format!("c{number}"),
                no_local: false,
                no_ack: false,
                exclusive: false,
                nowait: false,
                arguments: RawTable::EMPTY,
            };
            client.call(1, &consume).expect("an answer");
        }
        let mut found = Vec::new();
        each_consuming_of(&node, &mut |status| {
            found.extend(all_consumers(&node, status))
        });
        let tags: BTreeSet<&str> = found.iter().map(|consumer| &*consumer.tag).collect();
        assert_eq!((found.len(), tags.len()), (many, many));
    }
    let mut statuses = Vec::new();
    each_consuming_of(&node, &mut |status| statuses.push(status));
    let [status] = &statuses[..] else {
        panic!("{} connections consume", statuses.len());
    };
    let named = some_connections(&node.broker, &Which::Named(status.name.as_str().into()));
    assert_eq!(
        named.iter().map(|of| of.id).collect::<Vec<_>>(),
        [status.id]
    );
    assert!(named[0].consumers.is_empty());
    let asked = [7, 3].map(|at| (status.id, status.consumers[at].id));
    let told = some_connections(&node.broker, &Which::Consumers(asked.into()));
    let told: Vec<_> = told.iter().flat_map(|of| &of.consumers).collect();
    assert_eq!(
        told.iter().map(|of| of.id).collect::<Vec<_>>(),
        asked.map(|(_, id)| id)
    );
    client.close();
    let is_there = || {
        let named = Which::Named(status.name.as_str().into());
        !some_connections(&node.broker, &named).is_empty()
    };
    while is_there() {
        std::thread::yield_now();
    }
    node.shut_down();
}

/// Those that consume from whatever queue the first connection consumes from.
fn each_consuming_of(node: &Node, see: &mut dyn FnMut(ConnectionStatus)) {
    let mut queue = None;
    each_portion(&node.broker, &mut |portion| {
        let first = portion.iter().flat_map(|of| of.consumers.first()).next();
        queue = queue.or(first.map(|consumer| consumer.queue));
    });
    let Some(queue) = queue else {
        return;
    };
    each_consuming(&node.broker, queue, &mut |portion| {
        portion.into_iter().for_each(&mut *see);
    });
}

#[test]
fn a_node_has_as_many_connections_as_it_may() {
    const CONNECTIONS_MAX: usize = 3;
    let scratch = scratch("full");
    let mut config = config(scratch.path(), None);
    config.admission.connections = CONNECTIONS_MAX;
    let node = Node::start(config, RealDisk::new()).expect("the node starts");
    let at = address(&node, false);
    let mut inside: Vec<_> = (0..CONNECTIONS_MAX).map(|_| log_in(at)).collect();
    let ended = connect(at).read(&mut [0]);
    assert!(
        matches!(&ended, Ok(0))
            || matches!(&ended, Err(e) if e.kind() == ErrorKind::ConnectionReset),
        "{ended:?}"
    );
    for client in &mut inside {
        declare(client, false);
    }
    inside.pop().expect("a client").close();
    // The node has the place back once it has seen the client go.
    let again = (0..1_000).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        Client::log_in(connect(at), "PLAIN", b"\0guest\0guest").ok()
    });
    again.expect("a place").close();
    for client in inside {
        client.close();
    }
    node.shut_down();
}
