//! Scripts against a router: each line is a command, and each `publish` line appends where the
//! message went to the answer.

use leveret_routing::{Destination, ExchangeSettings, Kind, RouteError, Router, Scratch, Unbound};
use leveret_types::{FieldTable, FieldValue, QueueId};

/// `k=v` words as a table: `void`, `true`, `false` and integers are of those types, all else is
/// text.
fn table(words: &[&str]) -> FieldTable {
    words
        .iter()
        .filter_map(|word| word.split_once('='))
        .map(|(name, value)| {
            let value = match value {
                "void" => FieldValue::Void,
                "true" | "false" => FieldValue::Bool(value == "true"),
                _ => match value.parse() {
                    Ok(integer) => FieldValue::I32(integer),
                    Err(_) => FieldValue::text(value),
                },
            };
            (name.to_owned(), value)
        })
        .collect()
}

/// `q` is a queue, `@x` an exchange.
fn destination(word: &str) -> Destination<'_> {
    match word.strip_prefix('@') {
        Some(exchange) => Destination::Exchange(exchange),
        None => Destination::Queue(word),
    }
}

fn key(word: &str) -> &[u8] {
    if word == "-" { b"" } else { word.as_bytes() }
}

fn show_unbound(unbound: Option<Unbound>) -> String {
    match unbound {
        None => "none".to_owned(),
        Some(unbound) => {
            let mut idle: Vec<String> = unbound
                .idle_exchanges
                .iter()
                .map(|x| format!(" idle {x}"))
                .collect();
            idle.sort();
            format!("gone {}{}", unbound.bindings, idle.concat())
        }
    }
}

struct World {
    router: Router,
    scratch: Scratch,
    names: Vec<String>,
}

impl World {
    fn run(&mut self, line: &str) -> Option<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (&command, rest) = words.split_first()?;
        match (command, rest) {
            ("exchange", [name, kind, options @ ..]) => {
                let alternate = options.iter().find_map(|o| o.strip_prefix("alternate:"));
                let kind = match Kind::parse(kind, &table(options)) {
                    Ok(kind) => kind,
                    Err(error) => return Some(error.to_string()),
                };
                let settings = ExchangeSettings {
                    internal: options.contains(&"internal"),
                    auto_delete: options.contains(&"auto"),
                    alternate,
                };
                let new = self.router.add_exchange(name, kind, settings);
                (!new).then(|| "exists".to_owned())
            }
            ("queue", names) => {
                for name in names {
                    self.names.push((*name).to_owned());
                    assert!(
                        self.router
                            .add_queue(name, QueueId(self.names.len() as u64 - 1))
                    );
                }
                None
            }
            ("stream", names) => {
                for name in names {
                    let id = QueueId(self.names.len() as u64).of_stream();
                    self.names.push((*name).to_owned());
                    assert!(self.router.add_queue(name, id));
                }
                None
            }
            ("partitions", [exchange]) => {
                let mut partitions = self.router.partitions(exchange);
                partitions.dedup_by_key(|partition| (partition.order, partition.stream));
                let names: Vec<&str> = partitions.iter().map(|p| p.stream).collect();
                Some(names.join(" "))
            }
            ("leads", [exchange, routing_key]) => {
                let found = self.router.partitions_of_key(exchange, key(routing_key));
                Some(found.join(" "))
            }
            ("bind", [source, to, binding_key, arguments @ ..]) => {
                let bound =
                    self.router
                        .bind(source, destination(to), key(binding_key), &table(arguments));
                match bound {
                    Ok(true) => None,
                    Ok(false) => Some("again".to_owned()),
                    Err(error) => Some(error.to_string()),
                }
            }
            ("unbind", [source, to, binding_key, arguments @ ..]) => Some(show_unbound(
                self.router
                    .unbind(source, destination(to), key(binding_key), &table(arguments)),
            )),
            ("drop", [to]) => Some(show_unbound(match destination(to) {
                Destination::Queue(name) => self.router.remove_queue(name),
                Destination::Exchange(name) => self.router.remove_exchange(name),
            })),
            ("publish", [exchange, keys, headers @ ..]) => {
                Some(self.publish(exchange, keys, headers))
            }
            ("count", []) => Some(self.router.binding_count().to_string()),
            _ => panic!("no such command: {line}"),
        }
    }

    fn publish(&mut self, exchange: &str, keys: &str, headers: &[&str]) -> String {
        let exchange = if exchange == "-" { "" } else { exchange };
        let keys: Vec<&[u8]> = keys.split(',').map(key).collect();
        let mut out = Vec::new();
        let headers = table(headers);
        match self.router.route(
            exchange.as_bytes(),
            &keys,
            &headers,
            &mut self.scratch,
            &mut out,
        ) {
            Err(RouteError::NotFound) => return "not found".to_owned(),
            Err(RouteError::Internal) => return "internal".to_owned(),
            Err(RouteError::TooLong) => return "too long".to_owned(),
            Err(RouteError::TooMuchWork) => return "too much work".to_owned(),
            Ok(()) => {}
        }
        let mut names: Vec<&str> = out
            .iter()
            .map(|id| self.names[id.unmarked().0 as usize].as_str())
            .collect();
        names.sort_unstable();
        let before = names.len();
        names.dedup();
        assert_eq!(names.len(), before, "a queue got two copies");
        if names.is_empty() {
            "nowhere".to_owned()
        } else {
            names.join(" ")
        }
    }
}

