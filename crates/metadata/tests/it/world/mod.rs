//! Scripts against a catalogue. Each line is a command; its answer is `ok`, `new`, what a query
//! found, or the error as a client sees it.
//!
//! Every script ends with the proof that the log says it all: replayed from nothing it gives the
//! same durable content, and so does the snapshot.

use leveret_metadata::{
    Catalogue, CatalogueError, Change, Command, Config, Endpoint, Outcome, Vhost,
};
use leveret_types::{ConnectionId, FieldTable, FieldValue, ProtocolError};

pub struct World {
    pub catalogue: Catalogue,
    pub log: Vec<Command>,
    pub changes: Vec<Change>,
}

/// `12` is a signed int, `12l` a long, `1.5` a double; `true` and `false` are booleans, `[a,b]` is
/// an array, all else is text.
fn value(text: &str) -> FieldValue {
    if let Some(items) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        return FieldValue::Array(
            items
                .split(',')
                .filter(|t| !t.is_empty())
                .map(value)
                .collect(),
        );
    }
    match (text, text.strip_suffix('l').and_then(|t| t.parse().ok())) {
        ("true" | "false", _) => FieldValue::Bool(text == "true"),
        (_, Some(long)) => FieldValue::I64(long),
        _ => match (text.parse(), text.parse()) {
            (Ok(integer), _) => FieldValue::I32(integer),
            (_, Ok(double)) => FieldValue::F64(double),
            _ => FieldValue::text(text),
        },
    }
}

pub fn table(words: &[&str]) -> FieldTable {
    let pairs = words.iter().filter_map(|word| word.split_once('='));
    pairs
        .map(|(name, text)| (name.to_owned(), value(text)))
        .collect()
}

/// Arguments of queues and exchanges are the words with `x-` and the few that have no prefix.
fn arguments(words: &[&str]) -> FieldTable {
    let known = ["alternate-exchange=", "hash-header=", "foo="];
    let is_argument = |w: &&&str| w.starts_with("x-") || known.iter().any(|k| w.starts_with(k));
    let own: Vec<&str> = words.iter().filter(is_argument).copied().collect();
    table(&own)
}

fn option<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words
        .iter()
        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// What all arguments of a catalogue come to, and what counts with them.
fn arguments_of(catalogue: &Catalogue) -> u64 {
    let value = |value: &FieldValue| size_of::<FieldValue>() + value.weight();
    let of_vhost = |vhost: &Vhost| -> usize {
        let exchanges = vhost
            .exchanges()
            .map(|exchange| exchange.arguments().weight());
        let bindings = vhost.router().bindings();
        let bindings = bindings.map(|binding| binding.arguments.weight());
        let policies = vhost.policies().chain(vhost.operator_policies());
        let policies = policies.map(|policy| policy.definition.weight());
        let parameters = vhost.parameters().map(|(_, _, of)| value(of));
        let all = exchanges.chain(bindings).chain(policies);
        all.chain(parameters).sum()
    };
    let queues = catalogue.queues(None);
    let queues: usize = queues.map(|queue| queue.arguments().weight()).sum();
    let globals: usize = catalogue.global_parameters().map(|(_, of)| value(of)).sum();
    let vhosts: usize = catalogue.vhosts().map(of_vhost).sum();
    (queues + globals + vhosts) as u64
}

fn endpoint(word: &str) -> Endpoint {
    match word.strip_prefix('@') {
        Some(name) => Endpoint::Exchange(name.to_owned()),
        None => Endpoint::Queue(word.to_owned()),
    }
}

/// Whether a command deletes what it names, and answers itself where that is not there.
const fn is_deletion(command: &Command) -> bool {
    matches!(
        command,
        Command::ExchangeDelete { .. }
            | Command::QueueDelete { .. }
            | Command::VhostDelete { .. }
            | Command::UserDelete { .. }
            | Command::VhostLimitClear { .. }
            | Command::UserLimitClear { .. }
            | Command::PermissionClear { .. }
            | Command::TopicPermissionClear { .. }
            | Command::PolicyClear { .. }
            | Command::ParameterClear { .. }
            | Command::GlobalParameterClear { .. }
    )
}

impl World {
    pub fn new(config: Config) -> Self {
        let catalogue = Catalogue::new(config);
        let mut world = Self {
            catalogue,
            log: Vec::new(),
            changes: Vec::new(),
        };
        assert_eq!(world.run("vhost /"), Some("new".to_owned()));
        world.changes.clear();
        world
    }

