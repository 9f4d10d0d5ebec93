//! Definitions: import of what RabbitMQ exports, and export and import again.

use crate::world::World;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use leveret_auth::HashingAlgorithm;
use leveret_metadata::{Catalogue, Command, Config, Definitions};
use leveret_types::limits::IMPORT_UNSUPPORTED_NAMED_MAX;

/// Written after the exports of RabbitMQ 3.8 to 4.1 as its documentation and its management plugin
/// show them.
const EXPORT: &str = include_str!("../definitions/rabbitmq.json");

fn read(json: &str) -> Definitions {
    serde_json::from_str(json).expect("definitions")
}

fn import(
    world: &mut World,
    definitions: &Definitions,
    vhost: Option<&str>,
) -> Result<usize, String> {
    let mut salt = || [7; 16];
    let commands = definitions
        .to_commands(&world.catalogue, vhost, 2, &mut salt)
        .map_err(|error| error.to_string())?;
    for command in &commands {
        let answer = world.apply(command);
        assert!(answer == "ok" || answer == "new", "{command:?}: {answer}");
    }
    world.verify();
    Ok(commands.len())
}

fn imported(json: &str) -> Result<World, String> {
    let mut world = World::new(Config::default());
    import(&mut world, &read(json), None).map(|_| world)
}

#[test]
fn an_export_of_rabbitmq() {
    let world = imported(EXPORT).expect("an import");
    let catalogue = &world.catalogue;
    let guest = catalogue.user("guest").expect("guest");
    assert_eq!(guest.tags(), ["administrator"]);
    assert!(guest.password().verify(b"test12"));
    let old = catalogue.user("old").expect("old");
    assert_eq!(
        (old.tags(), old.password().algorithm),
        (
            &["monitoring".to_owned(), "management".to_owned()][..],
            HashingAlgorithm::Md5
        )
    );
    assert_eq!(
        catalogue
            .user("limited")
            .expect("limited")
            .limit("max-connections"),
        Some(5)
    );
    assert!(old.password().verify(b"secret"));
    assert!(
        !catalogue
            .user("certificate")
            .expect("certificate")
            .password()
            .verify(b"")
    );

    let shop = catalogue.vhost("shop").expect("shop");
    assert_eq!(
        (shop.description(), shop.limit("max-queues")),
        ("Orders and stock", Some(500))
    );
    assert!(shop.default_queue_type().is_some());
    let orders = catalogue.queue_by_name("shop", "orders").expect("orders");
    assert_eq!(orders.kind().name(), "quorum");
    assert_eq!(
        (orders.policy(), orders.operator_policy()),
        (Some("dlx"), Some("caps"))
    );
    let settings = orders.settings();
    assert_eq!(settings.dead_letter_exchange.as_deref(), Some("dead"));
    assert_eq!(
        (settings.length_max, settings.ttl_ms),
        (Some(100_000), Some(134_217_728_000))
    );
    let tasks = catalogue.queue_by_name("/", "celery").expect("celery");
    assert_eq!(
        (tasks.kind().name(), tasks.settings().priority_max),
        ("classic", 10)
    );
    assert_eq!(
        catalogue
            .queue_by_name("/", "mirrored")
            .expect("mirrored")
            .policy(),
        Some("ha-all")
    );
    assert!(
        shop.exchange("by-hash")
            .is_some_and(|x| x.kind() == "x-consistent-hash")
    );
    assert_eq!(shop.router().bindings_from("events").count(), 2);
    assert!(
        catalogue
            .rights("limited", "shop", "")
            .check_topic(leveret_auth::Access::Write, "events", b"limited.x")
            .is_ok()
    );
    assert!(
        catalogue
            .global_parameters()
            .any(|(name, _)| name == "cluster_name")
    );
}