fn check(script: &str, expected: &str) {
    let mut world = World {
        router: Router::new(),
        scratch: Scratch::new(1),
        names: Vec::new(),
    };
    let answers: Vec<String> = script
        .split([';', '\n'])
        .filter_map(|line| world.run(line))
        .collect();
    assert_eq!(answers.join("; "), expected, "{script}");
}

#[test]
fn default_exchange() {
    check(
        "queue a b; publish - a; publish - b,a; publish - c; publish - -",
        "a; a b; nowhere; nowhere",
    );
    check("queue a; publish - a,a", "a");
    check(
        "queue a; drop a; publish - a; queue a; publish - a",
        "gone 0; nowhere; a",
    );
}

#[test]
fn direct_and_fanout() {
    check(
        "exchange d direct; queue a b; bind d a k; bind d b k; bind d b l
         publish d k; publish d l; publish d k,l; publish d m; publish e k",
        "a b; b; a b; nowhere; not found",
    );
    check(
        "exchange f fanout; queue a b; bind f a x; bind f b y; publish f z",
        "a b",
    );
    check("exchange d direct; exchange d fanout", "exists");
    check(
        "bind d a k; exchange d direct; bind d a k",
        "no such exchange; no such destination",
    );
}

#[test]
fn identity_of_a_binding() {
    check(
        "exchange d direct; queue a; bind d a k; bind d a k; count",
        "again; 1",
    );
    check(
        "exchange d direct; queue a; bind d a k x=1 y=2; bind d a k y=2 x=1; bind d a k x=1; count
         publish d k; unbind d a k x=1; publish d k; unbind d a k; unbind d a k y=2 x=1
         publish d k; count",
        "again; 2; a; gone 1; a; none; gone 1; nowhere; 0",
    );
    check(
        "exchange d direct; queue a; unbind d a k; unbind e a k; unbind d b k",
        "none; none; none",
    );
}

#[test]
fn topic() {
    check(
        "exchange t topic; queue a b c d
         bind t a stock.*.nyse; bind t b stock.#; bind t c #; bind t d -
         publish t stock.ibm.nyse; publish t stock; publish t -; publish t bond
         publish t stock.ibm",
        "a b c; b c; c d; c; b c",
    );
    check(
        "exchange t topic; queue a; bind t a #.x.#; publish t x; publish t a.x.b; publish t a.b
         bind t a #.#.#",
        "a; a; nowhere; topic binding key must not contain more than 2 '#' wildcards",
    );
    check(
        "exchange t topic; queue a b; bind t a a.*; bind t b a.*; bind t a #; publish t a.b
         unbind t a a.*; publish t a.b; unbind t a #; publish t a.b; drop b; publish t a.b",
        "a b; gone 1; a b; gone 1; b; gone 1; nowhere",
    );
}

#[test]
fn headers() {
    check(
        "exchange h headers; queue a b; bind h a - k=v n=1; bind h b - x-match=any k=v n=1
         publish h - k=v n=1; publish h - k=v; publish h - n=1; publish h -
         bind h a - x-match=most",
        "a b; b; b; nowhere; Invalid x-match field value <<\"most\">>; expected all, any, \
            all-with-x, or any-with-x",
    );
}

#[test]
fn of_several_headers_of_one_name_the_first_counts() {
    check(
        "exchange h headers; queue a b; bind h a - k=v k=w; bind h b - k=w
         publish h - k=v k=w; publish h - k=w k=v; unbind h a - k=v; publish h - k=v",
        "a; b; gone 1; nowhere",
    );
}

