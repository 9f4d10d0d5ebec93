//! Nodes that form a cluster on real sockets and files, in this process.

mod joined;
mod minority;
mod on_path;
mod outdated;
mod secret_change;
mod streams;
mod tls_links;
mod views;

use crate::client::{self, Client, address, config, connect, scratch};
use leveret_amqp::encode;
use leveret_amqp::frame::FrameKind;
use leveret_amqp::{
    ContentHeader, Method, Properties, RawTable, TableBuilder, basic, confirm, exchange, queue,
};
use leveret_cluster::Env as _;
use leveret_metadata::Command;
use leveret_node::Env;
use leveret_shell::cluster::ClusterConfig;
use leveret_shell::cluster::electorate::Electorate;
use leveret_shell::cluster::handshake::Protection;
use leveret_shell::disk::RealDisk;
use leveret_shell::node::{Node, NodeConfig, StartError};
use leveret_types::{FieldValue, NodeId, ShardId};
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long something may take to come true.
const PATIENCE: Duration = Duration::from_secs(30);

/// Loopback addresses that are free, below the ports that the kernel gives to clients: one of them
/// may be taken by a client while its node is not up.
fn free_addresses<const N: usize>() -> [SocketAddr; N] {
    let first = RandomState::new().hash_one(()) as usize % 6_000;
    let mut ports = (26_000_u16..32_768).skip(first);
    // Held together, so that no two are the same.
    let held = [(); N].map(|()| {
        let mut free = (&mut ports).filter_map(|port| TcpListener::bind(("127.0.0.1", port)).ok());
        free.next().expect("a free port")
    });
    held.map(|listener| listener.local_addr().expect("an address"))
}

fn member(folder: &Path, own: SocketAddr, join: &[SocketAddr], secret: &[u8]) -> NodeConfig {
    let folder = folder.join(own.port().to_string());
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut plain = config(&folder, None);
    // Clients of streams are told the ports that the system chose.
    let sessions = std::sync::Arc::make_mut(&mut plain.settings.stream.plain);
    sessions.advertised_port = 0;
    NodeConfig {
        cluster: Some(ClusterConfig {
            address: own,
            advertised: own.to_string(),
            join: join.iter().map(ToString::to_string).collect(),
            secret: secret.to_vec(),
            secret_file: None,
            protection: Protection::Sealed,
            tls: None,
            file: folder.join("cluster"),
            name: format!("leveret@{own}"),
        }),
        ..plain
    }
}

fn start(config: NodeConfig) -> Node {
    Node::start(config, RealDisk::new()).expect("the node starts")
}

/// Starts nodes at once; each waits for the others.
fn start_all(configs: Vec<NodeConfig>) -> Vec<Node> {
    let starts: Vec<_> = configs
        .into_iter()
        .map(|config| std::thread::spawn(move || start(config)))
        .collect();
    let ended = starts.into_iter().map(std::thread::JoinHandle::join);
    ended.map(|node| node.expect("no panic")).collect()
}

#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn put_vhost(node: &Node, name: &str) {
    let command = Command::VhostPut {
        vhost: name.to_owned(),
        description: None,
        tags: None,
        default_queue_type: None,
        protected: None,
        tracing: None,
    };
    node.broker
        .execute_in_cluster(&command)
        .expect("a majority is up");
}

fn knows(node: &Node, vhost: &str) -> bool {
    node.broker.catalogue().vhost(vhost).is_some()
}

#[test]
fn nodes_find_each_other_share_what_is_declared_and_find_it_again() {
    let scratch = scratch("cluster");
    let addresses = free_addresses::<3>();
    let configs = || addresses.map(|own| member(scratch.path(), own, &addresses, b"secret"));
    let nodes = start_all(configs().into());
    for (index, node) in nodes.iter().enumerate() {
        put_vhost(node, &format!("of-{index}"));
    }
    let ids: Vec<_> = nodes.iter().map(|node| node.broker.node_id()).collect();
    for node in &nodes {
        eventually("all nodes have all that was declared", || {
            (0..3).all(|index| knows(node, &format!("of-{index}")))
        });
        eventually("all nodes are up", || node.broker.peers().up().len() == 2);
    }
    for node in nodes {
        node.shut_down();
    }
    let nodes = start_all(configs().into());
    let again: Vec<_> = nodes.iter().map(|node| node.broker.node_id()).collect();
    assert_eq!(again, ids, "numbers stay");
    for node in nodes {
        assert!((0..3).all(|index| knows(&node, &format!("of-{index}"))));
        node.shut_down();
    }
}

