//! The API on a real catalogue: what is put comes back, what is refused has its reason.

use crate::client::{Answer, basic, exchange};
use crate::fake::Fake;
use leveret_auth::password::SALT_BYTES_GIVEN;
use leveret_auth::{Access, LoginSources};
use leveret_management::api::*;
use leveret_management::catalogue_directory::{CatalogueDirectory, ExecuteError, MakeCommands};
use leveret_management::directory::BindingScope;
use leveret_management::{App, Directory, Endpoint, Running, Server, Service};
use leveret_metadata::{Catalogue, Command, Config, QueueKind};
use leveret_types::limits::{IMPORT_JSON_FACTOR, IMPORT_QUEUE_BYTES};
use leveret_types::{ConnectionId, FieldTable, FieldValue, ProtocolError, QueueId};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock};

/// A node that runs as the fake does and keeps a real catalogue.
struct Kept {
    running: Fake,
    catalogue: RwLock<Catalogue>,
    /// How often the catalogue has been borrowed to read it.
    borrowed: AtomicU64,
    /// How often commands were carried out, and waited for.
    executed: AtomicU64,
    /// What operators were told that an import passed over.
    passed_over: Mutex<Vec<String>>,
    /// Bytes of memory that are left.
    memory_left: AtomicU64,
}

impl CatalogueDirectory for Kept {
    fn with_catalogue(&self, read: &mut dyn FnMut(&Catalogue)) {
        self.borrowed.fetch_add(1, Relaxed);
        read(&self.catalogue.read().expect("catalogue"));
    }

    fn execute(&self, _: &str, make: MakeCommands<'_>) -> Result<(), ExecuteError> {
        self.executed.fetch_add(1, Relaxed);
        let commands = make()?;
        let mut catalogue = self.catalogue.write().expect("catalogue");
        for command in commands {
            catalogue.apply(&command)?;
        }
        Ok(())
    }

    fn salt(&self) -> [u8; SALT_BYTES_GIVEN] {
        [7; SALT_BYTES_GIVEN]
    }

    fn shards(&self) -> u16 {
        2
    }

    fn memory_left(&self, _: u64) -> u64 {
        self.memory_left.load(Relaxed)
    }

    fn note_passed_over(&self, by: &str, lines: &[String]) {
        let lines = lines.iter().map(|line| format!("{by}: {line}"));
        self.passed_over.lock().expect("lines").extend(lines);
    }
}

