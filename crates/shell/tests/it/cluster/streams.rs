//! Streams that live on one node of a cluster, used by clients of another one.

use super::{
    AmqpClient, all_vote_and_are_up, declare, eventually, free_addresses, log_in, member, publish,
    put_vhost, select, start, start_all, three,
};
use crate::client::scratch;
use crate::stream_client::{OK, RESPONSE, StreamClient, text};
use leveret_amqp::{Method, basic};
use leveret_cluster::Env;
use leveret_cluster::transfer;
use leveret_metadata::Command;
use leveret_shell::node::{Node, NodeConfig};

const NOT_AVAILABLE: u16 = 6;
const NO_OFFSET: u16 = 19;
const METADATA_UPDATE: u16 = 0x10;

fn open(node: &Node) -> StreamClient {
    StreamClient::open(node.stream_listening[0].0, "guest").expect("open")
}

/// Waits until the clients of all nodes are told that the same node leads a stream; which.
fn leader_of(clients: &mut [StreamClient], nodes: &[Node], stream: &str) -> usize {
    let mut leader = None;
    eventually("all nodes name the same leader", || {
        let ports = clients.iter_mut().map(|client| leader_port(client, stream));
        let ports: Vec<Option<u16>> = ports.collect();
        let led = |node: &Node| Some(node.stream_listening[0].0.port()) == ports[0];
        leader = nodes.iter().position(led);
        ports.iter().all(|port| *port == ports[0]) && leader.is_some()
    });
    leader.expect("one of them")
}

/// The port of a stream's leader as `Metadata` says it.
fn leader_port(client: &mut StreamClient, stream: &str) -> Option<u16> {
    let one = 1_u32.to_be_bytes();
    client.send(0x0f, &[&7_u32.to_be_bytes(), &one, &text(stream)]);
    let (key, body) = client.heard();
    assert_eq!(key, 0x0f | RESPONSE);
    let mut rest = &body[4..];
    let mut take = |count: usize| {
        let (taken, behind) = rest.split_at(count);
        rest = behind;
        taken.to_vec()
    };
    let short = |bytes: Vec<u8>| u16::from_be_bytes([bytes[0], bytes[1]]);
    let long = |bytes: Vec<u8>| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let mut ports = Vec::new();
    for _ in 0..long(take(4)) {
        let number = short(take(2));
        let host = usize::from(short(take(2)));
        take(host);
        ports.push((number, long(take(4))));
    }
    assert_eq!(long(take(4)), 1, "one stream");
    let name = usize::from(short(take(2)));
    take(name);
    if short(take(2)) != OK {
        return None;
    }
    let leader = short(take(2));
    let port = ports.iter().find(|(number, _)| *number == leader)?.1;
    u16::try_from(port).ok()
}

#[test]
fn a_stream_is_published_to_read_and_deleted_from_every_node() {
    let scratch = scratch("cluster-streams");
    let nodes = three(scratch.path(), free_addresses());
    let mut clients: Vec<StreamClient> = nodes.iter().map(open).collect();
    assert_eq!(clients[0].create("s"), OK);
    leader_of(&mut clients, &nodes, "s");
    for (first, client) in [1, 4, 7].into_iter().zip(&mut clients) {
        eventually("it is led", || client.declare_publisher("s") == OK);
        let bodies: Vec<String> = (first..first + 3).map(|n| n.to_string()).collect();
        let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
        client.publish(first, &bodies);
    }
    let all: Vec<String> = (1..10).map(|n| n.to_string()).collect();
    for client in &mut clients {
        assert_eq!(client.read("s", 9), all);
    }
    let stats = clients[2].ask(0x1c, &[&text("s")]);
    assert_eq!(stats.0, OK);
    // Who uses it hears that it has gone, wherever it is.
    assert_eq!(clients[1].ask(0x0e, &[&text("s")]).0, OK);
    for client in &mut clients {
        let (key, body) = client.heard();
        assert_eq!((key, &body[..2]), (0x10, &NOT_AVAILABLE.to_be_bytes()[..]));
    }
    drop(clients);
    nodes.into_iter().for_each(Node::shut_down);
}