#[test]
fn a_majority_goes_on_and_who_returns_has_what_it_missed() {
    let scratch = scratch("cluster-majority");
    let addresses = free_addresses::<3>();
    let configs = addresses.map(|own| member(scratch.path(), own, &addresses, b"secret"));
    let mut nodes = start_all(configs.into());
    all_vote_and_are_up(&nodes);
    let gone = nodes.remove(0);
    gone.shut_down();
    put_vhost(&nodes[0], "while it was away");
    // Not its list but its folder says where it belongs.
    let returned = start(member(scratch.path(), addresses[0], &[], b"secret"));
    assert!(knows(&returned, "while it was away"));
    returned.shut_down();
    nodes.into_iter().for_each(Node::shut_down);
}

#[test]
fn strangers_are_dropped_before_anything_of_them_is_looked_at() {
    let scratch = scratch("cluster-strangers");
    let [own] = free_addresses::<1>();
    let node = start(member(scratch.path(), own, &[], b"secret"));
    let address = node.cluster_address().expect("it is in a cluster");
    let garbage: [&[u8]; 3] = [&[0xFF; 200], b"GET / HTTP/1.1\r\n\r\n", &[0; 132]];
    for bytes in garbage {
        let mut socket = TcpStream::connect(address).expect("it listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a deadline");
        // It may have been dropped by now.
        let _ = socket.write_all(bytes);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let mut said = Vec::new();
        // A reset says the same as an end.
        let _ = socket.read_to_end(&mut said);
        assert_eq!(said.len(), 40, "the greeting and nothing else");
    }
    put_vhost(&node, "unharmed");
    node.shut_down();
}

#[test]
fn what_an_operator_has_to_change_is_said() {
    let scratch = scratch("cluster-refusals");
    let refusal = |config| match Node::start(config, RealDisk::new()) {
        Ok(_) => panic!("it must not start"),
        Err(error) => error.to_string(),
    };
    let [own, alone] = free_addresses::<2>();
    let anywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let open = member(scratch.path(), anywhere, &[], b"");
    assert!(refusal(open).contains("cluster.secret is not set"));

    let apart = member(scratch.path(), own, &[own, alone], b"");
    assert!(refusal(apart).contains("cluster.secret_file"));

    // A node of its own that is then to join has data that would have to go.
    let folder = scratch.path().join(alone.port().to_string());
    client::start(&folder, None).shut_down();
    let mut listed = [own, alone];
    listed.sort_by_key(ToString::to_string);
    if listed[0] == own {
        let joins = member(scratch.path(), alone, &listed, b"secret");
        assert!(refusal(joins).contains("data of its own"));
    }

    start(member(scratch.path(), own, &[], b"secret")).shut_down();
    let folder = scratch.path().join(own.port().to_string());
    match Node::start(config(&folder, None), RealDisk::new()) {
        Err(StartError::Clustered) => {}
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("a cluster's node does not start alone"),
    }
}

type AmqpClient = Client<TcpStream>;

fn log_in(node: &Node) -> AmqpClient {
    Client::log_in(connect(address(node, false)), "PLAIN", b"\0guest\0guest").expect("logged in")
}