    pub fn apply(&mut self, command: &Command) -> String {
        assert_eq!(Command::decode(&command.encode()).as_ref(), Ok(command));
        let before = (self.catalogue.snapshot(), self.catalogue.generation());
        let known = self.catalogue.unchanged_by(command);
        let would_create = self.catalogue.would_create(command);
        let applied = self.catalogue.apply(command);
        let counted = self.catalogue.argument_bytes();
        assert_eq!(counted, arguments_of(&self.catalogue), "{command:?}");
        self.check_known(command, known.as_ref(), &applied);
        if let Ok(outcome) = &applied {
            self.check_growth(command, would_create, outcome);
        }
        match applied {
            Ok(outcome) => {
                self.log.extend(outcome.log);
                self.changes.extend(outcome.changes);
                if outcome.created {
                    "new".to_owned()
                } else {
                    "ok".to_owned()
                }
            }
            Err(error) => {
                let after = (self.catalogue.snapshot(), self.catalogue.generation());
                assert_eq!(
                    before, after,
                    "a refused command changed something: {command:?}"
                );
                let error = ProtocolError::from(error);
                format!("{} {}", error.code.code(), error.text)
            }
        }
    }

    /// What is said to make something new does so, where outcomes tell; what has been made is
    /// there.
    fn check_growth(&self, command: &Command, would_create: bool, outcome: &Outcome) {
        let is_told = !matches!(
            command,
            Command::PermissionSet { .. }
                | Command::TopicPermissionSet { .. }
                | Command::PolicySet { .. }
                | Command::ParameterSet { .. }
                | Command::GlobalParameterSet { .. }
        );
        if is_told {
            assert_eq!(outcome.created, would_create, "{command:?}");
        }
        let is_generated = matches!(command, Command::QueueDeclare { name, .. } if name.is_empty());
        assert_eq!(
            self.catalogue.would_create(command),
            is_generated,
            "{command:?}"
        );
    }

    /// What is said to change nothing changes nothing and is answered so, and nothing that
    /// declares, binds or deletes and changes nothing is left out.
    fn check_known(
        &self,
        command: &Command,
        known: Option<&Result<Outcome, CatalogueError>>,
        applied: &Result<Outcome, CatalogueError>,
    ) {
        if let Some(known) = known {
            assert_eq!(known, applied, "{command:?}");
        }
        let declares = matches!(
            command,
            Command::ExchangeDeclare { .. }
                | Command::QueueDeclare { .. }
                | Command::Bind { .. }
                | Command::Unbind { .. }
        );
        let is_known = match applied {
            Ok(outcome) => {
                let is_unchanged = outcome.changes.is_empty() && outcome.log.is_empty();
                (declares || is_deletion(command)) && !outcome.created && is_unchanged
            }
            // What exists, and may not go now, may be gone elsewhere.
            Err(CatalogueError::InUse { .. } | CatalogueError::Locked { .. }) => false,
            Err(CatalogueError::ProtectedVhost(_)) => false,
            Err(_) => is_deletion(command),
        };
        assert_eq!(is_known, known.is_some(), "{command:?}");
    }

