//! Definitions that are too large for one import, in pieces.

use leveret_management::definitions_pieces::{cut, definitions_pieces};
use leveret_metadata::{Catalogue, Config, Definitions};
use leveret_types::limits::{HTTP_BODY_BYTES_MAX, HTTP_DEFINITIONS_BYTES_MAX};
use serde_json::{Value, json};

/// Numbers that are the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

/// Names with what JSON writes in its own way.
const NAMES: [&str; 6] = ["a", "\"],\"queues\":[", "\\\n\0", "é\u{1F407}", "]}", "z"];

/// What an import takes, with views before their streams, and more queues than limits allow.
fn definitions(random: &mut Random) -> Value {
    let named = |kind: &str, count: usize| -> Vec<String> {
        let name = |at| format!("{kind}{at}{}", NAMES[at % NAMES.len()]);
        (0..count).map(name).collect()
    };
    let vhosts = named("v", 1 + random.below(3));
    let users = named("u", 1 + random.below(3));
    let [mut permissions, mut parameters, mut policies] = [const { Vec::new() }; 3];
    let [mut exchanges, mut queues, mut bindings] = [const { Vec::new() }; 3];
    for vhost in &vhosts {
        for user in &users {
            permissions.push(json!({"vhost": vhost, "user": user, "configure": ".*",
                "write": "", "read": "^a"}));
        }
        parameters.push(
            json!({"vhost": vhost, "component": "vhost-limits", "name": "limits",
            "value": {"max-queues": 1}}),
        );
        parameters.push(
            json!({"vhost": vhost, "component": "operator_policy", "name": "o",
            "value": {"pattern": "z", "apply-to": "queues", "priority": 1,
                "definition": {"max-length": random.below(9)}}}),
        );
        policies.push(
            json!({"vhost": vhost, "name": "p", "pattern": "^q", "apply-to": "all",
            "priority": 0, "definition": {"max-length-bytes": 9 + random.below(9)}}),
        );
        for name in named("x", random.below(5)) {
            exchanges.push(json!({"vhost": vhost, "name": name, "durable": true,
                "type": random.of(&["topic", "fanout", "headers"]), "auto_delete": false,
                "internal": false, "arguments": {"x-is": name}}));
        }
        let mut queue = |name: &str, arguments: Value| {
            queues.push(json!({"vhost": vhost, "name": name, "durable": true,
                "auto_delete": false, "arguments": arguments}));
        };
        queue("a view", json!({"x-stream-source": "stream"}));
        queue("stream", json!({"x-queue-type": "stream"}));
        for name in named("q", random.below(20)) {
            queue(&name, json!({"x-max-length": 5, "x-text": "]}, {"}));
            for (at, exchange) in exchanges.iter().enumerate() {
                if exchange["vhost"] == *vhost && at % 2 == 0 {
                    bindings.push(json!({"vhost": vhost, "source": exchange["name"],
                        "destination": name, "destination_type": "queue",
                        "routing_key": random.of(&NAMES), "arguments": {}}));
                }
            }
        }
    }
    let vhosts: Vec<Value> = vhosts.iter().map(|name| json!({"name": name})).collect();
    let users = users.iter();
    let users: Vec<Value> = users
        .map(|name| json!({"name": name, "tags": []}))
        .collect();
    json!({
        "rabbit_version": "4.0.0", "users": users, "vhosts": vhosts, "permissions": permissions,
        "topic_permissions": [], "parameters": parameters, "policies": policies,
        "global_parameters": [{"name": "g", "value": {"a": [1, "]"]}}],
        "queues": queues, "exchanges": exchanges, "bindings": bindings,
    })
}

fn import(catalogue: &mut Catalogue, definitions: &[u8]) {
    let text = String::from_utf8_lossy(definitions);
    // As a node reads them: what a key stands for twice, it stands for once.
    let definitions: Value = serde_json::from_slice(definitions).expect("JSON");
    let definitions: Definitions = serde_json::from_value(definitions).expect("definitions");
    let commands = definitions.to_commands(catalogue, None, 2, &mut || [7; 16]);
    for command in commands.unwrap_or_else(|error| panic!("{error}: {text}")) {
        catalogue.apply(&command).expect("accepted");
    }
}

