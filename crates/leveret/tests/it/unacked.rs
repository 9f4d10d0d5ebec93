//! Messages that clients hold, as any node of a cluster shows them to operators.

use crate::common::{Folder, Node};
use crate::serve::{QUORUM, connect, eventually, frame, read_frame, start_three};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;

fn call(socket: &mut TcpStream, method: &[u8], expected: [u8; 4]) {
    socket.write_all(&frame(1, method)).expect("written");
    assert_eq!(read_frame(socket).expect("an answer"), expected);
}

/// A queue's name as AMQP has it.
fn short(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).expect("short");
    [&[length], text.as_bytes()].concat()
}

/// Consumes under the tag `worker` with a prefetch of 2, and gets one message more.
fn hold_three(node: &Node, queue: &str) -> TcpStream {
    let mut client = connect(node.port("amqp"));
    let name = short(queue);
    // channel.open, basic.qos
    call(&mut client, &[0, 20, 0, 10, 0], [0, 20, 0, 11]);
    let qos = [0, 60, 0, 10, 0, 0, 0, 0, 0, 2, 0];
    call(&mut client, &qos, [0, 60, 0, 11]);
    let (tag, rest) = (short("worker"), [0; 5]);
    let consume = [&[0, 60, 0, 20, 0, 0][..], &name, &tag, &rest].concat();
    call(&mut client, &consume, [0, 60, 0, 21]);
    for _ in 0..2 {
        // basic.deliver with its header and body
        assert_eq!(read_frame(&mut client).expect("a message"), [0, 60, 0, 60]);
        read_frame(&mut client).expect("a header");
        read_frame(&mut client).expect("a body");
    }
    let get = [&[0, 60, 0, 70, 0, 0][..], &name, &[0]].concat();
    call(&mut client, &get, [0, 60, 0, 71]);
    client
}

fn shown(node: &Node, queue: &str, query: &str) -> Vec<Value> {
    let path = format!("/api/leveret/queues/%2f/{queue}/unacked{query}");
    let answer = node.http("GET", &path, "");
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
    let rows = body.and_then(|body| serde_json::from_str(body).ok());
    match rows {
        Some(Value::Array(rows)) => rows,
        _ => panic!("no rows: {answer}"),
    }
}

fn of(rows: &[Value], field: &str) -> Vec<Value> {
    rows.iter().map(|row| row[field].clone()).collect()
}

fn check_one(node: &Node, queue: &str) {
    let rows = shown(node, queue, "");
    assert_eq!(
        of(&rows, "payload"),
        [json!("first"), json!("second"), json!("third")],
        "{queue}: {rows:?}"
    );
    assert_eq!(of(&rows, "position"), [1, 2, 3].map(|n| json!(n)));
    let tags = of(&rows, "consumer_tag");
    assert_eq!(tags, [json!("worker"), json!("worker"), Value::Null]);
    assert_eq!(of(&rows, "delivery_tag"), [1, 2, 3].map(|n| json!(n)));
    for row in &rows {
        assert_eq!(
            (&row["user"], &row["redelivered"]),
            (&json!("guest"), &json!(false))
        );
        assert!(row["held_since"].as_u64() > Some(0), "{row}");
        let channel = row["channel"].as_str().expect("a channel");
        assert_eq!(
            channel,
            format!("{} (1)", row["connection"].as_str().expect("its name"))
        );
    }
    assert_eq!(
        of(&shown(node, queue, "?consumer=worker"), "payload"),
        ["first", "second"]
    );
    assert_eq!(shown(node, queue, "?consumer=nobody"), Vec::<Value>::new());
    let second = shown(node, queue, "?position=2&count=1&truncate=3");
    assert_eq!(
        (of(&second, "payload"), of(&second, "position")),
        (vec![json!("sec")], vec![json!(2)])
    );
    let told = node.says(&["peek", queue, "2", "--unacked", "--consumer", "worker"]);
    for part in ["consumer     worker\n", "routing key  ", "\nsecond\n"] {
        assert!(told.contains(part), "{told}");
    }
    let ready = node.says(&["peek", queue]);
    assert!(ready.contains("\nfourth\n"), "{ready}");
}

#[test]
fn what_clients_hold_is_shown_at_any_node_with_who_holds_it_and_stays() {
    let folder = Folder::new("unacked");
    let nodes = start_three(&folder);
    let queues = [("classic", r#"{"durable": true}"#), ("replicated", QUORUM)];
    let mut clients = Vec::new();
    for (queue, body) in queues {
        let created = nodes[0].http("PUT", &format!("/api/queues/%2f/{queue}"), body);
        assert!(created.starts_with("HTTP/1.1 201"), "{created}");
        for text in ["first", "second", "third", "fourth"] {
            nodes[0].publish("%2f", queue, text);
        }
        clients.push(hold_three(&nodes[2], queue));
    }
    for (queue, _) in queues {
        for node in &nodes {
            check_one(node, queue);
        }
        let list = [
            "-q",
            "list_queues",
            "name",
            "messages_ready",
            "messages_unacknowledged",
        ];
        let expected = format!("{queue}\t1\t3");
        eventually(|| nodes[1].told(&list), |text| text.contains(&expected));
    }
    // Given back, they were delivered once, not as often as they were looked at.
    drop(clients);
    for (queue, _) in queues {
        eventually(
            || nodes[1].told(&["-q", "list_queues", "name", "messages_ready"]),
            |text| text.contains(&format!("{queue}\t4")),
        );
        assert_eq!(shown(&nodes[1], queue, ""), Vec::<Value>::new());
    }
    let told = || nodes[1].http("GET", "/api/queues/%2f/replicated", "");
    eventually(told, |text| text.contains("\"messages_ready_returned\":3"));
    let told = told();
    assert!(told.contains("\"messages_active_priorities\":1"), "{told}");
    assert!(
        told.contains("\"messages_by_priority\":{\"4\":4}"),
        "{told}"
    );
}

#[test]
fn what_very_many_consumers_of_one_tag_hold_is_shown() {
    const CONSUMERS: u16 = 150;
    let folder = Folder::new("unacked-tag");
    let data = folder.data();
    let node = Node::without_http(&data);
    let created = node.http("PUT", "/api/queues/%2f/q", r#"{"durable": true}"#);
    assert!(created.starts_with("HTTP/1.1 201"), "{created}");
    let mut client = connect(node.port("amqp"));
    let on = |channel: u16, method: &[u8]| {
        let mut bytes = frame(1, method);
        bytes[1..3].copy_from_slice(&channel.to_be_bytes());
        bytes
    };
    for channel in 1..=CONSUMERS {
        let qos = [0, 60, 0, 10, 0, 0, 0, 0, 0, 1, 0];
        let (queue, tag, rest) = (short("q"), short("worker"), [0; 5]);
        let consume = [&[0, 60, 0, 20, 0, 0][..], &queue, &tag, &rest].concat();
        for (method, answer) in [
            (&[0, 20, 0, 10, 0][..], [0, 20, 0, 11]),
            (&qos, [0, 60, 0, 11]),
            (&consume, [0, 60, 0, 21]),
        ] {
            client.write_all(&on(channel, method)).expect("written");
            assert_eq!(read_frame(&mut client).expect("an answer"), answer);
        }
    }
    for _ in 0..CONSUMERS {
        node.publish("%2f", "q", "held");
    }
    let last = || shown(&node, "q", "?consumer=worker&position=101&count=100").len();
    eventually(|| last().to_string(), |rows| rows == "50");
}
