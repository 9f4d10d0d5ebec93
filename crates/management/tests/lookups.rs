//! Whoever looks at one thing, or at numbers, costs nothing of all the others.

mod api;
mod client;
mod fake;

use api::start;
use std::sync::atomic::Ordering::Relaxed;

#[test]
fn who_looks_at_one_thing_has_no_others_copied() {
    let api = start();
    let connection = "127.0.0.1%3A1%20-%3E%20127.0.0.1%3A5672";
    let channel = format!("/api/channels/{connection}%20%281%29");
    let paths = [
        "/api/queues/%2F/q".to_owned(),
        format!("/api/connections/{connection}"),
        channel.clone(),
        "/api/overview".to_owned(),
    ];
    for path in paths {
        let before = api.node.all_asked.load(Relaxed);
        let page = api.admin("GET", &path, "");
        assert_eq!(page.status, 200, "{path}: {page:?}");
        assert_eq!(api.node.all_asked.load(Relaxed), before, "{path}");
    }
    let page = api.admin("GET", &channel, "");
    assert!(page.body.contains("\"consumer_tag\":\"ctag\""), "{page:?}");
    let missing = channel.replace("%281%29", "%282%29");
    assert_eq!(api.admin("GET", &missing, "").status, 404);
}
