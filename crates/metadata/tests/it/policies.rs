//! Policies: which are accepted, which apply, and what is in force then.

use crate::world::{World, check};
use leveret_metadata::{Config, Overflow, QueueSettings};
use leveret_types::limits::{
    DELIVERY_LIMIT, STREAM_SEGMENT_BYTES_MAX, STREAM_SEGMENT_BYTES_MIN, TTL_MS_MAX,
};

fn refused(definition: &str, text: &str) {
    let mut world = World::new(Config::default());
    let answer = world
        .run(&format!("policy p {definition}"))
        .expect("an answer");
    assert_eq!(
        answer,
        format!("406 Validation failed\n\n{text}\n"),
        "{definition}"
    );
}

#[test]
fn every_key_is_checked() {
    refused(
        "colour=red",
        "[{<<\"colour\">>,<<\"red\">>}] are not recognised policy settings",
    );
    refused("", "no policy provided");
    for (definition, text) in [
        ("message-ttl=-1", "-1 is not a valid message TTL"),
        (
            "message-ttl=soon",
            "<<\"soon\">> is not a valid message TTL",
        ),
        ("expires=0", "0 is not a valid queue expiry"),
        ("max-length=-1", "-1 is not a valid maximum length"),
        (
            "max-length-bytes=-1",
            "-1 is not a valid maximum length in bytes",
        ),
        (
            "max-in-memory-length=-1",
            "-1 is not a valid maximum memory in bytes",
        ),
        (
            "max-in-memory-bytes=x",
            "<<\"x\">> is not a valid maximum memory in bytes",
        ),
        (
            "alternate-exchange=1",
            "1 is not a valid alternate exchange name",
        ),
        (
            "dead-letter-exchange=1",
            "1 is not a valid dead letter exchange name",
        ),
        (
            "dead-letter-routing-key=1",
            "1 is not a valid dead letter routing key",
        ),
        (
            "dead-letter-strategy=x",
            "<<\"x\">> is not a valid dead letter strategy",
        ),
        ("overflow=x", "<<\"x\">> is not a valid overflow value"),
        (
            "delivery-limit=x",
            "<<\"x\">> is not a valid delivery limit",
        ),
        ("queue-mode=x", "<<\"x\">> is not a valid queue-mode value"),
        ("queue-version=3", "3 is not a valid queue version"),
        (
            "queue-leader-locator=x",
            "<<\"x\">> is not a valid queue leader locator value",
        ),
        (
            "queue-master-locator=x",
            "<<\"x\">> is not a valid queue master locator",
        ),
        ("initial-cluster-size=-1", "-1 is not a valid cluster size"),
        (
            "target-group-size=0",
            "0 is not a valid qq target count value",
        ),
        ("max-age=7X", "<<\"7X\">> is not a valid max age"),
        (
            "stream-max-segment-size-bytes=-1",
            "-1 is not a valid segment size",
        ),
        (
            "stream-filter-size-bytes=15",
            "15 is not a valid filter size",
        ),
        ("consumer-timeout=-1", "-1 is not a valid consumer timeout"),
        (
            "delayed-retry-type=x",
            "<<\"x\">> is not a valid delayed-retry-type",
        ),
        (
            "delayed-retry-min=-1",
            "-1 is not a valid delayed-retry-min",
        ),
        (
            "federation-upstream=u",
            "[{<<\"federation-upstream\">>,<<\"u\">>}] are not recognised policy settings",
        ),
        ("ha-mode=most", "<<\"most\">> is not a valid ha-mode value"),
        ("ha-mode=exactly", "ha-mode=\"exactly\" takes an integer"),
        (
            "ha-mode=all ha-params=2",
            "ha-mode=\"all\" does not take parameters",
        ),
        (
            "ha-mode=nodes ha-params=2",
            "ha-mode=\"nodes\" takes a list of strings",
        ),
        (
            "ha-mode=nodes ha-params=[]",
            "ha-mode=\"nodes\" list must be non-empty",
        ),
        (
            "ha-sync-mode=automatic",
            "ha-mode must be specified to specify ha-params, ha-sync-mode or \
                ha-promote-on-shutdown",
        ),
        (
            "apply-to=moons max-length=1",
            "apply-to should be one of all, queues, classic_queues, quorum_queues, streams, \
                exchanges but got moons",
        ),
    ] {
        refused(definition, text);
    }
}

