//! Messages that are searched for in a queue, over real HTTP on loopback.

use crate::api::{Api, start};
use leveret_management::api::{Got, LookedAt};
use leveret_types::limits::QUEUE_SEARCH_MESSAGES_MAX;
use leveret_types::{FieldTable, ReplyCode};
use serde_json::{Value, json};

/// A queue of so many messages, of which every hundredth has another key.
fn filled(messages: usize) -> Api {
    let api = start();
    let message = |n: usize| LookedAt {
        fingerprint: n as u64,
        taken_ms: 1_000,
        message: Got {
            exchange: String::new(),
            routing_key: if n % 100 == 99 { "rare" } else { "usual" }.to_owned(),
            redelivered: false,
            remaining: 0,
            properties: FieldTable::new(),
            payload: format!("{{\"n\":{n}}}").into_bytes(),
            body_bytes: format!("{{\"n\":{n}}}").len(),
        },
    };
    *api.node.waiting.lock().expect("messages") = (0..messages).map(message).collect();
    api
}

fn positions(answer: &Value) -> Vec<u64> {
    let found = answer["messages"].as_array().expect("a list").iter();
    found.filter_map(|one| one["position"].as_u64()).collect()
}

#[test]
fn a_search_finds_what_has_the_key_and_goes_on_where_it_ended() {
    let api = filled(350);
    let search = |query: &str| api.get(&format!("/api/leveret/queues/%2F/q/search?{query}"));
    let all = search("key=rare");
    assert_eq!(positions(&all), [100, 200, 300]);
    assert_eq!(
        (&all["looked_at"], &all["next_position"]),
        (&json!(350), &Value::Null)
    );
    assert_eq!(all["messages"][0]["payload"], "{\"n\":99}");
    assert_eq!(all["messages"][0]["timestamp"], 1_000);

    let one = search("key=rare&count=1");
    assert_eq!(positions(&one), [100]);
    assert_eq!(one["next_position"], 101);
    let next = search("key=rare&count=1&position=101");
    assert_eq!(
        (positions(&next), &next["next_position"]),
        (vec![200], &json!(201))
    );
    assert_eq!(positions(&search("json=/n:299")), [300]);
    assert_eq!(positions(&search("older_than=4000000000")), [0; 0]);
    let refused = api.admin("GET", "/api/leveret/queues/%2F/q/search?json=n", "");
    assert_eq!(refused.status, 400, "{refused:?}");
}

#[test]
fn one_request_looks_at_so_many_messages() {
    let most = usize::try_from(QUEUE_SEARCH_MESSAGES_MAX).expect("a small number");
    let api = filled(most + 200);
    let path = "/api/leveret/queues/%2F/q/search?key=nowhere";
    let answer = api.get(path);
    // A slow machine may be told to go on earlier.
    let looked_at = answer["looked_at"].as_u64().expect("a number");
    assert!(looked_at <= QUEUE_SEARCH_MESSAGES_MAX, "{answer}");
    assert_eq!(answer["next_position"], looked_at + 1);
    let mut next = looked_at + 1;
    loop {
        let answer = api.get(&format!("{path}&position={next}"));
        match answer["next_position"].as_u64() {
            Some(position) => next = position,
            None => break,
        }
    }
}

#[test]
fn a_message_that_cannot_be_read_is_told_and_passed_over() {
    let api = filled(350);
    *api.node.unreadable_from.lock().expect("where") = Some(150);
    let search = |query: &str| api.get(&format!("/api/leveret/queues/%2F/q/search?{query}"));
    let first = search("key=rare");
    assert_eq!(positions(&first), [100]);
    assert_eq!(first["unreadable"], "a message of 'q' cannot be read");
    assert_eq!(first["next_position"], 152);
    assert_eq!(positions(&search("key=rare&position=152")), [200, 300]);
    let at_once = search("key=rare&position=151");
    let told = (&at_once["looked_at"], &at_once["next_position"]);
    assert_eq!(told, (&json!(1), &json!(152)), "{at_once}");
}

#[test]
fn a_queue_that_nobody_answers_for_is_not_passed_over() {
    let api = filled(350);
    *api.node.unreadable_from.lock().expect("where") = Some(150);
    *api.node.look_error.lock().expect("how") = Some(ReplyCode::ResourceError);
    let path = "/api/leveret/queues/%2F/q/search?key=rare";
    let first = api.get(path);
    assert_eq!(
        (positions(&first), &first["unreadable"]),
        (vec![100], &Value::Null)
    );
    assert_eq!(first["next_position"], 151);
    let next = api.admin("GET", &format!("{path}&position=151"), "");
    assert_eq!(next.status, 503, "{next:?}");
}

#[test]
fn a_text_and_a_body_that_repeat_take_no_longer_than_others() {
    let api = filled(120);
    for found in api.node.waiting.lock().expect("messages").iter_mut() {
        found.message.payload = vec![b'a'; 500_000];
    }
    let part = "a".repeat(1_000);
    let answer = api.get(&format!("/api/leveret/queues/%2F/q/search?body={part}b"));
    assert_eq!(
        (positions(&answer), &answer["looked_at"]),
        (vec![], &json!(120))
    );
}