impl Running for Kept {
    fn authenticate(&self, login: Login<'_>, answer: LoginAnswer) {
        let catalogue = self.catalogue.read().expect("catalogue");
        let found = catalogue.login(login.user, login.password.as_bytes(), Some(login.from));
        answer.tell(match found.is_ok() {
            true => LoginVerdict::Right,
            false => LoginVerdict::Wrong,
        });
    }
    fn login_sources(&self) -> &LoginSources {
        self.running.login_sources()
    }
    fn change(
        &self,
        _: Actor<'_>,
        vhost: &str,
        change: Topology,
    ) -> Result<Changed, ProtocolError> {
        let vhost = vhost.to_owned();
        let command = match change {
            Topology::DeclareQueue {
                name,
                durable,
                auto_delete,
                arguments,
                ..
            } => Command::QueueDeclare {
                vhost,
                name,
                durable,
                exclusive: None,
                auto_delete,
                arguments,
                random: [0; 16],
                shards: 2,
                id: None,
            },
            Topology::Bind(b) => Command::Bind {
                vhost,
                source: b.source,
                destination: leveret_metadata::Endpoint::Queue(b.destination),
                routing_key: b.routing_key.into_bytes(),
                arguments: b.arguments,
            },
            Topology::Unbind(b) => Command::Unbind {
                vhost,
                source: b.source,
                destination: leveret_metadata::Endpoint::Queue(b.destination),
                routing_key: b.routing_key.into_bytes(),
                arguments: b.arguments,
            },
            other => panic!("not needed here: {other:?}"),
        };
        let outcome = self.catalogue.write().expect("catalogue").apply(&command)?;
        Ok(Changed {
            created: outcome.created,
            queue: outcome.queue,
            messages: 0,
        })
    }
    fn delete_this_queue(
        &self,
        _: Actor<'_>,
        _: &str,
        _: &str,
        _: QueueId,
    ) -> Result<(), ProtocolError> {
        panic!("not needed here")
    }
    fn permit_queue(&self, _: Actor<'_>, _: &str, _: Access, _: &str) -> Result<(), ProtocolError> {
        panic!("not needed here")
    }
    fn node_stats(&self) -> NodeStats {
        self.running.node_stats()
    }
    fn broker_stats(&self) -> BrokerStats {
        self.running.broker_stats()
    }
    fn each_led(&self, _: &mut dyn FnMut(QueueStats)) {}
    fn queue(&self, _: QueueId) -> Option<QueueStats> {
        None
    }
    fn each_connection(&self, _: &mut dyn FnMut(ConnectionContent)) {}
    fn connections_of(&self, _: &[ConnectionId]) -> Vec<ConnectionContent> {
        Vec::new()
    }
    fn connection(&self, _: &str) -> Option<ConnectionContent> {
        None
    }
    fn consumers_on(&self, _: ConnectionId) -> Vec<ConsumerStats> {
        Vec::new()
    }
    fn consumers_by_id(&self, _: &[(ConnectionId, u64)]) -> Vec<ConnectionContent> {
        Vec::new()
    }
    fn consumers_of(&self, _: QueueId, _: usize) -> Vec<(Arc<ConnectionStats>, ConsumerStats)> {
        Vec::new()
    }
    fn close_connection(&self, connection: ConnectionId, reason: &str) -> bool {
        self.running.close_connection(connection, reason)
    }
    fn publish(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        message: Publish,
    ) -> Result<Taken, ProtocolError> {
        self.running.publish(actor, vhost, message)
    }
    fn get(
        &self,
        actor: Actor<'_>,
        vhost: &str,
        queue: &str,
        get: Get,
    ) -> Result<Vec<Got>, ProtocolError> {
        self.running.get(actor, vhost, queue, get)
    }
    fn set_memory_watermark(&self, level: Level) {
        self.running.set_memory_watermark(level);
    }
    fn set_disk_limit(&self, level: Level) {
        self.running.set_disk_limit(level);
    }
    fn set_serving(&self, serving: bool) {
        self.running.set_serving(serving);
    }
    fn stop(&self) {
        self.running.stop();
    }
}

fn start() -> Server {
    serve(kept())
}

fn serve(node: Kept) -> Server {
    serve_shared(Arc::new(node))
}

fn serve_shared(node: Arc<Kept>) -> Server {
    let app = App::new(node, None, false);
    let any = "127.0.0.1:0".parse().expect("an address");
    Server::start(app, &[Endpoint::plain(Service::Api, any)]).expect("a port on loopback")
}

fn kept() -> Kept {
    kept_with(Config::default())
}

fn kept_with(config: Config) -> Kept {
    let mut catalogue = Catalogue::new(config);
    let hash =
        leveret_auth::PasswordHash::new(Default::default(), b"guest", &[1; SALT_BYTES_GIVEN]);
    for command in Catalogue::defaults("guest", hash.expect("a password"), "/") {
        catalogue.apply(&command).expect("a default");
    }
    Kept {
        running: Fake::default(),
        catalogue: RwLock::new(catalogue),
        borrowed: AtomicU64::new(0),
        executed: AtomicU64::new(0),
        passed_over: Mutex::default(),
        memory_left: AtomicU64::new(u64::MAX),
    }
}