#[test]
fn every_key_is_accepted() {
    let ttl = format!("message-ttl={TTL_MS_MAX}l expires={TTL_MS_MAX}l");
    for definition in [
        ttl.as_str(),
        "message-ttl=0 expires=1 max-length=0 max-length-bytes=0",
        "alternate-exchange=a dead-letter-exchange=b dead-letter-routing-key=c",
        "dead-letter-strategy=at-least-once overflow=reject-publish delivery-limit=-1",
        "max-in-memory-length=1 max-in-memory-bytes=1 consumer-timeout=1 \
            consumer-disconnected-timeout=1",
        "queue-mode=lazy queue-version=1 queue-leader-locator=balanced \
            queue-master-locator=min-masters",
        "initial-cluster-size=3 target-group-size=1 max-age=7D",
        "stream-max-segment-size-bytes=500000000 stream-filter-size-bytes=255",
        "delayed-retry-type=all delayed-retry-min=1 delayed-retry-max=2",
        "ha-mode=all ha-sync-mode=automatic ha-sync-batch-size=10 ha-promote-on-shutdown=always \
            ha-promote-on-failure=when-synced",
        "ha-mode=exactly ha-params=2",
        "ha-mode=nodes ha-params=[rabbit@a,rabbit@b]",
    ] {
        check(&format!("policy p {definition}"), "ok");
    }
    refused(
        &format!("message-ttl={}l", TTL_MS_MAX + 1),
        "315360000001 is not a valid message TTL",
    );
    refused(
        &format!("expires={}l", TTL_MS_MAX + 1),
        "315360000001 is not a valid queue expiry",
    );
}

#[test]
fn operators_have_fewer_keys() {
    for key in [
        "expires=1",
        "message-ttl=1",
        "max-length=1",
        "max-length-bytes=1",
        "max-in-memory-length=1",
        "max-in-memory-bytes=1",
        "delivery-limit=1",
        "queue-version=2",
        "overflow=reject-publish",
        "target-group-size=5",
    ] {
        check(&format!("operator-policy p {key}"), "ok");
    }
    let mut world = World::new(Config::default());
    assert_eq!(
        world
            .run("operator-policy p dead-letter-exchange=x")
            .as_deref(),
        Some(
            "406 Validation failed\n\n[{<<\"dead-letter-exchange\">>,<<\"x\">>}] are not \
                recognised policy settings\n"
        )
    );
}

#[test]
fn patterns_are_checked_and_names_bounded() {
    check(
        "policy p pattern=( max-length=1",
        "406 invalid regular expression '(': unclosed group",
    );
    check("policy p pattern=^(?!amq\\.).* max-length=1", "ok");
    check(
        "delete-policy p; delete-operator-policy p",
        "404 no policy 'p' in vhost '/'\n 404 no operator policy 'p' in vhost '/'",
    );
}

/// What is in force for queue `q` after a script.
fn settings(script: &str) -> (Option<String>, Option<String>, QueueSettings) {
    let mut world = World::new(Config::default());
    for line in script.split(';') {
        let answer = world.run(line.trim()).unwrap_or_default();
        assert!(answer == "ok" || answer == "new", "{line}: {answer}");
    }
    world.verify();
    let queue = world.catalogue.queue_by_name("/", "q").expect("a queue");
    let name = |name: Option<&str>| name.map(str::to_owned);
    (
        name(queue.policy()),
        name(queue.operator_policy()),
        queue.settings().clone(),
    )
}

#[test]
fn the_highest_priority_applies() {
    let policy = |script: &str| settings(script).0;
    let applies = |name: &str| Some(name.to_owned());
    assert_eq!(policy("queue q; policy a max-length=1"), applies("a"));
    assert_eq!(
        policy("policy a max-length=1; policy b max-length=2 priority=1; queue q"),
        applies("b")
    );
    assert_eq!(
        policy("policy b max-length=1; policy a max-length=2; queue q"),
        applies("a")
    );
    assert_eq!(policy("policy a max-length=1 pattern=^x; queue q"), None);
    assert_eq!(
        policy("policy a max-length=1; queue q; delete-policy a"),
        None
    );
    assert_eq!(
        policy("policy a max-length=1 apply-to=exchanges; queue q"),
        None
    );
    assert_eq!(
        policy("policy a max-length=1 apply-to=quorum_queues; queue q"),
        None
    );
    assert_eq!(
        policy("policy a max-length=1 apply-to=classic_queues; queue q"),
        applies("a")
    );
    assert_eq!(
        policy("policy a max-length=1 apply-to=queues; queue q durable x-queue-type=quorum"),
        applies("a")
    );
    assert_eq!(
        policy("policy a max-length=1 apply-to=streams; queue q durable x-queue-type=quorum"),
        None
    );
    // Keys of the other type make a policy pass a queue by, whatever else it says.
    assert_eq!(
        policy("policy a max-length=1 delivery-limit=3 priority=9; policy b max-length=2; queue q"),
        applies("b")
    );
    assert_eq!(
        policy(
            "policy a ha-mode=all priority=9; policy b max-length=2; queue q durable \
                x-queue-type=quorum"
        ),
        applies("b")
    );
}