#[test]
fn exchanges_bound_to_exchanges() {
    check(
        "exchange a fanout; exchange b fanout; exchange c direct; queue q r
         bind a @b -; bind b @c -; bind c @a k; bind c q k; bind b q -; bind a r -
         publish a k; publish b k; publish c k; publish b x",
        "q r; q r; q r; q",
    );
    check(
        "exchange a fanout; bind a @a -; queue q; bind a q -; publish a -; drop @a; count",
        "q; gone 2; 0",
    );
}

#[test]
fn alternate_exchanges() {
    check(
        "exchange d direct alternate:e; publish d k; exchange e fanout alternate:d; publish d k
         queue q r; bind e q -; publish d k; bind d r k; publish d k; publish d l,k; publish e z",
        "nowhere; nowhere; q; r; r; q",
    );
    check(
        "exchange d direct alternate:; publish d q; queue q; publish d q",
        "nowhere; q",
    );
    let mut world = World {
        router: Router::new(),
        scratch: Scratch::new(1),
        names: Vec::new(),
    };
    for line in ["exchange i fanout internal", "queue q", "bind i q -"] {
        assert_eq!(world.run(line), None);
    }
    let mut out = Vec::new();
    let own = world
        .router
        .route_internal(b"i", &[b"k"], &(), &mut world.scratch, &mut out);
    assert_eq!((own, out), (Ok(()), vec![QueueId(0)]));
    check(
        "exchange d direct alternate:i; exchange i fanout internal; queue q; bind i q -; publish \
            i k; publish d k",
        "internal; q",
    );
}

#[test]
fn auto_delete_exchanges_become_idle() {
    check(
        "exchange x fanout auto; queue a b; bind x a -; bind x b -; unbind x a -; drop b",
        "gone 1; gone 1 idle x",
    );
    check(
        "exchange x fanout auto; exchange y fanout auto; exchange z fanout; queue q
         bind x @z -; bind y @z -; bind z @x -; drop @z",
        "gone 3 idle x idle y",
    );
    check("exchange x fanout auto; bind x @x -; drop @x", "gone 1");
}

#[test]
fn hashing_exchanges_choose_one_queue_and_stay_with_it() {
    for kind in ["x-consistent-hash", "x-modulus-hash"] {
        let mut script = format!("exchange h {kind}; queue a b c; publish h k;");
        script += "bind h a 1; bind h b 1; bind h c 2;";
        let mut reversed = format!("exchange h {kind}; queue a b c; publish h k;");
        reversed += "bind h c 2; bind h b 1; bind h a 1;";
        let publishes: String = (0..50).map(|n| format!("publish h key{n};")).collect();
        let answers = |script: String| {
            let mut world = World {
                router: Router::new(),
                scratch: Scratch::new(1),
                names: Vec::new(),
            };
            script
                .split(';')
                .filter_map(|line| world.run(line))
                .collect::<Vec<_>>()
        };
        let first = answers(script + &publishes);
        assert_eq!(
            first,
            answers(reversed + &publishes),
            "{kind} depends on the order of binding"
        );
        for queue in ["a", "b", "c"] {
            assert!(
                first.iter().filter(|a| *a == queue).count() > 3,
                "{kind}: {first:?}"
            );
        }
    }
}

#[test]
fn consistent_hash_arguments() {
    check(
        "exchange h x-consistent-hash hash-header=id; queue a b c; bind h a 1; bind h b 1; bind h \
            c 0
         bind h c x; bind h c -3; bind h c 1000001; bind h c 1000000; count",
        "The binding key must be greater than 0; The binding key must be an integer: <<\"x\">>; \
         The binding key must be greater than 0; The binding key must not be greater than 1000000; \
         3",
    );
    check(
        "exchange h x-consistent-hash hash-header=a hash-property=timestamp",
        "hash-header and hash-property are mutually exclusive",
    );
    check(
        "exchange h x-consistent-hash hash-property=app_id",
        "Unsupported property: app_id",
    );
    check(
        "exchange h x-consistent-hash hash-header=1",
        "hash-header must be a string",
    );
}

#[test]
fn consistent_hash_on_a_header_ignores_the_key() {
    let mut world = World {
        router: Router::new(),
        scratch: Scratch::new(1),
        names: Vec::new(),
    };
    for line in [
        "exchange h x-consistent-hash hash-header=id",
        "queue a b c",
        "bind h a 1",
        "bind h b 1",
        "bind h c 1",
    ] {
        assert_eq!(world.run(line), None);
    }
    let first: Vec<String> = (0..40)
        .map(|n| world.publish("h", "k", &[&format!("id=v{n}")]))
        .collect();
    let second: Vec<String> = (0..40)
        .map(|n| world.publish("h", "other", &[&format!("id=v{n}")]))
        .collect();
    assert_eq!(first, second);
    assert!(first.iter().any(|queue| *queue != first[0]));
}