#[test]
fn very_many_users_are_deleted_many_at_a_time() {
    const USERS: usize = 2_000;
    let node = Arc::new(kept());
    let name = |number: usize| format!("u{number}");
    for number in 0..USERS {
        let put = Command::UserPut {
            user: name(number),
            password: None,
            tags: Some(Vec::new()),
        };
        let mut catalogue = node.catalogue.write().expect("catalogue");
        catalogue.apply(&put).expect("it fits");
    }
    let server = serve_shared(Arc::clone(&node));
    // Some are not there, and some are named twice.
    let names: Vec<String> = (0..USERS + 10).chain(0..10).map(name).collect();
    let body = json!({ "users": names }).to_string();
    let answer = send(&server, "guest", "POST", "/api/users/bulk-delete", &body);
    assert_eq!(answer.status, 204, "{answer:?}");
    let left: Vec<String> = node.users().into_iter().map(|user| user.name).collect();
    assert_eq!(left, ["guest"]);
    let executed = node.executed.load(Relaxed);
    assert!(executed <= 10, "{executed} times");
}

/// The most that a walk sees in one borrow of the catalogue, and how much it sees in all.
fn seen_at_once(node: &Kept, walk: impl FnOnce(&Kept, &mut dyn FnMut())) -> (u64, u64) {
    let (mut most, mut at_once, mut all) = (0, 0, 0);
    let mut borrow = 0;
    walk(node, &mut || {
        let now = node.borrowed.load(Relaxed);
        if borrow != now {
            (borrow, at_once) = (now, 0);
        }
        (at_once, all) = (at_once + 1, all + 1);
        most = most.max(at_once);
    });
    (most, all)
}

#[test]
fn a_walk_holds_the_catalogue_for_a_portion_at_a_time() {
    const MANY: u64 = 3_000;
    let node = kept();
    let vhost = || "/".to_owned();
    // Before there are queues, which each policy looks at.
    for number in 0..MANY {
        let policy = Command::PolicySet {
            vhost: vhost(),
            name: format!("{number:05}"),
            operator: true,
            pattern: "^none$".to_owned(),
            apply_to: "queues".to_owned(),
            priority: 0,
            definition: [("max-length", FieldValue::I64(5))].into(),
        };
        let mut catalogue = node.catalogue.write().expect("catalogue");
        catalogue.apply(&policy).expect("it fits");
    }
    for number in 0..MANY {
        let name = format!("{number:05}");
        let exchange = Command::ExchangeDeclare {
            vhost: vhost(),
            name: name.clone(),
            kind: "direct".to_owned(),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: FieldTable::new(),
        };
        let bind = Command::Bind {
            vhost: vhost(),
            source: name.clone(),
            destination: leveret_metadata::Endpoint::Exchange("amq.direct".to_owned()),
            routing_key: Vec::new(),
            arguments: FieldTable::new(),
        };
        let parameter = Command::GlobalParameterSet {
            name: name.clone(),
            value: FieldValue::Void,
        };
        let queue = Command::QueueDeclare {
            vhost: vhost(),
            name,
            durable: true,
            exclusive: None,
            auto_delete: false,
            arguments: FieldTable::new(),
            random: [0; 16],
            shards: 2,
            id: None,
        };
        let mut catalogue = node.catalogue.write().expect("catalogue");
        for command in [exchange, bind, queue, parameter] {
            catalogue.apply(&command).expect("it fits");
        }
    }
    let of_usual = node.exchanges(None).len() as u64 - MANY;
    for (of, all, seen) in [
        (
            "exchanges",
            MANY + of_usual,
            seen_at_once(&node, |node, see| {
                node.each_exchange(None, &mut |_, _| see())
            }),
        ),
        (
            "exchanges with what passes through them",
            MANY + of_usual,
            seen_at_once(&node, |node, see| node.each_traffic(&mut |_| see())),
        ),
        (
            "queues",
            MANY,
            seen_at_once(&node, |node, see| {
                node.each_queue(None, &mut |_, _, _| see())
            }),
        ),
        (
            "bindings",
            2 * MANY,
            seen_at_once(&node, |node, see| {
                node.each_binding(BindingScope::All, &mut |_, _| see());
            }),
        ),
        (
            "policies",
            MANY,
            seen_at_once(&node, |node, see| node.each_policy(true, &mut |_, _| see())),
        ),
        (
            "global parameters",
            MANY,
            seen_at_once(&node, |node, see| {
                node.each_global_parameter(&mut |_| see());
            }),
        ),
    ] {
        assert_eq!(seen.1, all, "{of}");
        assert!(seen.0 <= 1_025, "{of}: {} at once", seen.0);
    }
    // A filter may look long at a name: nobody waits for it who changes the catalogue.
    let waits = AtomicU64::new(0);
    let look = || {
        let is_borrowed = node.catalogue.try_write().is_err();
        waits.fetch_add(u64::from(is_borrowed), Relaxed);
    };
    node.each_queue(None, &mut |_, _, _| look());
    node.each_exchange(None, &mut |_, _| look());
    assert_eq!(waits.into_inner(), 0);
    let to = BindingScope::ToExchange {
        vhost: "/",
        exchange: "amq.direct",
    };
    assert_eq!(node.bindings(to).len() as u64, MANY);
    assert_eq!(node.binding_count("/", "") as u64, MANY);
    assert_eq!(node.binding_count("/", "amq.direct"), 0);
    let both = BindingScope::Vhost("/");
    assert_eq!(node.bindings(both).len() as u64, 2 * MANY);
}