#[test]
fn all_that_is_not_supported_is_named_at_once() {
    let json = r#"{"vhosts": [{"name": "v"}],
        "parameters": [
            {"component": "shovel", "vhost": "v", "name": "s1", "value": {}},
            {"component": "vhost-limits", "vhost": "v", "name": "limits", "value": {}},
            {"component": "federation-upstream", "vhost": "v", "name": "s2", "value": {}}],
        "policies": [{"vhost": "v", "name": "f", "pattern": "",
            "definition": {"federation-upstream-set": "all"}}],
        "exchanges": [
            {"vhost": "v", "name": "jms", "type": "x-jms-topic", "durable": true},
            {"vhost": "v", "name": "fine", "type": "topic", "durable": true}],
        "queues": [{"vhost": "v", "name": "q", "durable": true}],
        "bindings": [{"vhost": "v", "source": "jms", "destination": "q",
            "destination_type": "queue", "routing_key": "k"}]}"#;
    let error = imported(json).map(drop).expect_err("refused").to_string();
    assert!(error.starts_with("4 objects are refused"), "{error}");
    for part in [
        "\nparameter 's1' of shovel: ",
        "\nparameter 's2' of federation-upstream: ",
        "\npolicy 'f' in vhost 'v': ",
        "\nexchange 'jms' in vhost 'v': ",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(error.lines().count(), 5, "{error}");

    let shovels = |count: usize| {
        let one = |n| {
            format!(r#"{{"component": "shovel", "vhost": "v", "name": "s{n}", "value": {{}}}}"#)
        };
        let all: Vec<String> = (0..count).map(one).collect();
        let all = all.join(",");
        let json = format!(r#"{{"vhosts": [{{"name": "v"}}], "parameters": [{all}]}}"#);
        imported(&json).map(drop).expect_err("refused").to_string()
    };
    let most = IMPORT_UNSUPPORTED_NAMED_MAX;
    assert!(!shovels(most).contains("more"));
    let more = shovels(most + 7);
    assert!(more.ends_with("\nand 7 more"), "{more}");
    assert_eq!(more.lines().count(), most + 2);
}

#[test]
fn all_faults_are_named_at_once_but_for_those_that_others_bring_about() {
    let json = r#"{"vhosts": [{"name": "v"}, {"name": "bad", "default_queue_type": "odd"}],
        "users": [{"name": "u", "password_hash": "odd", "tags": ""}],
        "permissions": [
            {"user": "nobody", "vhost": "v", "configure": "", "write": "", "read": ""},
            {"user": "u", "vhost": "v", "configure": "", "write": "", "read": ""}],
        "policies": [{"vhost": "v", "name": "p", "pattern": "", "definition": {"odd": 1}}],
        "exchanges": [{"vhost": "v", "name": "x", "type": "x-odd", "durable": true}],
        "queues": [
            {"vhost": "v", "name": "q", "durable": true},
            {"vhost": "v", "name": "odd", "durable": true, "arguments": {"x-max-length": "a"}},
            {"vhost": "bad", "name": "q", "durable": true}],
        "bindings": [
            {"vhost": "v", "source": "x", "destination": "q", "destination_type": "queue"},
            {"vhost": "v", "source": "gone", "destination": "q", "destination_type": "queue"},
            {"vhost": "v", "source": "amq.topic", "destination": "odd",
             "destination_type": "queue"}]}"#;
    let error = imported(json).map(drop).expect_err("refused").to_string();
    let begin = |line: &str| line.split_once(": ").map(|(item, _)| item.to_owned());
    let items: Vec<String> = error.lines().skip(1).filter_map(begin).collect();
    assert_eq!(
        items,
        [
            "vhost 'bad'",
            "user 'u'",
            "permission of user 'nobody' in vhost 'v'",
            "policy 'p' in vhost 'v'",
            "exchange 'x' in vhost 'v'",
            "queue 'odd' in vhost 'v'",
            "binding from 'gone' to queue 'q' in vhost 'v'",
        ],
        "{error}"
    );
    assert!(error.starts_with("7 objects are refused"), "{error}");
}

/// What nothing reads is not kept; what is a policy or a limit is checked as one.
#[test]
fn parameters_of_components_that_are_not_there_are_refused() {
    for (component, value, expected) in [
        ("shovel", "{}", "component shovel not found"),
        (
            "federation-upstream",
            "{}",
            "component federation-upstream not found",
        ),
        (
            "global",
            "1",
            "parameters of component global may not be set",
        ),
        ("\\u0000", "1", "component \0 not found"),
        ("operator_policy", "1", "'p'"),
        ("policy", "{}", "'p'"),
        (
            "vhost-limits",
            "{\"max-moons\":0}",
            "unrecognised limit 'max-moons'",
        ),
    ] {
        let json = format!(
            r#"{{"vhosts":[{{"name":"v"}}],"parameters":
                [{{"component":"{component}","vhost":"v","name":"p","value":{value}}}]}}"#
        );
        let error = imported(&json).map(drop).expect_err(component);
        assert!(error.to_string().contains(expected), "{component}: {error}");
    }
}