/// Declares a queue; answers how many messages are ready, or the code that closed the channel.
fn declare(client: &mut AmqpClient, name: &str, passive: bool, kind: &str) -> Result<u32, u16> {
    let mut arguments = TableBuilder::new();
    arguments.push("x-queue-type", &FieldValue::text(kind));
    let declare = queue::Declare {
        queue: name,
        passive,
        durable: true,
        exclusive: false,
        auto_delete: false,
        nowait: false,
        arguments: arguments.as_table(),
    };
    let answer = client.call(1, &declare).expect("an answer");
    match Method::decode(&answer) {
        Ok(Method::QueueDeclareOk(ok)) => Ok(ok.message_count),
        Ok(Method::ChannelClose(close)) => Err(close.reply_code),
        other => panic!("{other:?}"),
    }
}

/// Publishes a persistent message on a channel with confirms; answers how that was answered.
fn publish(client: &mut AmqpClient, exchange: &str, key: &str) -> String {
    let mut bytes = Vec::new();
    let method = basic::Publish {
        exchange: exchange.as_bytes(),
        routing_key: key.as_bytes(),
        mandatory: false,
        immediate: false,
    };
    encode::method(&mut bytes, 1, &method);
    let properties = Properties {
        delivery_mode: Some(2),
        ..Properties::default()
    };
    encode::frame(&mut bytes, FrameKind::Header, 1, |out| {
        ContentHeader {
            class: 60,
            body_size: 1,
            properties: &properties.to_bytes(),
        }
        .encode(out);
    });
    encode::frame(&mut bytes, FrameKind::Body, 1, |out| out.push(b'm'));
    client.send_bytes(&bytes).expect("sent");
    let answer = client.answer().expect("an answer");
    let answer = Method::decode(&answer).expect("a method");
    answer.name().to_owned()
}

fn select(client: &mut AmqpClient) {
    let answer = client.call(1, &confirm::Select { nowait: false });
    answer.expect("confirms");
}

fn all_vote_and_are_up(nodes: &[Node]) {
    for node in nodes {
        eventually("all vote", || {
            let status = node.broker.cluster().map(|cluster| cluster.status());
            status.is_some_and(|status| status.membership.voters.len() == nodes.len())
        });
        let others = nodes.len() - 1;
        eventually("all are up", || node.broker.peers().up().len() == others);
    }
}

/// Three nodes of one cluster, all of which vote.
fn three(folder: &Path, addresses: [SocketAddr; 3]) -> Vec<Node> {
    let configs = addresses.map(|own| member(folder, own, &addresses, b"secret"));
    let nodes = start_all(configs.into());
    all_vote_and_are_up(&nodes);
    nodes
}

#[test]
fn what_one_node_has_answered_for_every_other_one_knows() {
    let scratch = scratch("cluster-looks");
    let nodes = three(scratch.path(), free_addresses());
    let mut clients: Vec<AmqpClient> = nodes.iter().map(log_in).collect();
    clients.iter_mut().for_each(select);
    for round in 0..60 {
        let name = format!("thing-{round}");
        let at = round % 3;
        assert_eq!(declare(&mut clients[at], &name, false, "classic"), Ok(0));
        for elsewhere in [(at + 1) % 3, (at + 2) % 3] {
            let client = &mut clients[elsewhere];
            assert_eq!(declare(client, &name, true, "classic"), Ok(0), "{round}");
        }
        let declare = exchange::Declare {
            exchange: &name,
            kind: "fanout",
            passive: false,
            durable: true,
            auto_delete: false,
            internal: false,
            nowait: false,
            arguments: RawTable::EMPTY,
        };
        let answer = clients[at].call(1, &declare).expect("an answer");
        let answer = Method::decode(&answer).expect("a method");
        assert!(matches!(answer, Method::ExchangeDeclareOk(_)), "{answer:?}");
        for elsewhere in [(at + 1) % 3, (at + 2) % 3] {
            let answered = publish(&mut clients[elsewhere], &name, "");
            assert_eq!(answered, "basic.ack", "{round}");
        }
    }
    // What nobody has declared is still unknown everywhere.
    for client in &mut clients {
        assert_eq!(declare(client, "nothing", true, "classic"), Err(404));
    }
    drop(clients);
    nodes.into_iter().for_each(Node::shut_down);
}