#[test]
fn random_exchanges_choose_one_of_all() {
    for kind in ["x-random", "x-local-random"] {
        let mut world = World {
            router: Router::new(),
            scratch: Scratch::new(9),
            names: Vec::new(),
        };
        world.run(&format!("exchange r {kind}"));
        assert_eq!(world.publish("r", "k", &[]), "nowhere");
        for line in ["queue a b", "bind r a -", "bind r b -"] {
            assert_eq!(world.run(line), None);
        }
        let answers: Vec<String> = (0..40).map(|_| world.publish("r", "k", &[])).collect();
        assert!(answers.iter().any(|a| a == "a") && answers.iter().any(|a| a == "b"));
    }
    check(
        "exchange r x-local-random; exchange e fanout; bind r @e -",
        "x-local-random exchanges can only be bound to queues",
    );
}

const HASHED: &str = "exchange x direct x-super-stream=true x-super-stream-routing=hash";
const OF_THREE: &str = "stream c b a; bind x c 2 x-stream-partition-order=2
    bind x a 0 x-stream-partition-order=0; bind x b 1 x-stream-partition-order=1";

#[test]
fn a_hash_leads_to_the_partition_that_stream_clients_choose() {
    // Of three partitions hello1, hello2 and hello4 are in the second, first and third.
    check(
        &format!(
            "{HASHED}; publish x hello1; {OF_THREE}; partitions x
             publish x hello1; publish x hello2; publish x hello4; publish x hello1,hello4
             leads x hello4; leads x hello1"
        ),
        "nowhere; a b c; b; a; c; b c; c; b",
    );
    // 0 hashes to the third, 2 to the second, also where they are keys, unless those come first.
    let first = HASHED.replace("=hash", "=key-or-hash");
    check(
        &format!("{HASHED}; {OF_THREE}; publish x 0; publish x 2; leads x 2"),
        "c; b; b",
    );
    check(
        &format!("{first}; {OF_THREE}; publish x 0; publish x hello4; leads x 0; leads x hello4"),
        "a; c; a; c",
    );
    let keys = HASHED.replace("=hash", "=key");
    check(
        &format!("{keys}; {OF_THREE}; publish x 0; publish x hello4; leads x 0; leads x hello4"),
        "a; nowhere; a; ",
    );
}

#[test]
fn partitions_that_come_and_go_change_where_hashes_lead() {
    // hello1: of two partitions the first, of three the second, of four the third.
    check(
        &format!(
            "{HASHED}; {OF_THREE}; publish x hello1
             unbind x c 2 x-stream-partition-order=2; publish x hello1; partitions x
             bind x c 2 x-stream-partition-order=2; stream d
             bind x d 3 x-stream-partition-order=3; publish x hello1; partitions x
             drop a; publish x hello1; partitions x"
        ),
        "b; gone 1; a; a b; c; a b c d; gone 1; c; b c d",
    );
    // One stream by two keys is one partition, as long as one of them is there.
    check(
        &format!(
            "{HASHED}; stream a b; bind x a 0 x-stream-partition-order=0
             bind x a zero x-stream-partition-order=0; bind x b 1 x-stream-partition-order=1
             partitions x; publish x hello1; unbind x a 0 x-stream-partition-order=0; partitions x
             unbind x a zero x-stream-partition-order=0; partitions x; publish x hello2"
        ),
        "a b; a; gone 1; a b; gone 1; b; b",
    );
    // Those without a place come last, by name.
    check(
        &format!(
            "{HASHED}; stream z y x; bind x z 0 x-stream-partition-order=7; bind x y 1
             bind x x 2; partitions x; publish x hello1; publish x hello2"
        ),
        "z x y; x; z",
    );
}

#[test]
fn a_super_streams_other_bindings_match_by_their_keys() {
    let others = "queue audit; exchange all fanout; queue every; bind all every -
        bind x audit hello1; bind x @all hello4";
    check(
        &format!(
            "{HASHED} alternate:lost; exchange lost fanout; queue stray; bind lost stray -; {others}
             publish x hello1; publish x hello2; {OF_THREE}; partitions x; publish x hello1
             publish x hello4; publish x hello2; publish lost hello2"
        ),
        "audit; stray; a b c; audit b; c every; a; stray",
    );
    let first = HASHED.replace("=hash", "=key-or-hash");
    check(
        &format!("{first}; {others}; {OF_THREE}; publish x hello1; publish x 0"),
        "audit b; a",
    );
    // From another exchange, and behind a delay.
    let delayed = "exchange x x-delayed-message x-delayed-type=direct x-super-stream=true \
        x-super-stream-routing=hash";
    check(
        &format!("{HASHED}; {OF_THREE}; exchange f fanout; bind f @x -; publish f hello4"),
        "c",
    );
    check(&format!("{delayed}; {OF_THREE}; publish x hello4"), "c");
}