#[test]
fn an_export_is_the_import_of_itself() {
    let world = imported(EXPORT).expect("an import");
    let exported = world.catalogue.export(None);
    let json = serde_json::to_string(&exported).expect("JSON");
    let again = imported(&json).expect("an import");
    assert_eq!(again.catalogue.export(None), exported);
    assert_eq!(read(&json), exported);
    let predeclared = exported
        .exchanges
        .iter()
        .filter(|x| x.name.starts_with("amq."));
    assert_eq!(predeclared.count(), 0);
}

#[test]
fn what_does_not_survive_a_restart_is_not_exported() {
    let mut world = World::new(Config::default());
    for line in [
        "queue d durable",
        "queue t",
        "queue e durable exclusive=1",
        "exchange x fanout durable",
        "exchange y fanout",
        "bind x d k",
        "bind x t k",
        "bind y d k",
        "bind amq.direct d k",
    ] {
        assert_eq!(world.run(line).as_deref(), Some("new"), "{line}");
    }
    let exported = world.catalogue.export(None);
    let names = |items: Vec<&str>| items.join(" ");
    assert_eq!(
        names(exported.queues.iter().map(|q| &*q.name).collect()),
        "d"
    );
    assert_eq!(
        names(exported.exchanges.iter().map(|x| &*x.name).collect()),
        "x"
    );
    assert_eq!(
        names(exported.bindings.iter().map(|b| &*b.source).collect()),
        "amq.direct x"
    );
}

#[test]
fn one_virtual_host_into_another() {
    let world = imported(EXPORT).expect("an import");
    let shop = world.catalogue.export(Some("shop"));
    assert!(shop.users.is_empty() && shop.vhosts.is_empty());
    assert_eq!(
        shop.rabbitmq_definition_format.as_deref(),
        Some("single_virtual_host")
    );
    let json = serde_json::to_value(&shop).expect("JSON");
    assert!(json["queues"][0].get("vhost").is_none());
    let mut other = World::new(Config::default());
    other.run("vhost copy");
    assert!(import(&mut other, &shop, Some("copy")).is_ok());
    assert_eq!(other.catalogue.export(Some("copy")).queues, shop.queues);
    assert_eq!(other.catalogue.export(Some("copy")).bindings, shop.bindings);
    assert_eq!(
        import(&mut other, &shop, None),
        Err("invalid definitions: items name no virtual host: import them into one".to_owned())
    );
}

