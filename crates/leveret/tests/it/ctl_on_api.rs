//! The command line on the real HTTP API: the columns that it asks for are fields that the API has.

use crate::fake::Fake;
use leveret::cli::node_file::{self, NodeFile};
use leveret::ctl;
use leveret_management::{App, Endpoint, Server, Service};
use std::path::PathBuf;
use std::sync::Arc;

struct Node {
    fake: Arc<Fake>,
    root: PathBuf,
    _server: Server,
}

/// A node on a data folder of its own, found there as the command line finds any.
fn start(name: &str) -> Node {
    let root = std::env::temp_dir().join(format!("leveret-ctl-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&root).expect("a folder");
    let fake = Arc::new(Fake::default());
    let token = node_file::write_token(&root, [5; 32]).expect("a token");
    let app = App::new(Arc::clone(&fake) as _, Some(token), false).with_token_on_loopback();
    let any = "127.0.0.1:0".parse().expect("an address");
    let server =
        Server::start(app, &[Endpoint::plain(Service::Api, any)]).expect("a port on loopback");
    let file = NodeFile {
        name: "leveret@burrow".to_owned(),
        pid: std::process::id(),
        amqp: Vec::new(),
        http: server.plain_address(Service::Api),
        metrics: None,
    };
    file.write(&root).expect("a node file");
    Node {
        fake,
        root,
        _server: server,
    }
}

impl Node {
    fn ctl(&self, line: &str) -> (u8, String) {
        let mut words = vec!["--data-dir".to_owned(), self.root.display().to_string()];
        words.extend(line.split('|').map(str::to_owned));
        let mut out = String::new();
        match ctl::run(&words, &mut |text| out.push_str(text)) {
            Ok(()) => (0, out),
            Err(failure) => (failure.code, failure.text),
        }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.fake.asked.lock().expect("log"))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

#[test]
fn lists_show_what_the_node_has() {
    let node = start("lists");
    for (line, expected) in [
        (
            "-q|list_queues|name|messages|messages_ready|policy|type|state|arguments",
            "name\tmessages\tmessages_ready\tpolicy\ttype\tstate\targuments\n\
             a/b\t1\t0\tttl\tclassic\trunning\t[{\"x-max-length\",5}]\n\
             q\t5\t4\tttl\tclassic\trunning\t[{\"x-max-length\",5}]\n",
        ),
        ("-s|list_queues|-p|other|name|consumers|memory", "q\t0\t0\n"),
        (
            "-s|list_exchanges|name|type|durable|internal",
            "\ttopic\ttrue\tfalse\nx\ttopic\ttrue\tfalse\ny\ttopic\ttrue\tfalse\n",
        ),
        (
            "-s|list_bindings",
            "x\texchange\tq\tqueue\ta.*\t[]\nx\texchange\tq\tqueue\t\t[]\nx\texchange\ty\texchange\t#\t[]\n",
        ),
        (
            "-s|list_connections|pid|user|state|vhost|channels",
            "<leveret@burrow.1.0.0>\tmanagement\trunning\t/\t0\n<leveret@burrow.2.0.0>\tadministrator\trunning\tother\t0\n",
        ),
        (
            "-s|list_channels|pid|number|user|messages_unacknowledged|confirm",
            "<leveret@burrow.1.1.0>\t1\tmanagement\t3\tfalse\n",
        ),
        (
            "-s|list_consumers",
            "q\t<leveret@burrow.1.1.0>\tctag\ttrue\t0\ttrue\t[]\n",
        ),
        ("-s|list_vhosts|name|tracing", "/\tfalse\nother\tfalse\n"),
        (
            "-s|list_permissions|-p|/",
            "administrator\t.*\t.*\t\nmonitoring\t.*\t.*\t\npolicymaker\t.*\t.*\t\nmanagement\t.*\t.*\t\nnobody\t.*\t.*\t\n",
        ),
        ("-s|list_user_permissions|nobody", "/\t.*\t.*\t\n"),
        (
            "-s|list_policies",
            "/\tttl\t^q\tqueues\t{\"message-ttl\":5}\t1\n",
        ),
        (
            "-s|list_operator_policies",
            "/\top\t^q\tqueues\t{\"message-ttl\":5}\t1\n",
        ),
        ("-s|list_vhost_limits|-p|/", "{\"max-queues\":9}\n"),
        (
            "-s|list_vhost_limits",
            "/\t{\"max-queues\":9}\nother\t{\"max-queues\":9}\n",
        ),
        ("-s|list_user_limits|nobody", "{\"max-channels\":7}\n"),
        ("-s|list_global_parameters", "cluster_name\t\"hares\"\n"),
        ("-q|ping", "Ping succeeded\n"),
        ("-q|await_startup", ""),
        ("-q|server_version", "4.2.0\n"),
        ("-q|hash_password|pw", "hash of pw\n"),
        ("-q|authenticate_user|nobody|nobody", "Success\n"),
        (
            "-q|check_port_listener|5672",
            "A listener for port 5672 is running on node leveret@burrow.\n",
        ),
    ] {
        assert_eq!(node.ctl(line), (0, expected.to_owned()), "{line}");
    }
    let (code, status) = node.ctl("status");
    assert_eq!(code, 0);
    for part in [
        "Status of node leveret@burrow ...",
        "Product name: Leveret",
        "Connection count: 2",
        "Queue count: 3",
        "Interface: 127.0.0.1, port: 5672, protocol: amqp",
    ] {
        assert!(status.contains(part), "{part} is not in\n{status}");
    }
    assert_eq!(node.asked(), [""; 0]);
}

#[test]
fn changes_reach_the_node() {
    let node = start("changes");
    for (line, asked) in [
        (
            "set_user_tags|nobody|a|b",
            r#"(operator): PutUser { name: "nobody", tags: ["a", "b"], secret: Hash { hash: "hash", algorithm: Some("rabbit_password_hashing_sha256") } }"#,
        ),
        (
            "clear_password|nobody",
            r#"(operator): PutUser { name: "nobody", tags: ["nobody"], secret: Hash { hash: "", algorithm: None } }"#,
        ),
        (
            "set_permissions|-p|other|nobody|a|b|c",
            r#"(operator): PermissionSet { vhost: "other", user: "nobody", configure: "a", write: "b", read: "c" }"#,
        ),
        (
            "trace_on|-p|other",
            r#"(operator): VhostPut { vhost: "other", description: None, tags: None, default_queue_type: None, protected: None, tracing: Some(true) }"#,
        ),
        (
            "purge_queue|a/b",
            r#"Operator / PurgeQueue { name: "a/b" }"#,
        ),
        (
            "close_connection|<leveret@burrow.2.0.0>|spring cleaning",
            "close 2 spring cleaning",
        ),
        ("set_vm_memory_high_watermark|0", "memory Relative(0.0)"),
        ("set_disk_free_limit|mem_relative|1.5", "disk Relative(1.5)"),
        ("stop_app", "serving false"),
        ("start_app", "serving true"),
        ("stop", "stop"),
    ] {
        let (code, text) = node.ctl(line);
        assert_eq!(code, 0, "{line}: {text}");
        assert_eq!(node.asked(), [asked], "{line}");
    }
    *node.fake.alarm.lock().expect("alarm") = true;
    let (code, text) = node.ctl("check_local_alarms");
    assert_eq!(
        (code, text.as_str()),
        (
            69,
            "Error:\nresource alarm in effect: memory on leveret@burrow"
        )
    );
}

#[test]
fn commands_of_rabbitmq_streams_show_what_the_node_has() {
    let node = start("streams");
    node.fake
        .has_stream
        .store(true, std::sync::atomic::Ordering::Relaxed);
    let connection = "127.0.0.1:3 -> 127.0.0.1:5672";
    for (line, expected) in [
        (
            "-s|list_stream_connections|conn_name|user|connection_state|subscriptions",
            &*format!("{connection}\tmanagement\trunning\t2\n"),
        ),
        ("-s|list_stream_publishers", "7\ts\torders\t40\t39\t1\n"),
        (
            "-s|list_stream_consumers|subscription_id|stream|messages_consumed|offset|offset_lag|credits|active|activity_status",
            "0\ts\t30\t29\t10\t10\ttrue\tsingle_active\n1\ts\t0\t0\t40\t10\tfalse\twaiting\n",
        ),
        ("-s|list_stream_consumer_groups", "s\tgroup\t-1\t2\n"),
        (
            "-s|list_stream_group_consumers|--stream|s|--reference|group",
            &*format!(
                "0\t{connection}\tactive (connected)\n1\t{connection}\twaiting (connected)\n"
            ),
        ),
        (
            "-s|list_stream_tracking|s",
            "offset\tgroup\t0\noffset\tother\t17\nwriter\torders\t39\n",
        ),
        ("-s|list_stream_tracking|s|--writer", "writer\torders\t39\n"),
        (
            "-s|stream_status|s",
            "writer\tleveret@burrow\t41\t39\t0\t2\t1\n",
        ),
        (
            "-s|stream_status|s|--tracking",
            "offsets\tgroup\t0\noffsets\tother\t17\nsequences\torders\t39\n",
        ),
        ("-s|restart_stream|s", ""),
        (
            "-s|list_stream_groups",
            "s\tgroup\t2\t36\t0.0\ns\tother\t0\t19\t2.5\n",
        ),
        (
            "-s|list_stream_groups|name|partition|offset|unused",
            "group\ts\t0\tfalse\nother\ts\t17\ttrue\n",
        ),
        ("-s|set_stream_group_offset|s|group|first", "s\t12\n"),
        (
            "-s|set_stream_group_offset|s|group|--timestamp|5|--partition|s",
            "s\t12\n",
        ),
        (
            "-s|set_stream_group_offset|s|group|--timestamp|2026-11-29 10:00",
            "s\t12\n",
        ),
        ("-s|set_stream_group_offset|s|new|5|--create", "s\t12\n"),
        ("-s|delete_stream_group|s|other", ""),
        (
            "-s|browse_stream|s|last|--count|3",
            "offset 0, time 1000 ms, 3 bytes, json\n  app_id: shop\n[\n  7\n]\n\n\
             offset 1, time 1000 ms, 2 bytes, hex\n  app_id: shop\nff00\n\n\
             offset 2, 30 messages: packed\n\nnext offset 32\n",
        ),
        (
            "list_stream_publishers|publisher_id|reference",
            "Listing stream publishers ...\n\
             ┌──────────────┬───────────┐\n\
             │ publisher_id │ reference │\n\
             ├──────────────┼───────────┤\n\
             │ 7            │ orders    │\n\
             └──────────────┴───────────┘\n",
        ),
        (
            "list_stream_publishers|publisher_id|--json",
            "[\n{\"publisher_id\":7}\n]\n",
        ),
    ] {
        assert_eq!(node.ctl(line), (0, expected.to_owned()), "{line}");
    }
    let browsed = "browse Operator / s Browse { from: Last, count: 3, filter: [], \
                   match_unfiltered: false }";
    let asked = [
        "set 8 group First",
        "move s group 12",
        "set 8 group TimestampMs(5)",
        "move s group 12",
        "set 8 group TimestampMs(1795946400000)",
        "move s group 12",
        "set 8 new Offset(5)",
        "move s new 12",
        "forget 8 other",
        browsed,
    ];
    assert_eq!(node.asked(), asked);
}

#[test]
fn commands_of_rabbitmq_streams_change_what_they_say() {
    let node = start("stream-changes");
    node.fake
        .has_stream
        .store(true, std::sync::atomic::Ordering::Relaxed);
    for (line, code, said, asked) in [
        (
            "-q|add_super_stream|invoices|--partitions|2|--max-length-bytes|1kb|--max-age|PT1H",
            0,
            "Super stream invoices has been created\n",
            5,
        ),
        (
            "-q|add_super_stream|invoices|--binding-keys|eu",
            0,
            "Super stream invoices has been created\n",
            3,
        ),
        (
            "-q|add_super_stream|invoices|--partitions|1|--routing|hash",
            0,
            "Super stream invoices has been created\n",
            3,
        ),
        (
            "-q|add_super_stream|invoices|--routing|murmur",
            64,
            "Error (argument validation): Invalid value for --routing, valid values are key, hash, key-or-hash.",
            0,
        ),
        (
            "-q|add_super_stream_partitions|orders|--binding-keys|eu,us",
            0,
            "Super stream orders has been given orders-eu, orders-us\n",
            4,
        ),
        (
            "-q|add_super_stream_partitions|orders",
            64,
            "Error (argument validation): Specify --partitions (how many more) or --binding-keys.",
            0,
        ),
        (
            "-q|delete_super_stream|orders",
            0,
            "Super stream orders has been deleted\n",
            3,
        ),
        (
            "-q|delete_super_stream|none",
            70,
            "Error:\nSuper stream none does not exist",
            0,
        ),
        (
            "-q|add_super_stream|invoices|--partitions|2|--binding-keys|a",
            64,
            "Error (argument validation): Specify --partitions or --binding-keys, not both.",
            0,
        ),
        (
            "-q|add_super_stream|invoices|--partitions|0",
            64,
            "Error (argument validation): The partition number must be greater than 0",
            0,
        ),
        ("-q|reset_offset|--stream|s|--reference|group", 0, "", 1),
        (
            "-q|reset_offset|--stream|s|--reference|nobody",
            65,
            "Error:\nThe reference does not exist",
            0,
        ),
        (
            "-q|list_stream_group_consumers|--stream|s|--reference|nobody",
            70,
            "Error:\nThe group does not exist",
            0,
        ),
        (
            "-q|stream_status|q",
            69,
            "Error:\nCannot get stream status of a classic queue",
            0,
        ),
        ("-q|restart_stream|s", 0, "", 0),
        ("-q|add_replica|s|leveret@form", 0, "", 1),
        ("-q|delete_replica|s|leveret@form", 0, "", 1),
    ] {
        assert_eq!(node.ctl(line), (code, said.to_owned()), "{line}");
        assert_eq!(node.asked().len(), asked, "{line}");
    }
}
