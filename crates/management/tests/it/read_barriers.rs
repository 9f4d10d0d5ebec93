//! What another node of the cluster was told of a moment ago.

use crate::api::{Api, start};
use std::sync::atomic::Ordering::Relaxed;

/// The API of a node that has yet to hear what others know; of no other if it is alone.
fn behind(is_clustered: bool) -> Api {
    let api = start();
    api.node.is_clustered.store(is_clustered, Relaxed);
    api.node.is_behind.store(true, Relaxed);
    api
}

#[test]
fn who_names_what_another_node_has_just_been_told_of_is_not_told_that_it_is_not_there() {
    let requests = [
        ("administrator", "GET", "/api/queues/%2F/q", 200),
        ("administrator", "DELETE", "/api/queues/%2F/q", 204),
        ("management", "GET", "/api/whoami", 200),
    ];
    for (user, method, path, status) in requests {
        let api = behind(true);
        let page = api.by(user, method, path, "");
        assert_eq!(page.status, status, "{user} {method} {path}: {page:?}");
        assert_eq!(api.node.barriers.load(Relaxed), 1, "{user} {method} {path}");
        // Who finds what it names waits for nothing.
        let page = api.by("administrator", "GET", "/api/queues/%2F/q", "");
        assert_eq!((page.status, api.node.barriers.load(Relaxed)), (200, 1));
        let alone = behind(false);
        let page = alone.by(user, method, path, "");
        assert!(matches!(page.status, 401 | 404), "{page:?}");
        assert_eq!(alone.node.barriers.load(Relaxed), 0);
    }
}

#[test]
fn what_is_nowhere_is_not_there_after_one_barrier_and_a_change_of_it_is_kept_once() {
    let api = behind(true);
    for (method, path) in [
        ("GET", "/api/queues/%2F/none"),
        ("DELETE", "/api/queues/%2F/none"),
    ] {
        api.node.barriers.store(0, Relaxed);
        assert_eq!(api.admin(method, path, "").status, 404, "{method}");
        assert_eq!(api.node.barriers.load(Relaxed), 1, "{method}");
    }
    let changes = api.get("/api/leveret/changes");
    let changes = changes.as_array().expect("a list");
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(changes[0]["status"], 404);
}

#[test]
fn whether_a_user_is_known_or_not_a_wrong_password_waits_for_one_barrier() {
    let api = behind(true);
    for user in ["administrator", "nobody"] {
        api.node.barriers.store(0, Relaxed);
        let wrong = crate::client::basic(user, "wrong");
        assert_eq!(api.send(&wrong, "GET", "/api/whoami", "").status, 401);
        assert_eq!(api.node.barriers.load(Relaxed), 1, "{user}");
    }
}