#[test]
fn a_minority_answers_what_it_knows_and_refuses_what_it_cannot_decide() {
    let scratch = scratch("cluster-minority");
    let mut nodes = three(scratch.path(), free_addresses());
    let left = nodes.remove(0);
    let mut client = log_in(&left);
    assert_eq!(declare(&mut client, "known", false, "quorum"), Ok(0));
    select(&mut client);
    assert_eq!(publish(&mut client, "", "known"), "basic.ack");
    nodes.into_iter().for_each(Node::shut_down);
    eventually("it is alone", || left.broker.peers().up().is_empty());
    assert_eq!(declare(&mut client, "known", true, "quorum"), Ok(1));
    // What is there is found again, and what is not bound need not be unbound.
    assert_eq!(declare(&mut client, "known", false, "quorum"), Ok(1));
    let unbind = queue::Unbind {
        queue: "known",
        exchange: "amq.direct",
        routing_key: "key",
        arguments: RawTable::EMPTY,
    };
    let answer = client.call(1, &unbind).expect("an answer");
    let answer = Method::decode(&answer).expect("a method");
    assert!(matches!(answer, Method::QueueUnbindOk(_)), "{answer:?}");
    // So is what is not there and is to go.
    let delete = exchange::Delete {
        exchange: "nothing",
        if_unused: false,
        nowait: false,
    };
    let answer = client.call(1, &delete).expect("an answer");
    let answer = Method::decode(&answer).expect("a method");
    assert!(matches!(answer, Method::ExchangeDeleteOk(_)), "{answer:?}");
    let vhost = "/".to_owned();
    let forbid = Command::TopicPermissionClear {
        vhost: vhost.clone(),
        user: "guest".to_owned(),
        exchange: None,
    };
    assert!(left.broker.execute_in_cluster(&forbid).is_ok());
    let gone = || "gone".to_owned();
    let policy = Command::PolicyClear {
        vhost,
        name: gone(),
        operator: false,
    };
    for (command, answer) in [
        (Command::VhostDelete { vhost: gone() }, "not found"),
        (Command::UserDelete { user: gone() }, "'gone'"),
        (policy, "'gone'"),
    ] {
        let refused = left.broker.execute_in_cluster(&command);
        let refused = refused.expect_err("there is none").to_string();
        assert!(refused.contains(answer), "{refused}");
        assert!(!refused.contains("fewer than half"), "{refused}");
    }
    // The client would not wait for ever.
    assert_eq!(declare(&mut client, "unknown", true, "quorum"), Err(404));
    let refused = left.broker.execute_in_cluster(&Command::VhostDelete {
        vhost: "/".to_owned(),
    });
    let refused = refused.expect_err("there is no majority").to_string();
    assert!(
        refused.contains("no majority of its voting nodes"),
        "{refused}"
    );
    let seen = Electorate::seen_by(&left.broker).expect("a cluster");
    assert!(!seen.is_majority(), "{seen}");
    let seen = seen.to_string();
    assert!(seen.starts_with("1 of the cluster's 3"), "{seen}");
    assert!(left.broker.catalogue().vhost("/").is_some());
    left.shut_down();
}

#[test]
fn a_node_that_was_forgotten_serves_nobody() {
    let scratch = scratch("cluster-forgotten");
    let mut nodes = three(scratch.path(), free_addresses());
    let follows = |node: &Node| {
        let leader = node.broker.cluster().and_then(|cluster| cluster.leader());
        leader.is_some_and(|leader| leader != node.broker.node_id())
    };
    eventually("somebody leads", || nodes.iter().any(follows));
    let at = nodes.iter().position(follows).expect("a follower");
    let gone = nodes.remove(at);
    let mut client = log_in(&gone);
    assert_eq!(declare(&mut client, "at home", false, "classic"), Ok(0));
    // Nobody asks whether it is up: it may as well have come back just now.
    let forget = Command::NodeForget {
        node: gone.broker.node_id().0,
    };
    let forgotten = nodes[0].broker.execute_in_cluster(&forget);
    forgotten.expect("a majority is up");
    eventually("it has heard that", || !gone.broker.serving());
    gone.broker.set_serving(true);
    assert!(!gone.broker.serving(), "nobody brings it back like this");
    assert!(!log_in_again(&gone), "it lets nobody in");
    let said = client.answer().expect("an answer");
    assert!(matches!(
        Method::decode(&said),
        Ok(Method::ConnectionClose(_))
    ));
    drop(client);
    gone.shut_down();
    nodes.into_iter().for_each(Node::shut_down);
}