fn send(server: &Server, user: &str, method: &str, path: &str, body: &str) -> Answer {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: {}\r\nContent-Length: {}\r\n\r\n{body}",
        basic(user, user),
        body.len()
    );
    exchange(
        server.plain_address(Service::Api).expect("http"),
        request.as_bytes(),
    )
}

fn get(server: &Server, path: &str) -> Value {
    let answer = send(server, "guest", "GET", path, "");
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    let kind = "content-type: application/json";
    assert!(answer.head.contains(kind), "{path}: {answer:?}");
    answer.json()
}

/// Each line: method, path, body, expected status. Some user's whole setup, in order, then what
/// comes back.
#[test]
fn a_setup_by_http_comes_back_as_it_went() {
    let server = start();
    for (method, path, body, status) in [
        (
            "PUT",
            "/api/vhosts/orders",
            r#"{"description":"d","tags":"a,b"}"#,
            201,
        ),
        ("PUT", "/api/vhosts/orders", r#"{"tracing":true}"#, 204),
        (
            "PUT",
            "/api/users/bob",
            r#"{"password":"bob","tags":["management"]}"#,
            201,
        ),
        (
            "PUT",
            "/api/permissions/orders/bob",
            r#"{"configure":"^a","write":".*","read":".*"}"#,
            201,
        ),
        (
            "PUT",
            "/api/permissions/orders/nobody",
            r#"{"configure":"","write":"","read":""}"#,
            400,
        ),
        (
            "PUT",
            "/api/permissions/nowhere/bob",
            r#"{"configure":"","write":"","read":""}"#,
            404,
        ),
        (
            "PUT",
            "/api/permissions/orders/bob",
            r#"{"configure":"(","write":"","read":""}"#,
            400,
        ),
        (
            "PUT",
            "/api/vhost-limits/orders/max-queues",
            r#"{"value":3}"#,
            204,
        ),
        (
            "PUT",
            "/api/vhost-limits/orders/max-nothing",
            r#"{"value":3}"#,
            400,
        ),
        (
            "PUT",
            "/api/user-limits/bob/max-channels",
            r#"{"value":4}"#,
            204,
        ),
        (
            "PUT",
            "/api/policies/orders/ttl",
            r#"{"pattern":"^q","definition":{"message-ttl":9},"apply-to":"queues"}"#,
            201,
        ),
        (
            "PUT",
            "/api/policies/orders/ttl",
            r#"{"pattern":"^q","definition":{"message-ttl":5},"apply-to":"queues"}"#,
            204,
        ),
        (
            "PUT",
            "/api/policies/orders/bad",
            r#"{"pattern":"^q","definition":{"no-such-key":5}}"#,
            400,
        ),
        (
            "PUT",
            "/api/policies/orders/costly",
            r#"{"pattern":"(?:[ab]?){6000}[^ab0-9]","definition":{"message-ttl":5}}"#,
            400,
        ),
        (
            "PUT",
            "/api/operator-policies/orders/op",
            r#"{"pattern":".*","definition":{"max-length":7}}"#,
            201,
        ),
        (
            "PUT",
            "/api/queues/orders/q",
            r#"{"arguments":{"x-max-length":9}}"#,
            201,
        ),
        (
            "PUT",
            "/api/queues/orders/q",
            r#"{"arguments":{"x-max-length":9}}"#,
            204,
        ),
        (
            "PUT",
            "/api/queues/orders/q",
            r#"{"arguments":{"x-max-length":10}}"#,
            400,
        ),
        (
            "POST",
            "/api/bindings/orders/e/amq.topic/q/q",
            r#"{"routing_key":"a.#","arguments":{"k":"v"}}"#,
            201,
        ),
        (
            "PUT",
            "/api/global-parameters/custom",
            r#"{"value":{"a":[1,2]}}"#,
            201,
        ),
        ("POST", "/api/vhosts/orders/deletion/protection", "", 204),
    ] {
        let answer = send(&server, "guest", method, path, body);
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
    }
    let vhost = get(&server, "/api/vhosts/orders");
    assert_eq!(
        (&vhost["description"], &vhost["tags"]),
        (&json!("d"), &json!(["a", "b"]))
    );
    assert_eq!(
        (&vhost["tracing"], &vhost["protected_from_deletion"]),
        (&json!(true), &json!(true))
    );
    assert!(send(&server, "guest", "DELETE", "/api/vhosts/orders", "").status >= 400);
    let queue = get(&server, "/api/queues/orders/q");
    assert_eq!(queue["policy"], "ttl");
    assert_eq!(queue["operator_policy"], "op");
    assert_eq!(
        queue["effective_policy_definition"],
        json!({"message-ttl": 5, "max-length": 7})
    );
    let bindings = get(&server, "/api/queues/orders/q/bindings");
    assert_eq!(bindings[0]["source"], "");
    assert_eq!(bindings[1]["source"], "amq.topic");
    assert_eq!(bindings[1]["arguments"], json!({"k": "v"}));
    let properties = bindings[1]["properties_key"].as_str().expect("a key");
    let path = format!(
        "/api/bindings/orders/e/amq.topic/q/q/{}",
        properties.replace('%', "%25")
    );
    assert_eq!(
        send(&server, "guest", "DELETE", &path, "").status,
        204,
        "{path}"
    );
    assert_eq!(
        get(&server, "/api/queues/orders/q/bindings")
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    assert_eq!(
        get(&server, "/api/vhost-limits")[0],
        json!({"vhost": "orders", "value": {"max-queues": 3}})
    );
    assert_eq!(
        get(&server, "/api/users/bob")["limits"],
        json!({"max-channels": 4})
    );
    assert_eq!(
        get(&server, "/api/global-parameters/custom")["value"],
        json!({"a": [1, 2]})
    );
    let names: Vec<_> = get(&server, "/api/exchanges/orders")
        .as_array()
        .expect("a list")
        .iter()
        .map(|x| x["name"].clone())
        .collect();
    assert!(names.contains(&json!("")) && names.contains(&json!("amq.topic")));
    // Bob sees his own virtual host and no other.
    let seen = send(&server, "bob", "GET", "/api/vhosts", "").json();
    assert_eq!(seen.as_array().map(Vec::len), Some(1));
    assert_eq!(
        send(&server, "bob", "GET", "/api/queues/%2F", "").status,
        404
    );
    assert_eq!(send(&server, "bob", "GET", "/api/users", "").status, 401);
}

#[test]
fn the_overview_says_which_type_queues_have_that_are_declared_without_one() {
    assert_eq!(
        get(&start(), "/api/overview")["default_queue_type"],
        "classic"
    );
    let quorum = Config {
        default_queue_type: Some(QueueKind::Quorum),
        ..Config::default()
    };
    let server = serve(kept_with(quorum));
    assert_eq!(
        get(&server, "/api/overview")["default_queue_type"],
        "quorum"
    );
}

#[test]
fn definitions_move_from_one_node_to_another() {
    let (from, to) = (start(), start());
    for (method, path, body) in [
        ("PUT", "/api/vhosts/v", ""),
        (
            "PUT",
            "/api/users/bob",
            r#"{"password":"bob","tags":"administrator"}"#,
        ),
        (
            "PUT",
            "/api/permissions/v/bob",
            r#"{"configure":".*","write":".*","read":".*"}"#,
        ),
        (
            "PUT",
            "/api/policies/v/p",
            r#"{"pattern":"a","definition":{"expires":9}}"#,
        ),
        ("PUT", "/api/queues/v/q", "{}"),
        (
            "POST",
            "/api/bindings/v/e/amq.direct/q/q",
            r#"{"routing_key":"k"}"#,
        ),
    ] {
        let answer = send(&from, "guest", method, path, body);
        assert_eq!(answer.status, 201, "{method} {path}: {answer:?}");
    }
    let limit = ("/api/vhost-limits/v/max-queues", r#"{"value":9}"#);
    let answer = send(&from, "guest", "PUT", limit.0, limit.1);
    assert!((200..300).contains(&answer.status), "{answer:?}");
    let definitions = get(&from, "/api/definitions");
    assert_eq!(definitions["product_name"], "Leveret");
    let cluster = get(&from, "/api/cluster-name")["name"].clone();
    assert_eq!(definitions["original_cluster_name"], cluster);
    let told = format!(
        "Definitions of cluster '{}'",
        cluster.as_str().expect("a name")
    );
    assert_eq!(definitions["explanation"], told);
    let limits = definitions["vhosts"].as_array().expect("a list").iter();
    let limits: Vec<Value> = limits.map(|vhost| vhost["limits"].clone()).collect();
    assert_eq!(limits, [json!({}), json!({"max-queues": 9})]);
    let of_one = get(&from, "/api/definitions/v");
    assert_eq!(of_one["explanation"], "Definitions of virtual host 'v'");
    assert!(of_one.get("original_cluster_name").is_none());
    let mut of_all = definitions["vhosts"].as_array().expect("a list").iter();
    let of_all = of_all.find(|vhost| vhost["name"] == "v");
    for field in ["description", "metadata", "limits"] {
        assert_eq!(of_one[field], of_all.expect("the virtual host")[field]);
        assert!(of_one[field] != Value::Null && definitions.get(field).is_none());
    }
    let answer = send(
        &to,
        "guest",
        "POST",
        "/api/definitions",
        &definitions.to_string(),
    );
    assert_eq!(answer.status, 204, "{answer:?}");
    assert_eq!(get(&to, "/api/definitions"), definitions);
    // The password came along, as a hash.
    assert_eq!(
        send(&to, "bob", "GET", "/api/queues/v/q/bindings", "").json()[1]["routing_key"],
        "k"
    );
    // Half of these definitions could hold, and none of it does.
    let half = json!({"vhosts": [{"name": "new"}], "users": [], "policies": [
        {"vhost": "new", "name": "p", "pattern": "(", "definition": {"expires": 1}, "apply-to": "all"}
    ]});
    let answer = send(&to, "guest", "POST", "/api/definitions", &half.to_string());
    assert_eq!(answer.status, 400, "{answer:?}");
    assert_eq!(send(&to, "guest", "GET", "/api/vhosts/new", "").status, 404);
    let answer = send(&to, "guest", "POST", "/api/definitions", r#"{"users":7}"#);
    assert_eq!(answer.status, 400, "{answer:?}");
}

#[test]
fn what_an_import_passes_over_is_noted_with_who_imports() {
    let node = kept();
    let definitions = json!({"queues": [
        {"name": "amq.gen-1", "vhost": "/", "durable": true},
        {"name": "q", "vhost": "/", "durable": true},
    ]});
    node.import("guest", None, &definitions).expect("imported");
    let noted = node.passed_over.lock().expect("lines").clone();
    assert_eq!(noted.len(), 1, "{noted:?}");
    let is_named = noted[0].starts_with("guest: queue 'amq.gen-1' in vhost '/': ");
    assert!(is_named, "{noted:?}");
}

#[test]
fn an_import_answers_what_it_passed_over_to_whoever_asks_for_it() {
    let server = serve(kept());
    let definitions = json!({"queues": [
        {"name": "amq.gen-1", "vhost": "/", "durable": true},
        {"name": "q", "vhost": "/", "durable": true},
    ]});
    let text = definitions.to_string();
    let asked = "/api/definitions?passed_over=true";
    let answer = send(&server, "guest", "POST", asked, &text);
    assert_eq!(answer.status, 200, "{answer:?}");
    let lines = answer.json()["passed_over"].take();
    let lines = lines.as_array().expect("lines");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0]
            .as_str()
            .is_some_and(|line| line.starts_with("queue 'amq.gen-1' in vhost '/': ")),
        "{lines:?}"
    );
    let answer = send(&server, "guest", "POST", "/api/definitions", &text);
    assert_eq!((answer.status, answer.body.as_str()), (204, ""));
}

#[test]
fn what_is_not_supported_is_refused_in_the_words_of_an_import_or_left_out() {
    let server = serve(kept());
    let definitions = json!({
        "parameters": [{"component": "shovel", "vhost": "/", "name": "s", "value": {}}],
        "policies": [{"vhost": "/", "name": "ha", "pattern": "",
                      "definition": {"ha-mode": "all", "federation-upstream-set": "all"}}],
        "exchanges": [{"vhost": "/", "name": "x", "type": "x-odd", "durable": true}],
        "queues": [{"vhost": "/", "name": "q", "durable": true,
                    "arguments": {"x-message-deduplication": true}}],
        "bindings": [{"vhost": "/", "source": "x", "destination": "q", "destination_type": "queue",
                      "routing_key": "k"}],
    });
    let mut faulty = definitions.clone();
    faulty["queues"][0]["arguments"] = json!({"x-max-length": "many"});
    let reason = |path: &str, body: &Value| {
        let answer = send(&server, "guest", "POST", path, &body.to_string());
        assert_eq!(answer.status, 400, "{answer:?}");
        answer.json()["reason"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    for path in ["/api/definitions", "/api/definitions/%2F"] {
        let reason = reason(path, &faulty);
        for part in [
            "\n  shovel 's' in vhost '/': there are no shovels\n",
            "federation-upstream-set: there is no federation; its other keys stay\n",
            "\n  exchange 'x' in vhost '/': unknown exchange type 'x-odd'\n",
            "its exchange is left out\n",
            "\nrefused besides: queue 'q' in vhost '/': ",
            "skip_unsupported=true",
        ] {
            assert!(reason.contains(part), "{part}: {reason}");
        }
    }
    let skip = "/api/definitions?skip_unsupported=true&passed_over=true";
    assert!(reason(skip, &faulty).starts_with("queue 'q' in vhost '/': "));
    let answer = send(&server, "guest", "POST", skip, &definitions.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    let json = answer.json();
    assert_eq!(json["left_out"].as_array().map(Vec::len), Some(4), "{json}");
    assert_eq!(
        json["without_effect"].as_array().map(Vec::len),
        Some(1),
        "{json}"
    );
    let policy = send(&server, "guest", "GET", "/api/policies/%2F/ha", "");
    assert_eq!(policy.json()["definition"], json!({"ha-mode": "all"}));
}

#[test]
fn permissions_limits_and_bindings_are_filtered_by_what_they_are_of() {
    let server = start();
    for (method, path, body) in [
        ("PUT", "/api/vhosts/v", ""),
        ("PUT", "/api/users/bob", r#"{"password":"bob","tags":""}"#),
        (
            "PUT",
            "/api/permissions/v/bob",
            r#"{"configure":"a","write":"b","read":"c"}"#,
        ),
        (
            "PUT",
            "/api/permissions/%2F/bob",
            r#"{"configure":"a","write":"b","read":"c"}"#,
        ),
        ("PUT", "/api/user-limits/bob/max-channels", r#"{"value":1}"#),
        ("PUT", "/api/queues/v/q", "{}"),
        ("PUT", "/api/queues/v/other", "{}"),
        (
            "POST",
            "/api/bindings/v/e/amq.direct/q/q",
            r#"{"routing_key":"red"}"#,
        ),
        (
            "POST",
            "/api/bindings/v/e/amq.direct/q/other",
            r#"{"routing_key":"blue"}"#,
        ),
    ] {
        let status = send(&server, "guest", method, path, body).status;
        assert!((200..300).contains(&status), "{method} {path}: {status}");
    }
    let counts = |path: &str| {
        let list = get(&server, &format!("/api/{path}&page=1&page_size=10"));
        (list["filtered_count"].clone(), list["total_count"].clone())
    };
    for (path, filtered, total) in [
        ("vhosts/v/permissions?name=bob", 1, 2),
        ("users/bob/permissions?name=v", 1, 2),
        ("user-limits?name=bob", 1, 1),
        ("user-limits?name=none", 0, 1),
        ("exchanges/v/amq.direct/bindings/source?name=red", 1, 2),
        ("exchanges/v/amq.direct/bindings/source?name=other", 1, 2),
        ("queues/v/q/bindings?name=amq.d", 1, 2),
        (
            "exchanges/v/amq.direct/bindings/source?name=%5Ebl&use_regex=true",
            1,
            2,
        ),
    ] {
        assert_eq!(counts(path), (json!(filtered), json!(total)), "{path}");
    }
}

#[test]
fn an_import_that_memory_is_too_small_for_is_refused_before_anything_is_made_of_it() {
    const QUEUES: u64 = 2500;
    let import = |left: u64, queues: u64| {
        let queue = |number| json!({"name": format!("q{number}"), "vhost": "/", "durable": true});
        let queues: Vec<Value> = (0..queues).map(queue).collect();
        let text = json!({ "queues": queues }).to_string();
        let node = kept();
        node.memory_left.store(left, Relaxed);
        let server = serve(node);
        let answer = send(&server, "guest", "POST", "/api/definitions", &text);
        let made = get(&server, "/api/definitions");
        let made = made["queues"].as_array().map_or(0, Vec::len);
        (answer, made, text.len())
    };
    let (answer, made, bytes) = import(u64::MAX, QUEUES);
    assert_eq!((answer.status, made as u64), (204, QUEUES));
    // What the text takes once it is read, and what the queues do.
    let read = bytes as u64 * IMPORT_JSON_FACTOR;
    let queues = QUEUES * IMPORT_QUEUE_BYTES;
    for left in [0, read - 1, read.min(queues - 1)] {
        let (answer, made, _) = import(left, QUEUES);
        assert_eq!((answer.status, made), (503, 0), "{answer:?}");
        assert!(answer.body.contains("smaller files"), "{answer:?}");
    }
    let (answer, made, _) = import(read.max(queues), QUEUES);
    assert_eq!((answer.status, made as u64), (204, QUEUES), "{answer:?}");
}

#[test]
fn whoever_makes_a_virtual_host_may_use_it() {
    let server = start();
    assert_eq!(
        send(&server, "guest", "PUT", "/api/vhosts/own", "").status,
        201
    );
    let permission = get(&server, "/api/permissions/own/guest");
    for right in ["configure", "write", "read"] {
        assert_eq!(permission[right], ".*", "{right}");
    }
    // What an operator takes away does not come back with a change.
    let path = "/api/permissions/own/guest";
    assert_eq!(send(&server, "guest", "DELETE", path, "").status, 204);
    assert_eq!(
        send(&server, "guest", "PUT", "/api/vhosts/own", "").status,
        204
    );
    assert_eq!(send(&server, "guest", "GET", path, "").status, 404);
}
