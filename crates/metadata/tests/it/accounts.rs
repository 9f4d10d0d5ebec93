//! Virtual hosts, users, permissions, limits and parameters.

use crate::world::{World, check};
use leveret_auth::{Access, HashingAlgorithm, PasswordHash, Resource};
use leveret_metadata::{Catalogue, Config, LoginRefusal};
use leveret_types::limits::USER_TAGS_MAX;

#[test]
fn virtual_hosts() {
    check(
        "vhost v; vhost v description=x; delete-vhost v; delete-vhost v",
        "new\n ok\n ok\n 530 vhost v not found",
    );
    check(
        "vhost v protected=yes; delete-vhost v",
        "406 Cannot delete virtual host 'v': it is protected from deletion",
    );
    check(
        "vhost v protected=yes; vhost v protected=no; delete-vhost v",
        "ok",
    );
    check(
        "vhost v; exchange x direct in=v; exchange x direct; queue q in=v; queues; queues in=v",
        "none\n q",
    );
    check(
        "vhost",
        "406 invalid name: 0 bytes, at most 255 are allowed, and none is too few",
    );
    let catalogue = World::new(Config::default()).catalogue;
    let names: Vec<&str> = catalogue
        .vhost("/")
        .expect("it")
        .exchanges()
        .map(|x| x.name())
        .collect();
    assert_eq!(
        names,
        [
            "amq.direct",
            "amq.fanout",
            "amq.headers",
            "amq.match",
            "amq.rabbitmq.trace",
            "amq.topic"
        ]
    );
    assert_eq!(catalogue.exchange_count(), 6);
}

/// Each of these a node without a majority answers by itself: [`World::run`] sees to that.
#[test]
fn a_deletion_of_nothing_is_answered_without_a_change() {
    let mut world = World::new(Config::default());
    for line in [
        "user u",
        "user other",
        "permit other .* .* .*",
        "permit-topic other x .* .*",
        "limit-user other max-channels 1",
        "vhost v",
        "limit max-queues 1 in=v",
        "policy p max-length=1 in=v",
        "operator-policy o max-length=1",
        "exchange x direct in=v",
        "queue q in=v",
        "queue other",
    ] {
        assert!(world.run(line).is_some(), "{line}");
    }
    let before = (world.catalogue.snapshot(), world.catalogue.generation());
    for (line, answer) in [
        ("delete-exchange x", "ok"),
        ("delete-exchange x if-unused", "ok"),
        ("delete-queue q", "ok"),
        ("delete-queue other id=77", "ok"),
        ("unbind amq.direct other key", "ok"),
        ("unbind amq.direct nothing key", "ok"),
        ("forbid u", "ok"),
        ("forbid-topic u", "ok"),
        ("forbid-topic other y", "ok"),
        ("forbid-topic other x in=v", "ok"),
        ("unlimit-user u", "ok"),
        ("unlimit-user other max-connections", "ok"),
        ("unlimit", "ok"),
        ("unlimit max-connections in=v", "ok"),
        ("delete-vhost gone", "530 vhost gone not found"),
        ("delete-exchange x in=gone", "530 vhost gone not found"),
        ("delete-queue q in=gone", "530 vhost gone not found"),
        ("forbid u in=gone", "530 vhost gone not found"),
        ("forbid-topic u in=gone", "530 vhost gone not found"),
        ("unlimit in=gone", "530 vhost gone not found"),
        ("delete-policy p in=gone", "530 vhost gone not found"),
        ("delete-parameter c p in=gone", "530 vhost gone not found"),
    ] {
        assert_eq!(world.run(line).as_deref(), Some(answer), "{line}");
    }
    for line in [
        "delete-user gone",
        "unlimit-user gone",
        "forbid gone",
        "forbid-topic gone",
        "delete-policy p",
        "delete-policy o",
        "delete-operator-policy p in=v",
        "delete-parameter c p",
        "delete-global g",
    ] {
        let answer = world.run(line).expect("an answer");
        assert!(answer != "ok" && answer != "new", "{line}: {answer}");
    }
    let after = (world.catalogue.snapshot(), world.catalogue.generation());
    assert_eq!(before, after);
    world.verify();
}