/// A whole export goes into one virtual host as far as it is about what is in one.
#[test]
fn an_import_into_one_virtual_host_changes_no_user_and_grants_nothing() {
    let mut world = World::new(Config::default());
    world.run("vhost copy");
    let before = world.catalogue.export(None);
    let whole = read(
        r#"{"vhosts":[{"name":"other"}],
            "users":[{"name":"eve","password":"x","tags":["administrator"]}],
            "permissions":[{"user":"guest","vhost":"/","configure":"","write":"","read":""}],
            "topic_permissions":[{"user":"guest","vhost":"/","exchange":"x","write":"","read":""}],
            "global_parameters":[{"name":"p","value":1}],
            "queues":[{"name":"q","vhost":"/","durable":true}]}"#,
    );
    assert!(import(&mut world, &whole, Some("copy")).is_ok());
    let after = world.catalogue.export(None);
    assert_eq!(after.users, before.users);
    assert_eq!(after.permissions, before.permissions);
    assert_eq!(after.topic_permissions, before.topic_permissions);
    assert_eq!(after.vhosts, before.vhosts);
    assert_eq!(after.global_parameters, before.global_parameters);
    assert!(world.catalogue.queue_by_name("copy", "q").is_some());
}

/// Clients may have let the broker name a queue that lasts, and plugins have exchanges of their
/// own.
#[test]
fn names_that_only_the_broker_gives_are_passed_over_with_their_bindings() {
    let mut world = World::new(Config::default());
    world.run("queue q durable");
    let json = r#"{"queues":[{"name":"amq.gen-1","vhost":"/","durable":true}],
        "exchanges":[{"name":"amq.mine","vhost":"/","type":"topic","durable":true}],
        "bindings":[
            {"source":"amq.direct","vhost":"/","destination":"amq.gen-1","destination_type":"queue","routing_key":"k"},
            {"source":"amq.rabbitmq.event","vhost":"/","destination":"q","destination_type":"queue","routing_key":"k"},
            {"source":"amq.direct","vhost":"/","destination":"amq.mine","destination_type":"exchange","routing_key":"k"},
            {"source":"amq.direct","vhost":"/","destination":"q","destination_type":"queue","routing_key":"k"}]}"#;
    assert_eq!(import(&mut world, &read(json), None), Ok(1));
    let passed_over = read(json).passed_over(&world.catalogue, None);
    let named: Vec<&str> = passed_over
        .iter()
        .filter_map(|line| line.split_once(": ").map(|(named, _)| named))
        .collect();
    assert_eq!(
        named,
        [
            "queue 'amq.gen-1' in vhost '/'",
            "exchange 'amq.mine' in vhost '/'",
            "binding from 'amq.direct' to queue 'amq.gen-1' in vhost '/'",
            "binding from 'amq.rabbitmq.event' to queue 'q' in vhost '/'",
            "binding from 'amq.direct' to exchange 'amq.mine' in vhost '/'",
        ]
    );
    let bogus = r#"{"bindings":[{"source":"amq.direct","vhost":"/","destination":"q",
        "destination_type":"bogus","routing_key":"k"}]}"#;
    assert!(import(&mut world, &read(bogus), None).is_err());
}

/// A queue that the broker has named is left as it is, and so is what every virtual host has.
#[test]
fn what_is_there_is_not_called_passed_over_whoever_named_it() {
    let mut world = World::new(Config::default());
    assert!(world.catalogue.queue_by_name("/", "amq.gen-").is_none());
    let named = leveret_metadata::generated_name([0; 16]);
    let declared = Command::QueueDeclare {
        vhost: "/".to_owned(),
        name: String::new(),
        durable: true,
        exclusive: None,
        auto_delete: false,
        arguments: leveret_types::FieldTable::new(),
        random: [0; 16],
        shards: 1,
        id: None,
    };
    world.apply(&declared);
    let json = format!(
        r#"{{"queues":[{{"name":"{named}","vhost":"/","durable":true}}],
        "exchanges":[{{"name":"amq.topic","vhost":"/","type":"topic","durable":true}},
            {{"name":"amq.topic","vhost":"new","type":"topic","durable":true}},
            {{"name":"","vhost":"/","type":"direct","durable":true}}],
        "bindings":[
            {{"source":"","vhost":"/","destination":"amq.gen-2","destination_type":"queue"}},
            {{"source":"amq.topic","vhost":"/","destination":"{named}","destination_type":"queue"}},
            {{"source":"amq.topic","vhost":"/","destination":"amq.match","destination_type":"exchange"}}]}}"#
    );
    let passed_over = read(&json).passed_over(&world.catalogue, None);
    assert!(passed_over.is_empty(), "{passed_over:?}");
    // Somewhere else it is not there.
    let elsewhere = read(&json).passed_over(&world.catalogue, Some("new"));
    assert_eq!(elsewhere.len(), 2, "{elsewhere:?}");
}