fn log_in_again(node: &Node) -> bool {
    let socket = connect(address(node, false));
    Client::log_in(socket, "PLAIN", b"\0guest\0guest").is_ok()
}

/// How many queues a node leads, as another one knows.
fn led_by(node: NodeId, seen_from: &Node) -> usize {
    let broker = &seen_from.broker;
    let shards = (0..broker.settings().shard_count).map(ShardId);
    let statuses = shards.flat_map(|shard| broker.shard(shard).replica_statuses());
    let leaders = statuses.filter_map(|status| status.group.leader);
    leaders.filter(|leader| leader.node() == node).count()
}

#[test]
fn leaders_are_spread_when_queues_are_declared_and_again_when_a_node_returns() {
    let scratch = scratch("cluster-leaders");
    let addresses = free_addresses();
    let mut nodes = three(scratch.path(), addresses);
    let mut client = log_in(&nodes[0]);
    for queue in 0..9 {
        let name = format!("queue-{queue}");
        assert_eq!(declare(&mut client, &name, false, "quorum"), Ok(0));
    }
    let ids: Vec<NodeId> = nodes.iter().map(|node| node.broker.node_id()).collect();
    for id in &ids {
        eventually("each leads three", || led_by(*id, &nodes[0]) == 3);
    }
    nodes.remove(2).shut_down();
    eventually("two lead all", || {
        led_by(ids[0], &nodes[0]) + led_by(ids[1], &nodes[0]) == 9
    });
    nodes.push(start(member(scratch.path(), addresses[2], &[], b"secret")));
    eventually("the third has its leaders again", || {
        led_by(ids[2], &nodes[0]) == 3
    });
    drop(client);
    nodes.into_iter().for_each(Node::shut_down);
}

#[test]
fn a_node_alone_that_founds_a_cluster_keeps_what_its_quorum_queues_have() {
    let scratch = scratch("cluster-founded");
    let addresses = free_addresses::<3>();
    let folder = scratch.path().join(addresses[0].port().to_string());
    std::fs::create_dir_all(&folder).expect("a folder");
    let alone = client::start(&folder, None);
    let mut client = log_in(&alone);
    select(&mut client);
    for kind in ["quorum", "classic"] {
        assert_eq!(declare(&mut client, kind, false, kind), Ok(0));
        for _ in 0..3 {
            assert_eq!(publish(&mut client, "", kind), "basic.ack");
        }
    }
    drop(client);
    alone.shut_down();
    let mut founder = member(scratch.path(), addresses[0], &[], b"secret");
    founder.catalogue.membership.trigger_interval_ms = 100;
    let first = start(founder);
    let mut client = log_in(&first);
    for kind in ["quorum", "classic"] {
        eventually("its messages are there", || {
            declare(&mut client, kind, true, kind) == Ok(3)
        });
    }
    let others: Vec<Node> = addresses[1..]
        .iter()
        .map(|own| start(member(scratch.path(), *own, &addresses[..1], b"secret")))
        .collect();
    let voters = || {
        let id = {
            let catalogue = first.broker.catalogue();
            catalogue
                .queue_by_name("/", "quorum")
                .expect("it is there")
                .id()
        };
        let shard = first.broker.shard(first.broker.shard_of(id));
        let status = shard.replica_status(id);
        status.map_or(0, |status| status.group.membership.voters.len())
    };
    eventually("the queue has the members that it is to have", || {
        voters() == 3
    });
    drop(client);
    first.shut_down();
    let mut client = log_in(&others[0]);
    eventually("the messages are at the other members", || {
        declare(&mut client, "quorum", true, "quorum") == Ok(3)
    });
    drop(client);
    others.into_iter().for_each(Node::shut_down);
}