#[test]
fn what_is_not_given_stays() {
    let mut world = World::new(Config::default());
    world.run("vhost v description=first tags=a,b default=quorum protected=yes tracing=yes");
    world.run("vhost v");
    world.run("user u tags=management");
    world.run("user u");
    let vhost = world.catalogue.vhost("v").expect("a virtual host");
    assert_eq!(vhost.description(), "first");
    assert_eq!(vhost.tags(), ["a", "b"]);
    assert!(vhost.default_queue_type().is_some() && vhost.protected() && vhost.tracing());
    assert!(
        world
            .catalogue
            .user("u")
            .expect("a user")
            .has_tag("management")
    );
    world.verify();
}

#[test]
fn a_virtual_host_takes_everything_with_it() {
    let mut world = World::new(Config::default());
    for line in [
        "vhost v",
        "user u",
        "permit u .* .* .* in=v",
        "permit-topic u amq.topic .* .* in=v",
        "exchange x fanout durable auto in=v",
        "queue q durable in=v",
        "queue t in=v",
        "bind x q k in=v",
    ] {
        assert!(world.run(line).is_some());
    }
    world.changes.clear();
    assert_eq!(world.run("delete-vhost v").as_deref(), Some("ok"));
    // However many exchanges it has, nobody follows each of them.
    let expected = "queue q deleted, queue t deleted, vhost v deleted";
    assert_eq!(world.changed(), expected);
    assert_eq!(
        (
            world.catalogue.queue_count(),
            world.catalogue.exchange_count()
        ),
        (0, 6)
    );
    world.verify();
    assert_eq!(world.run("vhost v").as_deref(), Some("new"));
    let rights = world.catalogue.rights("u", "v", "");
    assert!(rights.check_vhost().is_err() && !rights.restricts_topics_of("amq.topic"));
}

#[test]
fn users_and_permissions() {
    check(
        "delete-user u; permit u .* .* .*; limit-user u max-channels 1",
        "404 no such user 'u'\n 404 no such user 'u'\n 404 no such user 'u'",
    );
    check("user u; permit u .* .* .* in=v", "530 vhost v not found");
    check(
        "user u; permit u ( .* .*",
        "406 invalid regular expression '(': unclosed group",
    );
    check(
        "user u; permit-topic u amq.topic .* (",
        "406 invalid regular expression '(': unclosed group",
    );
    check(
        "user u; permit u a b c; forbid u; forbid u; delete-user u",
        "new\n ok\n ok\n ok\n ok",
    );
    let tags = |count: usize| vec!["t"; count].join(",");
    check(&format!("user u tags={}", tags(USER_TAGS_MAX)), "new");
    check(
        &format!("user u tags={}", tags(USER_TAGS_MAX + 1)),
        "406 33 tags, at most 32 are allowed",
    );
    let mut world = World::new(Config::default());
    for line in [
        "user u",
        "permit u ^c ^w ^r",
        "permit-topic u amq.topic ^{username}$ ^r$",
        "permit-topic u other ^x$ ^x$",
    ] {
        world.run(line);
    }
    let rights = world.catalogue.rights("u", "/", "");
    world.run("queue unrelated");
    assert!(world.catalogue.is_current(&rights));
    assert!(
        rights
            .check(Access::Write, Resource::Exchange("wx"))
            .is_ok()
    );
    assert_eq!(
        rights
            .check(Access::Write, Resource::Exchange("x"))
            .map_err(|e| e.reply_text()),
        Err(
            "ACCESS_REFUSED - write access to exchange 'x' in vhost '/' refused for user 'u'"
                .to_owned()
        )
    );
    assert!(rights.check_topic(Access::Write, "amq.topic", b"u").is_ok());
    assert!(
        rights
            .check_topic(Access::Write, "amq.topic", b"v")
            .is_err()
    );
    world.run("forbid-topic u other");
    assert!(!world.catalogue.is_current(&rights));
    assert!(
        !world
            .catalogue
            .rights("u", "/", "")
            .restricts_topics_of("other")
    );
    assert!(
        world
            .catalogue
            .rights("u", "/", "")
            .restricts_topics_of("amq.topic")
    );
    world.run("forbid-topic u");
    assert!(
        !world
            .catalogue
            .rights("u", "/", "")
            .restricts_topics_of("amq.topic")
    );
    world.verify();
}