/// The partitions of a super stream, or the code that says why not.
fn partitions(client: &mut StreamClient, super_stream: &str) -> (u16, usize) {
    let (code, body) = client.ask(0x19, &[&text(super_stream)]);
    let count = body
        .first_chunk()
        .map_or(0, |bytes| u32::from_be_bytes(*bytes));
    (code, count as usize)
}

/// Makes a super stream whose partitions have these names and keys.
fn make_super_stream(client: &mut StreamClient, name: &str, keys: &[&str]) -> u16 {
    let count = (keys.len() as u32).to_be_bytes();
    let names = keys.iter().map(|key| text(&format!("{name}-{key}")));
    let names: Vec<u8> = names.flatten().collect();
    let keys: Vec<u8> = keys.iter().flat_map(|key| text(key)).collect();
    let none = 0_u32.to_be_bytes();
    let parts: [&[u8]; 6] = [&text(name), &count, &names, &count, &keys, &none];
    client.ask(0x1d, &parts).0
}

fn permit_first_user(node: &Node, vhost: &str) {
    let [configure, write, read] = [(); 3].map(|()| ".*".to_owned());
    let command = Command::PermissionSet {
        vhost: vhost.to_owned(),
        user: "guest".to_owned(),
        configure,
        write,
        read,
    };
    let permitted = node.broker.execute_in_cluster(&command);
    permitted.expect("a majority is up");
}

#[test]
fn what_one_node_has_made_is_known_at_every_other_one_at_once() {
    const ROUNDS: usize = 63;
    let scratch = scratch("cluster-streams-at-once");
    let nodes = three(scratch.path(), free_addresses());
    let mut clients: Vec<StreamClient> = nodes.iter().map(open).collect();
    for round in 0..ROUNDS {
        let (maker, other) = (round % 3, (round + 1 + round / 3 % 2) % 3);
        let third = 3 - maker - other;
        let name = format!("s{round}");
        assert_eq!(clients[maker].create(&name), OK);
        match round % 7 {
            0 => assert!(leader_port(&mut clients[other], &name).is_some(), "{name}"),
            1 => assert_eq!(clients[other].declare_publisher(&name), OK, "{name}"),
            2 => assert_eq!(clients[other].subscribe(&name), OK, "{name}"),
            3 => {
                let offset = clients[other].ask(0x0b, &[&text("group"), &text(&name)]);
                assert_eq!(offset.0, NO_OFFSET, "{name}");
            }
            4 => {
                let sequence = clients[other].ask(0x05, &[&text("publisher"), &text(&name)]);
                assert_eq!(sequence, (OK, vec![0; 8]), "{name}");
            }
            5 => assert_eq!(clients[other].ask(0x1c, &[&text(&name)]).0, OK, "{name}"),
            _ => assert_eq!(clients[other].ask(0x0e, &[&text(&name)]).0, OK, "{name}"),
        }
        if round % 7 < 3 {
            clients[other] = open(&nodes[other]);
        }
        let name = format!("super{round}");
        assert_eq!(
            make_super_stream(&mut clients[maker], &name, &["a", "b"]),
            OK
        );
        assert_eq!(partitions(&mut clients[other], &name), (OK, 2), "{name}");
        assert_eq!(clients[other].ask(0x1e, &[&text(&name)]).0, OK, "{name}");
        let again = make_super_stream(&mut clients[third], &name, &["a", "b"]);
        assert_eq!(again, OK, "{name}");
        put_vhost(&nodes[maker], &name);
        permit_first_user(&nodes[maker], &name);
        let address = nodes[other].stream_listening[0].0;
        let opened = StreamClient::open_as(address, "guest", "guest", &name);
        assert!(opened.is_ok(), "{name}: {:?}", opened.err());
    }
    drop(clients);
    nodes.into_iter().for_each(Node::shut_down);
}