/// As in RabbitMQ a policy may say any size; the nearest that may be is in force.
#[test]
fn a_policys_size_of_segments_is_brought_within_bounds() {
    for (said, is) in [
        (0, STREAM_SEGMENT_BYTES_MIN),
        (STREAM_SEGMENT_BYTES_MIN - 1, STREAM_SEGMENT_BYTES_MIN),
        (STREAM_SEGMENT_BYTES_MIN + 1, STREAM_SEGMENT_BYTES_MIN + 1),
        (STREAM_SEGMENT_BYTES_MAX, STREAM_SEGMENT_BYTES_MAX),
        (1_000_000_000_000, STREAM_SEGMENT_BYTES_MAX),
    ] {
        let mut world = World::new(Config::default());
        world.run("queue s durable x-queue-type=stream");
        world.run(&format!("policy p s stream-max-segment-size-bytes={said}l"));
        let record = world.catalogue.queue_by_name("/", "s").expect("declared");
        let settings = record.settings().stream.as_ref().expect("it is a stream");
        assert_eq!(settings.segment_bytes, is, "{said}");
    }
}

/// A request brings no such pattern: an earlier version stored it, or definitions have it.
#[test]
fn a_policy_whose_pattern_takes_too_long_is_kept_and_applies_to_nothing() {
    const COSTLY: &str = "pattern=(?:[ab]?){6000}";
    let script = format!(
        "policy old max-length=1 priority=9 {COSTLY}; operator-policy old max-length=2 {COSTLY}; \
         policy usual max-length=3; queue q"
    );
    let (policy, operator, settings) = settings(&script);
    assert_eq!(policy.as_deref(), Some("usual"));
    assert_eq!(operator, None);
    assert_eq!(settings.length_max, Some(3));

    let mut world = World::new(Config::default());
    for line in script.split(';') {
        world.run(line.trim());
    }
    let vhost = world.catalogue.vhost("/").expect("it is there");
    assert_eq!(vhost.policies().len(), 2, "it is listed");
    let called = [
        "policy 'old' in vhost '/'",
        "operator policy 'old' in vhost '/'",
    ];
    assert_eq!(world.catalogue.policies_too_costly(), called);
    let definitions = leveret_metadata::Definitions {
        policies: vec![leveret_metadata::PolicyDefinition {
            vhost: "/".to_owned(),
            name: "old".to_owned(),
            ..Default::default()
        }],
        ..Default::default()
    };
    let lines = definitions.passed_over(&world.catalogue, None);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with(called[0]), "{lines:?}");
    world.run("policy old max-length=1 priority=9 pattern=^q");
    world.run("delete-operator-policy old");
    assert!(world.catalogue.policies_too_costly().is_empty());
    let queue = world.catalogue.queue_by_name("/", "q").expect("a queue");
    assert_eq!(
        queue.policy(),
        Some("old"),
        "with another pattern it applies"
    );
}

#[test]
fn limits_take_the_lowest_and_all_else_the_argument() {
    let (_, operator, merged) = settings(
        "policy p max-length=10 message-ttl=100 dead-letter-exchange=from-policy \
            overflow=reject-publish;
         operator-policy o max-length=5 message-ttl=1000 expires=7;
         queue q x-max-length=8 x-message-ttl=50 x-dead-letter-exchange=from-argument
         x-dead-letter-routing-key=k x-max-priority=4 x-single-active-consumer=true",
    );
    assert_eq!(operator.as_deref(), Some("o"));
    let expected = QueueSettings {
        length_max: Some(5),
        ttl_ms: Some(50),
        expires_ms: Some(7),
        overflow: Overflow::RejectPublish,
        dead_letter_exchange: Some("from-argument".into()),
        dead_letter_routing_key: Some("k".into()),
        priority_max: 4,
        single_active: true,
        ..QueueSettings::default()
    };
    assert_eq!(merged, expected);
    let (.., merged) = settings(
        "policy p overflow=drop-head; operator-policy o overflow=reject-publish-dlx; queue q",
    );
    assert_eq!(merged.overflow, Overflow::RejectPublishDlx);
}