    /// Runs one line; comments and empty lines have no answer.
    pub fn run(&mut self, line: &str) -> Option<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (&verb, rest) = words.split_first()?;
        // `in=v` anywhere says which virtual host is meant.
        let vhost = option(rest, "in").unwrap_or("/").to_owned();
        let rest: Vec<&str> = rest
            .iter()
            .filter(|word| !word.starts_with("in="))
            .copied()
            .collect();
        Some(match self.query(verb, &rest, &vhost) {
            Some(answer) => answer,
            None => self.apply(&command(verb, &rest, vhost)),
        })
    }

    fn query(&self, verb: &str, words: &[&str], vhost: &str) -> Option<String> {
        let name = words.first().copied().unwrap_or_default();
        let of_vhost = || self.catalogue.vhost(vhost).expect("a virtual host");
        Some(match verb {
            "queues" => join(
                self.catalogue
                    .queues(Some(vhost))
                    .map(|q| q.name().to_owned()),
            ),
            "exchanges" => {
                let own = of_vhost()
                    .exchanges()
                    .filter(|x| !x.name().starts_with("amq."));
                join(own.map(|x| x.name().to_owned()))
            }
            "bindings" => of_vhost().router().binding_count().to_string(),
            "settings" => {
                let queue = self.catalogue.queue_by_name(vhost, name).expect("a queue");
                let (policy, operator) = (queue.policy(), queue.operator_policy());
                format!("{policy:?} {operator:?} {:?}", queue.settings())
            }
            "alternate" => {
                let exchange = of_vhost().router().exchange(name).expect("an exchange");
                format!("{:?}", exchange.alternate)
            }
            "use" => {
                let connection = ConnectionId(words[1].parse().expect("a connection"));
                match self.catalogue.usable_queue(vhost, name, connection) {
                    Ok(_) => "ok".to_owned(),
                    Err(error) => format!("{} {error}", error.code().code()),
                }
            }
            _ => return None,
        })
    }

    /// Names what changed since the last time.
    #[allow(dead_code)] // Not every test asks.
    pub fn changed(&mut self) -> String {
        let name = |change: Change| match change {
            Change::NodesChanged => "nodes changed".to_owned(),
            Change::QueueCreated(_) => "queue created".to_owned(),
            Change::QueueChanged(_) => "queue changed".to_owned(),
            Change::QueueDeleted(queue) => format!("queue {} deleted", queue.name()),
            Change::ExchangeCreated { exchange, .. } => format!("exchange {exchange} created"),
            Change::ExchangeDeleted { exchange, .. } => format!("exchange {exchange} deleted"),
            Change::Bound { source, .. } => format!("{source} bound"),
            Change::Unbound { source, .. } => format!("{source} unbound"),
            Change::VhostCreated(vhost) => format!("vhost {vhost} created"),
            Change::VhostChanged(vhost) => format!("vhost {vhost} changed"),
            Change::VhostDeleted(vhost) => format!("vhost {vhost} deleted"),
            Change::UserChanged(user) => format!("user {user} changed"),
            Change::UserDeleted(user) => format!("user {user} deleted"),
        };
        std::mem::take(&mut self.changes)
            .into_iter()
            .map(name)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// The log, replayed, and the snapshot, restored, are the durable content.
    pub fn verify(&self) {
        let snapshot = self.catalogue.snapshot();
        // Lowered limits must not stand in the way of what was accepted.
        let config = || Config {
            queues_max: 0,
            exchanges_max: 0,
            vhosts_max: 0,
            argument_bytes_max: 0,
            ..Config::default()
        };
        let mut replayed = Catalogue::new(config());
        for command in &self.log {
            assert_eq!(replayed.replay(command), Ok(()), "{command:?}");
        }
        assert_eq!(
            replayed.durable_commands(),
            self.catalogue.durable_commands()
        );
        assert_eq!(replayed.snapshot(), snapshot);
        let restored = Catalogue::restore(config(), &snapshot).expect("a snapshot");
        assert_eq!(restored.snapshot(), snapshot);
        assert_eq!(restored.argument_bytes(), arguments_of(&restored));
        for queue in restored.queues(None) {
            assert_eq!(Some(queue), self.catalogue.queue(queue.id()));
        }
    }
}

fn join(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(" ")
    }
}