#[test]
fn logins() {
    let mut catalogue = Catalogue::new(Config::default());
    let password = PasswordHash::new(HashingAlgorithm::Sha256, b"guest", b"0123456789abcdef");
    for command in Catalogue::defaults("guest", password.expect("a hash"), "/") {
        assert!(catalogue.apply(&command).is_ok());
    }
    let login = |user: &str, password: &str, peer: Option<&str>| {
        let peer = peer.map(|address| address.parse().expect("an address"));
        catalogue
            .login(user, password.as_bytes(), peer)
            .map(|user| user.name().to_owned())
    };
    for peer in [
        None,
        Some("127.0.0.1"),
        Some("::1"),
        Some("::ffff:127.0.0.1"),
    ] {
        assert_eq!(login("guest", "guest", peer), Ok("guest".to_owned()));
    }
    let far = login("guest", "guest", Some("10.0.0.1"));
    assert_eq!(far, Err(LoginRefusal::NotLoopback("guest".to_owned())));
    for (user, password) in [("guest", "wrong"), ("guest", ""), ("nobody", "guest")] {
        // From afar as well: a stranger does not learn which users exist.
        let refused = login(user, password, Some("10.0.0.1"));
        assert_eq!(
            refused,
            Err(LoginRefusal::InvalidCredentials(user.to_owned()))
        );
    }
    assert!(
        catalogue
            .user("guest")
            .expect("guest")
            .has_tag("administrator")
    );
    assert!(
        catalogue
            .rights("guest", "/", "")
            .check(Access::Configure, Resource::Queue("q"))
            .is_ok()
    );
}

#[test]
fn limits_of_connections_and_channels() {
    let mut world = World::new(Config::default());
    for line in [
        "user u",
        "permit u .* .* .*",
        "limit max-connections 2",
        "limit-user u max-connections 3",
        "limit-user u max-channels 4",
    ] {
        world.run(line);
    }
    let text = |result: Result<(), leveret_types::ProtocolError>| {
        result.map_err(|error| format!("{} {}", error.code.code(), error.text))
    };
    let open = |vhost: &str, of_vhost, of_user| {
        text(world.catalogue.check_open("u", vhost, of_vhost, of_user))
    };
    assert_eq!(open("/", 1, 2), Ok(()));
    assert_eq!(
        open("/", 2, 2),
        Err(
            "530 access to vhost '/' refused for user 'u': connection limit (2) is reached"
                .to_owned()
        )
    );
    assert_eq!(
        open("/", 1, 3),
        Err("530 connection refused for user 'u': user connection limit (3) is reached".to_owned())
    );
    assert_eq!(open("v", 0, 0), Err("530 vhost v not found".to_owned()));
    assert_eq!(
        text(world.catalogue.check_open("stranger", "/", 0, 0)),
        Err("530 access to vhost '/' refused for user 'stranger'".to_owned())
    );
    assert_eq!(text(world.catalogue.check_channel("u", 3)), Ok(()));
    assert_eq!(
        text(world.catalogue.check_channel("u", 4)),
        Err(
            "530 number of channels opened for user 'u' has reached the maximum allowed user \
                limit of (4)"
                .to_owned()
        )
    );
    world.run("unlimit-user u max-channels");
    assert_eq!(text(world.catalogue.check_channel("u", 4_000)), Ok(()));
    world.verify();
    check("limit max-moons 1", "406 unrecognised limit 'max-moons'");
    check(
        "user u; limit-user u max-queues 1",
        "406 unrecognised limit 'max-queues'",
    );
}

#[test]
fn parameters() {
    check(
        "parameter shovel s 1; delete-parameter shovel s; delete-parameter shovel s",
        "ok\n ok\n 404 no parameter of shovel 's' in vhost '/'",
    );
    check(
        "global cluster_name hare; delete-global cluster_name; delete-global cluster_name",
        "ok\n ok\n 404 no global parameter 'cluster_name'",
    );
    check("parameter shovel s 1 in=v", "530 vhost v not found");
}

#[test]
fn the_generation_grows_with_every_change_and_only_then() {
    let mut world = World::new(Config::default());
    let mut before = world.catalogue.generation();
    for (line, grows) in [
        ("queue q", true),
        ("queue q", false),
        ("queue q durable", false),
        ("bind amq.direct q k", true),
        ("bind amq.direct q k", false),
        ("unbind amq.direct q k", true),
        ("unbind amq.direct q k", false),
        ("delete-queue q", true),
        ("delete-queue q", false),
        ("user u", true),
        ("permit u .* .* .*", true),
        ("vhost / tracing=yes", true),
    ] {
        world.run(line);
        let after = world.catalogue.generation();
        assert_eq!(after > before, grows, "{line}");
        before = after;
    }
}