fn export(catalogue: &Catalogue) -> Value {
    serde_json::to_value(catalogue.export(None)).expect("JSON")
}

#[test]
fn what_is_imported_in_pieces_is_exported_as_if_it_had_been_imported_at_once() {
    for seed in 1..60_u64 {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut whole = Catalogue::new(Config::default());
        import(&mut whole, definitions(&mut random).to_string().as_bytes());
        let exported = export(&whole);
        let text = exported.to_string();
        let bytes_max = 400 + random.below(4_000);
        let pieces = cut(text.as_bytes(), bytes_max).expect("definitions");
        assert!(pieces.len() > 1, "seed {seed}");
        let mut in_pieces = Catalogue::new(Config::default());
        for piece in &pieces {
            assert!(piece.len() <= bytes_max, "seed {seed}: {}", piece.len());
            import(&mut in_pieces, piece);
        }
        assert_eq!(export(&in_pieces), exported, "seed {seed}");
    }
}

#[test]
fn who_imports_is_given_another_password_when_all_else_is_there() {
    let text = definitions(&mut Random(7)).to_string();
    let pieces = cut(text.as_bytes(), 1_000).expect("definitions");
    let has = |piece: &Vec<u8>, list: &str| {
        let piece: Value = serde_json::from_slice(piece).expect("JSON");
        !piece[list].is_null()
    };
    let users = pieces.iter().position(|piece| has(piece, "users"));
    let behind = &pieces[users.expect("users")..];
    for list in ["vhosts", "parameters", "queues", "exchanges", "bindings"] {
        assert!(!behind.iter().any(|piece| has(piece, list)), "{list}");
    }
}

#[test]
fn one_object_that_is_larger_than_a_piece_is_a_piece_of_its_own() {
    let large = "x".repeat(1_000);
    let text = json!({"global_parameters": [
        {"name": "a", "value": 1}, {"name": "b", "value": large}, {"name": "c", "value": 2},
    ]});
    let pieces = cut(text.to_string().as_bytes(), 500).expect("definitions");
    let names = |piece: &Vec<u8>| {
        let piece: Value = serde_json::from_slice(piece).expect("JSON");
        piece["global_parameters"][0]["name"].clone()
    };
    let names: Vec<Value> = pieces.iter().map(names).collect();
    assert_eq!(names, ["a", "b", "c"]);
}

#[test]
fn definitions_are_cut_where_one_import_does_not_take_them() {
    let value = "x".repeat(1_000_000);
    let parameter = |number: usize| json!({"name": format!("p{number}"), "value": value});
    let parameters: Vec<Value> = (0..51).map(parameter).collect();
    let mut text = json!({"global_parameters": parameters}).to_string();
    assert!(text.len() > HTTP_DEFINITIONS_BYTES_MAX);
    let pieces = definitions_pieces(text.clone().into_bytes()).expect("definitions");
    assert_eq!(pieces.len(), 6, "nine in each, and six in the last one");
    assert!(
        pieces
            .iter()
            .all(|piece| piece.len() <= HTTP_BODY_BYTES_MAX)
    );

    let small = br#"{"queues": [1]}"#.to_vec();
    let pieces = definitions_pieces(small.clone());
    assert_eq!(pieces.expect("one piece"), [small], "a node refuses it");

    let refused = |text: String| {
        let pieces = definitions_pieces(text.into_bytes());
        pieces.expect_err("no definitions").to_string()
    };
    let null = text.replacen('{', "{\"policies\":null,", 1);
    let no_list = "these are no definitions: \"policies\" is no list";
    assert_eq!(refused(null), no_list);
    text.push('!');
    let error = refused(text);
    assert!(
        error.starts_with("these are no definitions: trailing"),
        "{error}"
    );
}