#[test]
fn who_deletes_a_super_stream_without_a_majority_keeps_nobody_else_waiting() {
    let scratch = scratch("cluster-streams-minority");
    // One thread serves all connections of a node.
    let addresses = free_addresses::<3>();
    let configs = addresses.map(|own| NodeConfig {
        io_threads: 1,
        ..member(scratch.path(), own, &addresses, b"secret")
    });
    let mut nodes = start_all(configs.into());
    all_vote_and_are_up(&nodes);
    let left = nodes.remove(0);
    let mut client = open(&left);
    assert_eq!(make_super_stream(&mut client, "super", &["a", "b"]), OK);
    let mut other = open(&left);
    nodes.into_iter().for_each(Node::shut_down);
    eventually("it is alone", || left.broker.peers().up().is_empty());
    client.send(0x1e, &[&7_u32.to_be_bytes(), &text("super")]);
    assert_eq!(partitions(&mut other, "super"), (OK, 2));
    client.0.set_nonblocking(true).expect("a socket");
    let unanswered = client
        .0
        .peek(&mut [0])
        .expect_err("the cluster has no majority");
    assert_eq!(unanswered.kind(), std::io::ErrorKind::WouldBlock);
    drop((client, other));
    left.shut_down();
}

#[test]
fn of_batches_with_filter_values_a_client_of_another_node_gets_those_that_it_asked_for() {
    let scratch = scratch("cluster-streams-filtered");
    let nodes = three(scratch.path(), free_addresses());
    let mut clients: Vec<StreamClient> = nodes.iter().map(open).collect();
    let one = [&text("initial-cluster-size")[..], &text("1")].concat();
    let created = clients[0].ask(0x0d, &[&text("s"), &1_u32.to_be_bytes(), &one]);
    assert_eq!(created.0, OK);
    leader_of(&mut clients, &nodes, "s");
    let [red, blue] = ["red", "blue"].map(|of| vec![of.to_owned(), format!("{of} again")]);
    for (frame, client) in (0..).zip(&mut clients) {
        eventually("it is led", || client.declare_publisher("s") == OK);
        let batches = [(Some("red"), &red[..]), (Some("blue"), &blue)];
        client.publish_batches(1 + 2 * frame, &batches);
    }
    for client in &mut clients {
        let wanted = [2, 6, 10].map(|offset| (offset, blue.clone()));
        assert_eq!(client.read_batches("s", &["blue"], 3), wanted);
    }
    drop(clients);
    nodes.into_iter().for_each(Node::shut_down);
}

#[test]
fn a_client_hears_that_a_stream_is_not_available_when_its_only_node_has_gone() {
    let scratch = scratch("cluster-streams-lost");
    let mut nodes = three(scratch.path(), free_addresses());
    let mut clients: Vec<StreamClient> = nodes.iter().map(open).collect();
    let one = [&text("initial-cluster-size")[..], &text("1")].concat();
    let created = clients[0].ask(0x0d, &[&text("s"), &1_u32.to_be_bytes(), &one]);
    assert_eq!(created.0, OK);
    let leader = leader_of(&mut clients, &nodes, "s");
    clients.remove(leader);
    let mut client = clients.remove(0);
    eventually("it is led", || client.declare_publisher("s") == OK);
    client.publish(1, &["one"]);
    drop(clients);
    nodes.remove(leader).shut_down();
    let (key, body) = client.heard();
    assert_eq!((key, &body[..2]), (0x10, &NOT_AVAILABLE.to_be_bytes()[..]));
    assert_eq!(client.declare_publisher("s"), NOT_AVAILABLE);
    drop(client);
    nodes.into_iter().for_each(Node::shut_down);
}

#[test]
fn a_stream_goes_on_with_all_that_was_confirmed_when_its_leaders_node_has_gone() {
    let scratch = scratch("cluster-streams-failover");
    let mut nodes = three(scratch.path(), free_addresses());
    let mut clients: Vec<StreamClient> = nodes.iter().map(open).collect();
    assert_eq!(clients[0].create("s"), OK);
    let leader = leader_of(&mut clients, &nodes, "s");
    clients.remove(leader);
    let client = &mut clients[0];
    eventually("it is led", || client.declare_publisher("s") == OK);
    client.publish(1, &["one", "two"]);
    nodes.remove(leader).shut_down();
    let client = &mut clients[0];
    let (key, body) = client.heard();
    assert_eq!((key, &body[..2]), (0x10, &NOT_AVAILABLE.to_be_bytes()[..]));
    let next = leader_of(&mut clients, &nodes, "s");
    assert!(next < 2, "one of the two that are left");
    let client = &mut clients[0];
    eventually("it is led again", || client.declare_publisher("s") == OK);
    client.publish(3, &["three"]);
    for client in &mut clients {
        assert_eq!(client.read("s", 3), ["one", "two", "three"]);
    }
    drop(clients);
    nodes.into_iter().for_each(Node::shut_down);
}