fn command(verb: &str, words: &[&str], vhost: String) -> Command {
    let word = |index: usize| {
        words
            .get(index)
            .copied()
            .unwrap_or_default()
            .replace("\\n", "\r\n")
    };
    let text = |name: &str| option(words, name).map(str::to_owned);
    let tags = || text("tags").map(|t| t.split(',').map(str::to_owned).collect());
    match verb {
        "vhost" => Command::VhostPut {
            vhost: word(0),
            description: text("description"),
            tags: tags(),
            default_queue_type: text("default"),
            protected: option(words, "protected").map(|t| t == "yes"),
            tracing: option(words, "tracing").map(|t| t == "yes"),
        },
        "delete-vhost" => Command::VhostDelete { vhost: word(0) },
        "user" => Command::UserPut {
            user: word(0),
            password: None,
            tags: tags(),
        },
        "delete-user" => Command::UserDelete { user: word(0) },
        "permit" => Command::PermissionSet {
            vhost,
            user: word(0),
            configure: word(1),
            write: word(2),
            read: word(3),
        },
        "forbid" => Command::PermissionClear {
            vhost,
            user: word(0),
        },
        "permit-topic" => Command::TopicPermissionSet {
            vhost,
            user: word(0),
            exchange: word(1),
            write: word(2),
            read: word(3),
        },
        "forbid-topic" => {
            let exchange = words.get(1).map(|&exchange| exchange.to_owned());
            Command::TopicPermissionClear {
                vhost,
                user: word(0),
                exchange,
            }
        }
        "limit" => Command::VhostLimitSet {
            vhost,
            limit: word(0),
            value: word(1).parse().expect("a number"),
        },
        "unlimit" => Command::VhostLimitClear {
            vhost,
            limit: words.first().map(|&l| l.to_owned()),
        },
        "limit-user" => Command::UserLimitSet {
            user: word(0),
            limit: word(1),
            value: word(2).parse().expect("a number"),
        },
        "unlimit-user" => Command::UserLimitClear {
            user: word(0),
            limit: words.get(1).map(|&l| l.to_owned()),
        },
        "policy" | "operator-policy" => {
            let own = ["pattern=", "apply-to=", "priority="];
            let is_key = |w: &&&str| w.contains('=') && !own.iter().any(|o| w.starts_with(o));
            let keys: Vec<&str> = words.iter().filter(is_key).copied().collect();
            Command::PolicySet {
                vhost,
                name: word(0),
                operator: verb == "operator-policy",
                pattern: text("pattern").unwrap_or_else(|| ".*".to_owned()),
                apply_to: text("apply-to").unwrap_or_else(|| "all".to_owned()),
                priority: text("priority").map_or(0, |p| p.parse().expect("a number")),
                definition: table(&keys),
            }
        }
        "delete-policy" => Command::PolicyClear {
            vhost,
            name: word(0),
            operator: false,
        },
        "delete-operator-policy" => Command::PolicyClear {
            vhost,
            name: word(0),
            operator: true,
        },
        "parameter" => Command::ParameterSet {
            vhost,
            component: word(0),
            name: word(1),
            value: value(&word(2)),
        },
        "delete-parameter" => Command::ParameterClear {
            vhost,
            component: word(0),
            name: word(1),
        },
        "global" => Command::GlobalParameterSet {
            name: word(0),
            value: value(&word(1)),
        },
        "delete-global" => Command::GlobalParameterClear { name: word(0) },
        _ => topology(verb, words, vhost),
    }
}

fn topology(verb: &str, words: &[&str], vhost: String) -> Command {
    let word = |index: usize| {
        words
            .get(index)
            .copied()
            .unwrap_or_default()
            .replace("\\n", "\r\n")
    };
    let has = |name: &str| words.contains(&name);
    let name = if word(0) == "-" {
        String::new()
    } else {
        word(0)
    };
    match verb {
        "exchange" => Command::ExchangeDeclare {
            vhost,
            name,
            kind: word(1),
            durable: has("durable"),
            auto_delete: has("auto"),
            internal: has("internal"),
            arguments: arguments(words),
        },
        "delete-exchange" => Command::ExchangeDelete {
            vhost,
            name,
            if_unused: has("if-unused"),
        },
        "queue" => Command::QueueDeclare {
            vhost,
            name,
            durable: has("durable"),
            exclusive: option(words, "exclusive").map(|c| c.parse().expect("a connection")),
            auto_delete: has("auto"),
            arguments: arguments(words),
            random: [0xFB; 16],
            shards: 2,
            id: None,
        },
        "delete-queue" => Command::QueueDelete {
            vhost,
            name,
            connection: option(words, "by").map(|c| c.parse().expect("a connection")),
            id: option(words, "id").map(|id| id.parse().expect("an id")),
        },
        "bind" | "unbind" => {
            let (source, destination) = (name, endpoint(&word(1)));
            let routing_key = word(2).into_bytes();
            let arguments = arguments(words);
            match verb {
                "bind" => Command::Bind {
                    vhost,
                    source,
                    destination,
                    routing_key,
                    arguments,
                },
                _ => Command::Unbind {
                    vhost,
                    source,
                    destination,
                    routing_key,
                    arguments,
                },
            }
        }
        _ => panic!("no such verb: {verb}"),
    }
}

/// Runs a script and compares the answer of its last line, or of every line where the expected text
/// has several.
pub fn check_with(config: Config, script: &str, expected: &str) {
    let mut world = World::new(config);
    let answers: Vec<String> = script
        .split(['\n', ';'])
        .filter_map(|line| world.run(line.trim()))
        .collect();
    let expected: Vec<&str> = expected
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let shown = &answers[answers.len().saturating_sub(expected.len())..];
    assert_eq!(shown, expected, "{script}");
    world.verify();
}

pub fn check(script: &str, expected: &str) {
    check_with(Config::default(), script, expected);
}