#[test]
fn a_hash_that_names_no_algorithm_is_known_by_its_length_and_without_one_no_password_fits() {
    let mut world = World::new(Config::default());
    let hashes = [16, 32, 64].map(|digest| BASE64.encode(vec![7; 4 + digest]));
    let json = format!(
        r#"{{"users":[{{"name":"md5","password_hash":"{}","tags":[]}},
            {{"name":"sha256","password_hash":"{}","tags":[]}},
            {{"name":"sha512","password_hash":"{}","tags":[]}},
            {{"name":"guest","tags":["administrator"]}}]}}"#,
        hashes[0], hashes[1], hashes[2]
    );
    assert!(import(&mut world, &read(&json), None).is_ok());
    let exported = world.catalogue.export(None);
    let of = |name: &str| {
        let user = exported
            .users
            .iter()
            .find(|user| user.name == name)
            .expect("a user");
        (user.hashing_algorithm.clone(), user.password_hash.clone())
    };
    for (name, hash) in ["md5", "sha256", "sha512"].into_iter().zip(hashes) {
        let algorithm = format!("rabbit_password_hashing_{name}");
        assert_eq!(of(name), (Some(algorithm), Some(hash)));
    }
    assert_eq!(of("guest").1.as_deref(), Some(""), "as in RabbitMQ");
}

#[test]
fn what_exists_is_left_as_it_is() {
    let mut world = World::new(Config::default());
    world.run("queue q durable x-message-ttl=5");
    world.run("queue t");
    world.run("exchange x fanout");
    let json = r#"{"queues":[{"name":"q","vhost":"/","durable":true,
        "arguments":{"x-message-ttl":6}},
                             {"name":"t","vhost":"/","durable":true}],
                   "exchanges":[{"name":"x","vhost":"/","type":"direct","durable":true}],
                   "bindings":[{"source":"x","vhost":"/","destination":"t",
                       "destination_type":"queue","routing_key":"k","arguments":{}},
                               {"source":"","vhost":"/","destination":"t",
                                   "destination_type":"queue","routing_key":"t","arguments":{}}]}"#;
    assert_eq!(import(&mut world, &read(json), None), Ok(1));
    assert_eq!(
        world
            .catalogue
            .queue_by_name("/", "q")
            .expect("q")
            .settings()
            .ttl_ms,
        Some(5)
    );
    assert_eq!(
        import(&mut world, &read(json), None),
        Ok(1),
        "an import is idempotent"
    );
    assert_eq!(
        world
            .catalogue
            .vhost("/")
            .expect("it")
            .router()
            .binding_count(),
        1
    );
}