fn declare_everywhere(clients: &mut [AmqpClient], name: &str) {
    assert_eq!(declare(&mut clients[0], name, false, "stream"), Ok(0));
    for client in clients {
        let known = || declare(client, name, true, "stream") == Ok(0);
        eventually("all nodes know the stream", known);
    }
}

#[test]
fn what_amqp_clients_of_any_node_publish_to_a_stream_right_behind_its_declaration_is_confirmed() {
    let scratch = scratch("cluster-streams-at-once");
    let nodes = three(scratch.path(), free_addresses());
    let mut clients: Vec<AmqpClient> = nodes.iter().map(log_in).collect();
    clients.iter_mut().for_each(select);
    for number in 0..30 {
        let name = format!("s-{number}");
        clients.rotate_left(1);
        assert_eq!(declare(&mut clients[0], &name, false, "stream"), Ok(0));
        for client in clients.iter_mut().rev() {
            // Its node looks again before it says that there is no such stream.
            declare(client, &name, true, "stream").expect("the cluster has it");
            assert_eq!(publish(client, "", &name), "basic.ack", "{name}");
        }
    }
    drop(clients);
    nodes.into_iter().for_each(Node::shut_down);
}

#[test]
fn amqp_clients_of_another_node_publish_to_a_stream_and_consume_from_it() {
    let scratch = scratch("cluster-streams-amqp");
    let mut nodes = three(scratch.path(), free_addresses());
    let mut clients: Vec<AmqpClient> = nodes.iter().map(log_in).collect();
    declare_everywhere(&mut clients, "s");
    clients.iter_mut().for_each(select);
    for client in &mut clients {
        let acked = || publish(client, "", "s") == "basic.ack";
        eventually("it is led", acked);
    }
    for client in &mut clients {
        let counted = || declare(client, "s", true, "stream") >= Ok(3);
        eventually("three messages are counted", counted);
    }
    let client = &mut clients[1];
    let prefetch = basic::Qos {
        prefetch_size: 0,
        prefetch_count: 10,
        global: false,
    };
    client.call(1, &prefetch).expect("a prefetch");
    let mut arguments = leveret_amqp::TableBuilder::new();
    let first = leveret_types::FieldValue::text("first");
    arguments.push("x-stream-offset", &first);
    let consume = basic::Consume {
        queue: "s",
        consumer_tag: "reader",
        no_local: false,
        no_ack: false,
        exclusive: false,
        nowait: false,
        arguments: arguments.as_table(),
    };
    let answer = client.call(1, &consume).expect("an answer");
    let answer = Method::decode(&answer).expect("a method");
    assert!(matches!(answer, Method::BasicConsumeOk(_)), "{answer:?}");
    for _ in 0..3 {
        let delivery = client.answer().expect("a delivery");
        let delivery = Method::decode(&delivery).expect("a method");
        assert!(matches!(delivery, Method::BasicDeliver(_)), "{delivery:?}");
    }
    // The node that leads it goes: another one does.
    let leader = {
        let catalogue = nodes[1].broker.catalogue();
        let record = catalogue.queue_by_name("/", "s").expect("it is there");
        record.home()
    };
    let leads = |node: &Node| node.broker.node_id() == leader;
    let at = nodes.iter().position(leads).expect("one of them");
    clients.remove(at);
    nodes.remove(at).shut_down();
    for client in &mut clients {
        let acked = || publish(client, "", "s") == "basic.ack";
        eventually("it is led by another node", acked);
    }
    drop(clients);
    nodes.into_iter().for_each(Node::shut_down);
}