#[test]
fn delivery_limits() {
    let limit = |script: &str| settings(script).2.delivery_limit;
    let quorum = "queue q durable x-queue-type=quorum";
    assert_eq!(limit("queue q"), None);
    assert_eq!(limit(quorum), Some(DELIVERY_LIMIT));
    assert_eq!(limit(&format!("{quorum} x-delivery-limit=3")), Some(3));
    assert_eq!(limit(&format!("{quorum} x-delivery-limit=-1")), None);
    assert_eq!(
        limit(&format!(
            "policy p delivery-limit=5; {quorum} x-delivery-limit=-1"
        )),
        Some(5)
    );
    assert_eq!(
        limit(&format!("policy p delivery-limit=-1; {quorum}")),
        None
    );
    assert_eq!(
        limit(&format!(
            "policy p delivery-limit=9; operator-policy o delivery-limit=-1; {quorum}"
        )),
        Some(9)
    );
}

#[test]
fn a_group_is_to_be_as_large_as_the_greatest_target() {
    let target = |policies: &str| {
        let queue = "queue q durable x-queue-type=quorum";
        settings(&format!("{policies}; {queue}")).2.target_size
    };
    assert_eq!(target("operator-policy o target-group-size=5"), Some(5));
    for (user, operator) in [(3, 5), (5, 3), (5, 5)] {
        let policies = format!(
            "policy p target-group-size={user}; operator-policy o target-group-size={operator}"
        );
        assert_eq!(target(&policies), Some(5), "{policies}");
    }
}

#[test]
fn quorum_queues_reject_or_drop() {
    let quorum = "queue q durable x-queue-type=quorum x-dead-letter-exchange=d \
        x-dead-letter-strategy=at-least-once";
    let of = |overflow: &str| settings(&format!("{quorum} x-overflow={overflow}")).2;
    assert_eq!(of("reject-publish-dlx").overflow, Overflow::DropHead);
    assert!(!of("drop-head").dead_letter_at_least_once);
    assert!(of("reject-publish").dead_letter_at_least_once);
}

#[test]
fn changes_are_named_once_for_each_queue_that_they_concern() {
    let mut world = World::new(Config::default());
    for line in ["queue a", "queue b", "queue c durable x-queue-type=quorum"] {
        world.run(line);
    }
    let ids = |world: &World, name: &str| world.catalogue.queue_by_name("/", name).map(|q| q.id());
    let (a, b) = (ids(&world, "a"), ids(&world, "b"));
    world.changes.clear();
    world.run("policy p pattern=^[ab]$ max-length=1");
    let changed = |world: &mut World| -> Vec<_> {
        let changes = std::mem::take(&mut world.changes).into_iter();
        changes
            .map(|change| match change {
                leveret_metadata::Change::QueueChanged(id) => Some(id),
                other => panic!("{other:?}"),
            })
            .collect()
    };
    assert_eq!(changed(&mut world), [a, b]);
    world.run("policy p pattern=^[a]$ max-length=1");
    assert_eq!(changed(&mut world), [b]);
    // Another name for the same: nothing that a queue would have to know.
    world.run("policy r pattern=^[a]$ max-length=1 priority=5");
    assert_eq!(changed(&mut world), []);
    world.run("delete-policy p");
    world.run("delete-policy r");
    assert_eq!(changed(&mut world), [a]);
    world.verify();
}

#[test]
fn alternate_exchanges_by_policy() {
    check(
        "exchange x direct durable; exchange y direct alternate-exchange=own; policy p \
            alternate-exchange=other; alternate x; alternate y; delete-policy p; alternate x; \
            alternate y",
        "Some(\"other\")\n Some(\"own\")\n ok\n None\n Some(\"own\")",
    );
    check(
        "policy p alternate-exchange=other apply-to=queues; exchange x direct; alternate x",
        "None",
    );
    check(
        "policy p alternate-exchange=other apply-to=exchanges pattern=^x$; exchange x direct; \
            alternate x; alternate amq.direct",
        "Some(\"other\")\n None",
    );
}