#[test]
fn an_import_is_all_or_nothing_and_names_the_item() {
    for (json, expected) in [
        (
            r#"{"vhosts":[{"name":"v"}],"queues":[{"name":"q","vhost":"v","durable":true,
                "arguments":{"x-message-ttl":-1}}]}"#,
            "queue 'q' in vhost 'v': invalid arg 'x-message-ttl' for queue 'q' in vhost 'v': \
                {value_negative,-1}",
        ),
        (
            r#"{"queues":[{"name":"s","vhost":"/","durable":true,"type":"moon"}]}"#,
            "queue 's' in vhost '/': invalid arg 'x-queue-type' for queue 's' in vhost '/': \
                \"unsupported queue type 'moon'\"",
        ),
        (
            r#"{"queues":[{"name":"q","vhost":"none","durable":true}]}"#,
            "queue 'q' in vhost 'none': vhost none not found",
        ),
        (
            r#"{"users":[{"name":"u","password_hash":"AAAA",
                "hashing_algorithm":"rabbit_password_hashing_sha256","tags":[]}]}"#,
            "user 'u': the password hash has 3 bytes, rabbit_password_hashing_sha256 needs 36",
        ),
        (
            r#"{"users":[{"name":"u","password_hash":"AAAA","hashing_algorithm":"rot13",
                "tags":""}]}"#,
            "user 'u': invalid definitions: unknown hashing algorithm 'rot13'",
        ),
        (
            r#"{"users":[{"name":"u","password":"","tags":[]}]}"#,
            "user 'u': passwords must not be empty",
        ),
        (
            r#"{"permissions":[{"user":"nobody","vhost":"/","configure":"","write":"",
                "read":""}]}"#,
            "permission of user 'nobody' in vhost '/': no such user 'nobody'",
        ),
        (
            r#"{"policies":[{"vhost":"/","name":"p","pattern":"(",
                "definition":{"max-length":1}}]}"#,
            "policy 'p' in vhost '/': invalid regular expression '(': unclosed group",
        ),
        (
            r#"{"bindings":[{"source":"x","vhost":"/","destination":"q",
                "destination_type":"queue","routing_key":"","arguments":{}}]}"#,
            "binding from 'x' to queue 'q' in vhost '/': no exchange 'x' in vhost '/'",
        ),
        (
            r#"{"exchanges":[{"name":"x","vhost":"/","type":"moon","durable":true}]}"#,
            "exchange 'x' in vhost '/': unknown exchange type 'moon'",
        ),
        (
            r#"{"users":[{"name":"u","limits":{"max-moons":1},"tags":[]}]}"#,
            "user 'u': unrecognised limit 'max-moons'",
        ),
    ] {
        let mut world = World::new(Config::default());
        let before = world.catalogue.snapshot();
        assert_eq!(
            import(&mut world, &read(json), None),
            Err(expected.to_owned())
        );
        assert_eq!(world.catalogue.snapshot(), before);
    }
}

#[test]
fn passwords_in_clear_text_are_hashed_and_not_exported() {
    let world = imported(r#"{"users":[{"name":"u","password":"secret","tags":"management"}]}"#);
    let world = world.expect("an import");
    assert!(
        world
            .catalogue
            .user("u")
            .expect("u")
            .password()
            .verify(b"secret")
    );
    let json = serde_json::to_string(&world.catalogue.export(None)).expect("JSON");
    assert!(!json.contains("secret"));
}

#[test]
fn arguments_keep_their_kind_through_json() {
    let json = r#"{"queues":[{"name":"q","vhost":"/","durable":true,
        "arguments":{"a":1,"b":-1.5,"c":true,"d":"text","e":[1,"two",{"f":null}],
            "g":{"h":9007199254740993}}}]}"#;
    let world = imported(json).expect("an import");
    let exported = serde_json::to_value(world.catalogue.export(None)).expect("JSON");
    let wanted: serde_json::Value = serde_json::from_str(json).expect("JSON");
    assert_eq!(
        exported["queues"][0]["arguments"],
        wanted["queues"][0]["arguments"]
    );
    assert!(
        serde_json::from_str::<Definitions>(
            r#"{"global_parameters":[{"name":"n","value":18446744073709551615}]}"#
        )
        .is_err()
    );
}

#[test]
fn a_damaged_snapshot_is_refused() {
    let snapshot = imported(EXPORT).expect("an import").catalogue.snapshot();
    let restore = |bytes: &[u8]| Catalogue::restore(Config::default(), bytes).map(|_| ());
    assert_eq!(restore(&snapshot), Ok(()));
    assert!(restore(&[]).is_err());
    assert!(restore(&snapshot[..snapshot.len() / 2]).is_err());
    let mut later = snapshot;
    later[0] = 2;
    let text = restore(&later).map_err(|error| error.to_string());
    assert_eq!(
        text,
        Err("unreadable snapshot: format version 2".to_owned())
    );
}