#[test]
fn a_replica_that_is_added_to_a_stream_takes_over_when_the_first_one_is_taken_away() {
    let scratch = scratch("cluster-streams-members");
    let nodes = three(scratch.path(), free_addresses());
    let mut clients: Vec<StreamClient> = nodes.iter().map(open).collect();
    let one = [&text("initial-cluster-size")[..], &text("1")].concat();
    let created = clients[0].ask(0x0d, &[&text("s"), &1_u32.to_be_bytes(), &one]);
    assert_eq!(created.0, OK);
    let first = leader_of(&mut clients, &nodes, "s");
    let other = (first + 1) % 3;
    eventually("it is led", || clients[first].declare_publisher("s") == OK);
    clients[first].publish(1, &["one", "two"]);
    let broker = |at: usize| &nodes[at].broker;
    let stream = {
        let catalogue = broker(first).catalogue();
        let record = catalogue.queue_by_name("/", "s").expect("the stream");
        record.id()
    };
    let change = |leader: usize, of: usize, adds| {
        let node = broker(of).node_id();
        broker(leader).change_stream_replica(stream, node, adds)
    };
    assert!(change(other, other, true).is_err(), "it does not lead");
    assert!(change(first, other, false).is_err(), "it has no replica");
    assert_eq!(change(first, other, true), Ok(()));
    assert!(change(first, other, true).is_err(), "it has one");
    let may_change = |of: usize| {
        let led = broker(of).streams.members(stream);
        led.is_some_and(|led| led.nodes.len() == 2 && led.may_change)
    };
    eventually("all is copied there", || may_change(first));
    let now = broker(first).now();
    transfer(now, stream, broker(other).node_id(), &**broker(first));
    eventually("the other node leads", || may_change(other));
    assert_eq!(change(other, first, false), Ok(()));
    // The first ones have been told that the leader has moved.
    drop(clients);
    let mut clients: Vec<StreamClient> = nodes.iter().map(open).collect();
    assert_eq!(leader_of(&mut clients, &nodes, "s"), other);
    assert_eq!(clients[other].read("s", 2), ["one", "two"]);
    drop(clients);
    nodes.into_iter().for_each(Node::shut_down);
}

/// A client that publishes without waiting, and without a reference: what is confirmed is stored,
/// and nothing else is, so that it can publish the rest again.
#[test]
fn a_leader_that_moves_on_purpose_confirms_all_that_it_stores() {
    let scratch = scratch("cluster-streams-move");
    let nodes = three(scratch.path(), free_addresses());
    let mut clients: Vec<StreamClient> = nodes.iter().map(open).collect();
    assert_eq!(clients[0].create("s"), OK);
    let first = leader_of(&mut clients, &nodes, "s");
    let other = (first + 1) % 3;
    eventually("it is led", || clients[first].declare_publisher("s") == OK);
    clients[first].publish(1, &["1"]);
    let broker = &nodes[first].broker;
    let stream = {
        let catalogue = broker.catalogue();
        let record = catalogue.queue_by_name("/", "s").expect("the stream");
        record.id()
    };
    let publisher = &mut clients[first];
    for id in 2..=400_u64 {
        if id == 200 {
            let to = nodes[other].broker.node_id();
            transfer(broker.now(), stream, to, &**broker);
        }
        let body = id.to_string();
        let length = (body.len() as u32).to_be_bytes();
        let one = 1_u32.to_be_bytes();
        publisher.send(
            0x02,
            &[&[1], &one, &id.to_be_bytes(), &length, body.as_bytes()],
        );
    }
    let mut confirmed = vec![1];
    let lost = loop {
        match publisher.heard() {
            (0x03, body) => confirmed.extend(ids_of(&body[5..])),
            (key, body) => break (key, u16::from_be_bytes([body[0], body[1]])),
        }
    };
    assert_eq!(lost, (METADATA_UPDATE, NOT_AVAILABLE));
    drop(clients);
    let mut clients: Vec<StreamClient> = nodes.iter().map(open).collect();
    assert_eq!(leader_of(&mut clients, &nodes, "s"), other);
    let client = &mut clients[other];
    eventually("it is led again", || client.declare_publisher("s") == OK);
    client.publish(1, &["end"]);
    let stored = client.read("s", confirmed.len() + 1);
    let expected = confirmed.iter().map(u64::to_string);
    let expected: Vec<String> = expected.chain(["end".to_owned()]).collect();
    assert_eq!(stored, expected);
    drop(clients);
    nodes.into_iter().for_each(Node::shut_down);
}