#[test]
fn a_drained_partition_is_passed_over_and_the_others_keep_their_keys() {
    let drain = "bind x c 2 x-stream-partition-order=2 x-stream-partition-drained=true
        unbind x c 2 x-stream-partition-order=2";
    let undrain = "bind x c 2 x-stream-partition-order=2
        unbind x c 2 x-stream-partition-order=2 x-stream-partition-drained=true";
    // hello1 and hello2 are in b and a, hello4, hello6 and 0 in c: these go to the others.
    let publish = "publish x hello1; publish x hello2; publish x hello4; publish x hello6
        publish x 0; publish x 2; leads x hello4; partitions x";
    check(
        &format!("{HASHED}; {OF_THREE}; {drain}; {publish}; {undrain}; publish x hello4"),
        "gone 1; b; a; a; a; b; b; a; a b c; gone 1; c",
    );
    let first = HASHED.replace("=hash", "=key-or-hash");
    check(
        &format!("{first}; {OF_THREE}; {drain}; publish x 2; publish x 1; leads x 2"),
        "gone 1; b; b; b",
    );
    let keys = "exchange x direct x-super-stream=true alternate:lost; exchange lost fanout
        queue stray; bind lost stray -";
    check(
        &format!(
            "{keys}; {OF_THREE}; {drain}; publish x 2; publish x 1; leads x 2
             bind x c 2 x-stream-partition-order=2; publish x 2; partitions x
             unbind x c 2 x-stream-partition-order=2 x-stream-partition-drained=true; publish x 2"
        ),
        "gone 1; stray; b; ; stray; a b c; gone 1; c",
    );
}

#[test]
fn nothing_reaches_a_super_stream_whose_partitions_are_all_drained() {
    check(
        &format!(
            "{HASHED}; stream a; bind x a 0 x-stream-partition-drained=true; publish x k
             partitions x; leads x k; drop a; stream a; bind x a 0; publish x k"
        ),
        "nowhere; a; ; gone 1; a",
    );
    // The argument is of super streams alone.
    check(
        "exchange x direct; stream a; bind x a 0 x-stream-partition-drained=true; publish x 0",
        "a",
    );
}

#[test]
fn what_a_super_streams_exchange_may_ask() {
    let wrong = "Invalid argument, 'x-super-stream-routing' must be 'key', 'hash' or 'key-or-hash'";
    let misplaced =
        "Invalid argument, 'x-super-stream-routing' is for direct exchanges with 'x-super-stream'";
    for (arguments, answer) in [
        (
            "direct x-super-stream=true x-super-stream-routing=murmur",
            wrong,
        ),
        ("direct x-super-stream=true x-super-stream-routing=1", wrong),
        ("topic x-super-stream-routing=murmur", wrong),
        ("direct x-super-stream-routing=hash", misplaced),
        (
            "direct x-super-stream=false x-super-stream-routing=key",
            misplaced,
        ),
        (
            "topic x-super-stream=true x-super-stream-routing=hash",
            misplaced,
        ),
        ("topic x-super-stream=true", ""),
    ] {
        check(&format!("exchange x {arguments}"), answer);
    }
}

#[test]
fn delayed_and_recent_history() {
    check(
        "exchange d x-delayed-message x-delayed-type=topic; queue q; bind d q a.*; publish d a.b; \
            publish d b",
        "q; nowhere",
    );
    check(
        "exchange d x-delayed-message",
        "Invalid argument, 'x-delayed-type' must be an existing exchange type",
    );
    check(
        "exchange d x-delayed-message x-delayed-type=moon",
        "unknown exchange type 'moon'",
    );
    check(
        "exchange d x-delayed-message x-delayed-type=x-delayed-message",
        "Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'",
    );
    check(
        "exchange r x-recent-history x-recent-history-length=2; queue q; bind r q -; publish r k",
        "q",
    );
    for length in ["0", "-1", "ten", "10001"] {
        check(
            &format!("exchange r x-recent-history x-recent-history-length={length}"),
            "Invalid argument, 'x-recent-history-length' must be a positive integer",
        );
    }
    check(
        "exchange r x-recent-history x-recent-history-length=10000; exchange m moon",
        "unknown exchange type 'moon'",
    );
}
