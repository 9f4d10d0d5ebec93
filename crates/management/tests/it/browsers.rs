//! What a browser is kept from, and what a user who does not see all is told.

use crate::api::start;
use crate::client::{basic, exchange};
use leveret_management::Service;
use serde_json::json;

#[test]
fn a_browser_does_nothing_for_pages_of_others() {
    let api = start();
    let address = api.address(Service::Api);
    let send = |method: &str, path: &str, headers: &str| {
        let authorization = basic("administrator", "administrator");
        let body = r#"{"vhosts":[]}"#;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nConnection: close\r\nAuthorization: {authorization}\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        exchange(address, request.as_bytes())
    };
    let own = format!("Host: {address}\r\nOrigin: http://{address}\r\n");
    let foreign = format!("Host: {address}\r\nOrigin: http://evil.example\r\n");
    let (text, json) = (
        "Content-Type: text/plain\r\n",
        "Content-Type: application/json\r\n",
    );
    for headers in [
        format!("{foreign}{text}"),
        format!("{foreign}{json}"),
        format!("{own}{text}"),
        // One that is too old to say from which page it comes.
        format!("Host: {address}\r\nUser-Agent: Mozilla/5.0 (X11)\r\n{text}"),
    ] {
        let answer = send("POST", "/api/definitions", &headers);
        assert_eq!(answer.status, 403, "{headers}: {answer:?}");
    }
    assert!(api.asked().is_empty());
    // Its own page may, and so may every program, whatever type it says that it sends.
    for headers in [
        format!("{own}{json}"),
        format!(
            "Host: {address}\r\nUser-Agent: curl/8.5.0\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        ),
        "Host: mq.internal\r\n".to_owned(),
    ] {
        let answer = send("POST", "/api/definitions", &headers);
        assert_eq!(answer.status, 204, "{headers}: {answer:?}");
        assert_eq!(api.asked().len(), 1, "{headers}");
    }
    // A name that was made to mean this machine is none of the node's.
    let rebound = "Host: evil.example\r\nUser-Agent: Mozilla/5.0\r\n";
    assert_eq!(send("GET", "/api/users", rebound).status, 403);
}

#[test]
fn a_script_that_is_not_let_in_makes_no_browser_ask_for_a_password() {
    let api = start();
    let address = api.address(Service::Api);
    for (header, asks) in [
        ("", true),
        ("Sec-Fetch-Mode: navigate\r\n", true),
        ("Sec-Fetch-Mode: cors\r\n", false),
        ("X-Requested-With: XMLHttpRequest\r\n", false),
    ] {
        let request = format!(
            "GET /api/overview HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{header}\r\n"
        );
        let answer = exchange(address, request.as_bytes());
        assert_eq!(answer.status, 401, "{header}");
        assert_eq!(answer.head.contains("www-authenticate"), asks, "{header}");
    }
}

#[test]
fn sums_are_of_what_their_reader_may_see() {
    let api = start();
    let all = api.by("monitoring", "GET", "/api/overview", "").json();
    let some = api.by("management", "GET", "/api/overview", "").json();
    for (path, of_all, of_some) in [
        ("/queue_totals/messages", 16, 6),
        ("/queue_totals/messages_ready", 13, 4),
        ("/object_totals/queues", 3, 2),
        ("/object_totals/exchanges", 2, 3),
        ("/object_totals/connections", 2, 1),
    ] {
        assert_eq!(all.pointer(path), Some(&json!(of_all)), "{path}");
        assert_eq!(some.pointer(path), Some(&json!(of_some)), "{path}");
    }
    assert_eq!(some["message_stats"]["publish_details"]["rate"], 0.0);
    // Which queues of others have no leader is no affair of a user's, either.
    let check = "/api/health/checks/quorum-queues-without-elected-leaders";
    assert_eq!(
        api.by("monitoring", "GET", &format!("{check}/all-vhosts"), "")
            .status,
        503
    );
    assert_eq!(
        api.by("management", "GET", &format!("{check}/all-vhosts"), "")
            .status,
        200
    );
    assert_eq!(
        api.by("management", "GET", &format!("{check}/vhost/other"), "")
            .status,
        404
    );
}