/// The publishing ids of a confirm.
fn ids_of(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let ids = bytes.chunks_exact(8);
    ids.map(|id| u64::from_be_bytes(id.try_into().expect("eight octets")))
}

/// The segment files of streams below a node's folder, oldest first.
fn segment_files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(end) if end == "stream" => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

fn tamper(path: &std::path::Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).expect("a file");
    change(&mut bytes);
    std::fs::write(path, bytes).expect("written");
}

#[test]
fn damage_on_a_replicas_disk_is_never_served_and_copied_again_from_another_one() {
    let scratch = scratch("cluster-streams-damage");
    let addresses = free_addresses::<3>();
    let configs = addresses.map(|own| member(scratch.path(), own, &addresses, b"secret"));
    let mut nodes = start_all(configs.into());
    all_vote_and_are_up(&nodes);
    let mut clients: Vec<StreamClient> = nodes.iter().map(open).collect();
    let small = [&text("stream-max-segment-size-bytes")[..], &text("2000")].concat();
    let created = clients[0].ask(0x0d, &[&text("s"), &1_u32.to_be_bytes(), &small]);
    assert_eq!(created.0, OK);
    let leader = leader_of(&mut clients, &nodes, "s");
    eventually("it is led", || clients[leader].declare_publisher("s") == OK);
    let bodies: Vec<String> = (0..30).map(|n| format!("{n:0600}")).collect();
    for (id, body) in (1..).zip(&bodies) {
        clients[leader].publish(id, &[body]);
    }
    let damaged = (leader + 1) % 3;
    assert_eq!(clients[damaged].read("s", 30), bodies, "it has all");
    drop(clients);
    // While it is down its disk changes a bit of the oldest segment, and the head of the newest.
    nodes.remove(damaged).shut_down();
    let own = addresses[damaged];
    let files = segment_files(&scratch.path().join(own.port().to_string()));
    assert!(files.len() > 3, "{files:?}");
    tamper(&files[0], |bytes| bytes[700] ^= 1);
    tamper(&files[files.len() - 1], |bytes| bytes[..80].fill(0));
    let node = start(member(scratch.path(), own, &[], b"secret"));
    eventually("its replica shows all again", || {
        let Ok(mut client) = StreamClient::open(node.stream_listening[0].0, "guest") else {
            return false;
        };
        client.try_read("s", 30).is_some_and(|read| {
            assert_eq!(read, bodies);
            true
        })
    });
    nodes.push(node);
    nodes.into_iter().for_each(Node::shut_down);
}

#[test]
fn a_stream_that_was_declared_with_more_replicas_than_nodes_gets_them_when_nodes_come() {
    let scratch = scratch("cluster-streams-growth");
    let addresses = free_addresses::<3>();
    let [first, second, third] = addresses;
    let two = [first, second].map(|own| member(scratch.path(), own, &[first, second], b"secret"));
    let mut nodes = start_all(two.into());
    all_vote_and_are_up(&nodes);
    let mut client = open(&nodes[0]);
    let three = [&text("initial-cluster-size")[..], &text("3")].concat();
    let created = client.ask(0x0d, &[&text("s"), &1_u32.to_be_bytes(), &three]);
    assert_eq!(created.0, OK);
    let members = |node: &Node| {
        let catalogue = node.broker.catalogue();
        let record = catalogue.queue_by_name("/", "s");
        record.map_or(0, |record| record.members().len())
    };
    assert_eq!(members(&nodes[0]), 2);
    eventually("it is led", || client.declare_publisher("s") == OK);
    client.publish(1, &["one", "two"]);
    nodes.push(start(member(scratch.path(), third, &[first], b"secret")));
    all_vote_and_are_up(&nodes);
    eventually("the new node has one", || members(&nodes[2]) == 3);
    eventually("what was there is read at the new node", || {
        let mut client = open(&nodes[2]);
        client
            .try_read("s", 2)
            .is_some_and(|read| read == ["one", "two"])
    });
    drop(client);
    nodes.into_iter().for_each(Node::shut_down);
}
