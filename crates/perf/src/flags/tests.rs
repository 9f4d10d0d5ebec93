//! Command lines, and the specifications that they stand for.

use super::*;
use crate::spec::{Load, Rate, Size};
use clap::Parser;

#[derive(Parser)]
#[command(disable_help_flag = true)]
struct Command {
    #[command(flatten)]
    run: RunOptions,
}

fn spec(line: &str) -> Result<Spec, String> {
    let words = line.split_whitespace().map(str::to_owned);
    let words = std::iter::once("run".to_owned()).chain(translate(words));
    let command = Command::try_parse_from(words).map_err(|error| error.to_string())?;
    let find = |name: &str| {
        assert_eq!(name, "known");
        Ok(Spec::default())
    };
    command.run.spec(find, Spec::clone)
}

fn load(line: &str) -> Load {
    spec(line).unwrap().loads.remove(0)
}

#[test]
fn perftests_flags_mean_what_they_mean_there() {
    let spec = spec(
        "-x 2 -y 3 -u q -s 1000 -c 100 -q 50 -z 20 -r 10.5 -C 7 -ad false -f persistent \
         -qa x-max-length=5,x-overflow=reject-publish -h amqp://box/%2f -e ex -k key -t topic \
         -ms -b 10 -d name -A 4 -L 1500 -mp priority=5",
    )
    .unwrap();
    let load = &spec.loads[0];
    assert_eq!((load.publishers, load.consumers), (2, 3));
    assert_eq!(load.queue_name.as_deref(), Some("q"));
    assert_eq!(load.size, Size::Fixed(1000));
    assert_eq!((load.confirm_window, load.prefetch), (100, 50));
    assert_eq!(load.rate, Rate::Fixed(10.5));
    assert_eq!(load.count, Some(7));
    assert!(load.persistent && load.durable && !load.auto_delete);
    assert_eq!(
        load.queue_arguments["x-max-length"],
        toml::Value::Integer(5)
    );
    assert_eq!(
        (load.exchange.as_str(), load.exchange_type.as_str()),
        ("ex", "topic")
    );
    assert_eq!(load.routing_key.as_deref(), Some("key"));
    assert_eq!((load.ack.every, load.consumer_delay_ms), (4, 1.5));
    assert_eq!(spec.duration_s, 20.0);
    assert_eq!(spec.uris, ["amqp://box/%2f"]);
}

#[test]
fn without_flags_messages_are_transient_and_queues_go() {
    let spec = spec("").unwrap();
    let load = &spec.loads[0];
    assert!(!load.persistent && !load.durable && load.auto_delete);
    assert_eq!(
        (load.confirm_window, load.queue_type.as_str()),
        (0, "classic")
    );
}

#[test]
fn replicated_queues_are_durable_stay_and_have_persistent_messages() {
    for line in ["-qq", "-sq", "-qq -ad true", "-sq -y 0"] {
        let load = load(line);
        assert!(load.durable && load.persistent, "{line}");
        assert!(!load.auto_delete, "{line}");
    }
    assert_eq!((load("-sq").prefetch, load("-sq -q 7").prefetch), (200, 7));
    assert_eq!(load("-qq").prefetch, 0);
}

#[test]
fn what_goes_on_purpose_or_comes_from_others_is_not_checked() {
    for (line, verify) in [
        ("", true),
        ("-qa x-max-priority=5 -mp priority=5", true),
        ("-qa x-max-length=5", false),
        ("-qa x-max-length-bytes=5000", false),
        ("-qa x-message-ttl=5", false),
        ("-sq -qa x-max-age=1h", false),
        ("-mp expiration=5", false),
        ("-c 9 -qa x-max-length=5,x-overflow=reject-publish", true),
        ("-qa x-max-length=5,x-overflow=reject-publish", false),
        (
            "-c 9 -qa x-max-length=5,x-overflow=reject-publish,x-message-ttl=5",
            false,
        ),
        ("-x 0 -u q", false),
    ] {
        assert_eq!(load(line).verify, verify, "{line}");
    }
}

#[test]
fn a_stream_of_the_runs_own_is_read_from_its_beginning() {
    let offset = |line: &str| {
        let load = load(line);
        let value = load.consumer_arguments.get("x-stream-offset").cloned();
        value.map(|value| value.as_str().unwrap().to_owned())
    };
    assert_eq!(offset("-sq").as_deref(), Some("first"));
    assert_eq!(
        offset("-sq -ca x-stream-offset=next").as_deref(),
        Some("next")
    );
    for line in ["-sq -u q", "-sq -qp q-%d -qpf 1 -qpt 1", "-qq", ""] {
        assert_eq!(offset(line), None, "{line}");
    }
}

#[test]
fn a_count_ends_the_run_and_nothing_else_does_unless_a_time_is_given() {
    let seconds = |line: &str| spec(line).unwrap().duration_s;
    assert_eq!(seconds(""), 30.0);
    for line in ["-C 1000000 -r 100", "-D 10", "-C 5 -z 0"] {
        assert_eq!(seconds(line), SECONDS_MAX, "{line}");
    }
    assert_eq!(seconds("-C 5 -z 7"), 7.0);
    // Zero is no limit in PerfTest.
    assert_eq!((load("-C 0").count, seconds("-C 0")), (None, 30.0));
}

#[test]
fn what_consumers_are_to_take_is_what_publishers_send() {
    let count = |line: &str| load(line).count;
    assert_eq!(count("-C 100 -D 100"), Some(100));
    assert_eq!(count("-D 9 -x 3"), Some(3));
    assert_eq!(count("-D 9 -x 1 -y 2"), Some(18));
    assert_eq!(count("-D 8 -X 2 -Y 2 -x 2"), Some(4));
    assert_eq!(count("-D 8 -u a,b"), Some(4));
    assert_eq!(count("-D 0"), None);
}

#[test]
fn a_routing_key_has_an_exchange_in_which_queues_are_bound() {
    let route = |line: &str| {
        let load = load(line);
        (load.exchange, load.exchange_type, load.routing_key)
    };
    let route_of = |exchange: &str, kind: &str, key: Option<&str>| {
        let key = key.map(str::to_owned);
        (exchange.to_owned(), kind.to_owned(), key)
    };
    assert_eq!(route(""), route_of("", "direct", None));
    assert_eq!(route("-k key"), route_of("direct", "direct", Some("key")));
    assert_eq!(
        route("-t topic -k key"),
        route_of("", "topic", Some("key")),
        "an exchange of the run's own"
    );
    assert_eq!(route("-e amq.default"), route_of("", "direct", None));
    assert_eq!(route("-e -x 1"), route_of("", "direct", None));
    assert_eq!(
        route("-e amq.topic -t topic"),
        route_of("amq.topic", "topic", None)
    );
    assert_eq!(
        route("-e amq.default -u q -k q"),
        route_of("", "direct", Some("q"))
    );
}

#[test]
fn queues_by_pattern_have_the_numbers_that_are_asked_for() {
    let names = |line: &str| load(line).named_queues("own");
    assert_eq!(
        names("-qp q-%03d -qpf 9 -qpt 11"),
        ["q-009", "q-010", "q-011"]
    );
    assert_eq!(names("-qp q-%d -qpf 0 -qpt 1"), ["q-0", "q-1"]);
    assert_eq!(load("-qp q-%d -qpf 1 -qpt 65535").queues, 65_535);
}

#[test]
fn each_of_several_queues_has_every_message_and_every_consumer() {
    let several = load("-u a,b -x 2 -y 3");
    assert_eq!(several.named_queues("own"), ["a", "b"]);
    assert_eq!((several.publishers, several.consumers), (2, 6));
    assert!(several.is_everywhere());
    assert_eq!(several.exchange, "direct");
    assert_eq!(several.routing_key.as_deref(), Some("a,b"));
    assert_eq!(
        load("-u a,b -e ex -k key").routing_key.as_deref(),
        Some("key")
    );
    // What is no pattern is a name.
    assert_eq!(load("-u 10%d").named_queues("own"), ["10%d"]);
}

#[test]
fn message_properties_have_perftests_names_and_the_rest_are_headers() {
    let load = load(
        "-mp contentType=text/plain,replyTo=r,priority=3,deliveryMode=2,x-tenant=blue,depth=4,\
         content-type=header",
    );
    assert!(load.persistent);
    let text = |text: &str| toml::Value::String(text.to_owned());
    assert_eq!(load.properties["content_type"], text("text/plain"));
    assert_eq!(load.properties["reply_to"], text("r"));
    assert_eq!(load.properties["priority"], toml::Value::Integer(3));
    let headers = load.properties["headers"].as_table().unwrap();
    assert_eq!(headers["x-tenant"], text("blue"));
    assert_eq!(headers["depth"], toml::Value::Integer(4));
    assert_eq!(headers["content-type"], text("header"));
    assert_eq!(load.properties.len(), 4);
    let transient = super::tests::load("-qq -mp deliveryMode=1");
    assert!(!transient.persistent && transient.durable);
}

#[test]
fn consumers_with_a_rate_or_a_latency_have_little_in_hand() {
    let pace = |line: &str| {
        let load = load(line);
        (load.consumer_rate, load.consumer_delay_ms, load.prefetch)
    };
    assert_eq!(pace("-R 100"), (Some(100.0), 0.0, 10));
    assert_eq!(pace("-R 1"), (Some(1.0), 0.0, 2));
    assert_eq!(pace("-R 1000000"), (Some(1e6), 0.0, 1_000));
    assert_eq!(pace("-L 2000"), (None, 2.0, 50));
    assert_eq!(pace("-L 2000 -q 7"), (None, 2.0, 7));
    assert_eq!(pace("-R 100 -A 64"), (Some(100.0), 0.0, 64));
    assert_eq!(pace("-R -1"), (None, 0.0, 0));
    // The slower of the two is what holds.
    assert_eq!(pace("-R 100 -L 2000"), (Some(100.0), 0.0, 10));
    assert_eq!(pace("-R 1000 -L 2000"), (None, 2.0, 50));
}

/// What PerfTest 2.22.1 knows, by its short names.
const PERFTEST: &str = "a A ad b B bc bfc c C ca cri csd ct ctp d D dcr e E ei em env ew f h H hst \
    i isn ist jb k K L ll m M ma mc mcl mcla mda mdak mdd mdh mdk mds mdu mf mh mjgc mjm mjp mjt \
    mjx mlb mp mpe mpp mpr mpx ms mt n na niot niotp o o2gr o2id o2p o2sec o2uri p P pi po prsd \
    pst q Q qa qf qp qpf qpt qq r R re rkcs s S sb sco se smssb sni sq sst st sul t T tnd trbs \
    tsbs u udsc v vl vr vs x X y Y z";

#[test]
fn every_flag_of_perftest_is_taken_or_answered_with_one_sentence() {
    for name in PERFTEST.split_whitespace() {
        // A value that no flag takes for one, so that none needs its own.
        let words = [format!("-{name}"), "1".to_owned()];
        let words = std::iter::once("run".to_owned()).chain(translate(words));
        let parsed = Command::try_parse_from(words).map_err(|error| error.to_string());
        let known = match parsed {
            Ok(_) => true,
            Err(error) => !error.contains("unexpected argument '-"),
        };
        assert!(known, "-{name}");
    }
    for line in [
        "-na",
        "-u q -bc 5 -vl 1:2 -z 3",
        "--nack",
        "--requeue=false",
        "-ew empty known",
    ] {
        let said = spec(line).unwrap_err();
        assert!(said.contains("is not known here: "), "{line}: {said}");
        assert!(!said.contains('\n'), "{line}: {said}");
    }
    assert!(
        spec("-bc 5")
            .unwrap_err()
            .contains("PerfTest's -bc (--body-count)")
    );
    assert!(spec("--heartbeat=5 -x 2").is_ok());
    assert!(spec("-i 5 -st 10 --interval=1 -x 2").is_ok());
}

#[test]
fn shapes_of_rates_sizes_and_queues() {
    assert_eq!(load("-s 16,4000").size, Size::Range { min: 16, max: 4000 });
    assert!(matches!(load("-vr 100:60 -vr 5:1").rate, Rate::Steps { steps } if steps.len() == 2));
    assert_eq!(load("-r -1").rate, Rate::Unlimited);
}

#[test]
fn each_channel_of_a_connection_is_a_member() {
    let load = |line: &str| {
        let load = load(line);
        let members = (load.publishers, load.consumers);
        let shared = load.consumer_channels_per_connection;
        (members, (load.channels_per_connection, shared.unwrap()))
    };
    assert_eq!(load("-X 5 -x 2 -y 10"), ((10, 10), (5, 1)));
    assert_eq!(load("-X 5 -x 2 -Y 4 -y 3"), ((10, 12), (5, 4)));
}

#[test]
fn what_does_not_go_is_said() {
    for (line, said) in [
        ("known -x 2", "leveret perf show"),
        ("-C 1 -D 2", "do not go together"),
        ("-D 10 -x 3", "no whole number"),
        ("-D 1 -u a,b", "no whole number"),
        ("-D 18446744073709551615 -y 2", "too large"),
        ("-D 5 -y 0", "needs publishers and consumers"),
        ("-D 5 -x 0", "needs publishers and consumers"),
        ("-C 4294967296", "count is 4294967296"),
        ("-z 0", "without end"),
        ("-k key -e amq.default", "name an `exchange`"),
        ("-e amq.default -u a,b", "name an `exchange`"),
        ("-a -R 5", "with -a there are none"),
        ("-a -L 5", "with -a there are none"),
        ("-R 5 -u a,b", "not with several -u"),
        ("-A 10 -q 5", "-A 10"),
        ("-R nan", "consumer_rate is NaN"),
        ("-R 1e-300", "consumer_rate is 0.000"),
        ("-r nan", "rate is NaN"),
        ("-P 0", "rate.every_s is 0"),
        ("-qp q-%d", "go together"),
        ("-qpf 1", "go together"),
        ("-qp q-%d -qpt 5", "go together"),
        ("-qp q-%d -qpf 5 -qpt 4", "comes before"),
        ("-qp q -qpf 1 -qpt 4", "%03d"),
        ("-qp q-%d -qpf 1 -qpt 65536", "queues is 65536"),
        ("-qp q-%d -qpf 0 -qpt 4294967295", "queues is 4294967295"),
        ("-u q -qp q-%d -qpf 1 -qpt 4", "give one of them"),
        ("-u a,,b", "none of them empty"),
        ("-u a,a", "names that differ"),
        ("-p", "predeclared is true"),
        ("-p -e ex -y 0", "routing_key is absent"),
        ("-sq -y 2", "consumers is 2"),
        ("-mp deliveryMode=3", "1 or 2"),
        ("-mp clusterId=a", "clusterId"),
        ("-mp timestamp=2026-01-01", "seconds since 1970"),
        ("-f immediate", "not `immediate`"),
        ("-vr fast", "RATE:SECONDS"),
        ("-qa x", "key=value"),
        ("--drives wal", "folder=path"),
        ("-x 70000", "publishers is 70000"),
        ("--colour red", "--colour"),
    ] {
        let error = spec(line).unwrap_err();
        assert!(error.contains(said), "{line}: {error}");
    }
    let reconnects = |line: &str| spec(line).unwrap().reconnect_s;
    assert_eq!((reconnects(""), reconnects("--reconnect 5")), (60.0, 5.0));
    assert_eq!(
        (reconnects("-dcr"), reconnects("known --no-reconnect")),
        (0.0, 0.0)
    );
    let named = spec("known -z 3 --model hdd:2 --drives wal=/a,segment=/b").unwrap();
    assert_eq!(named.broker.drives.len(), 2);
}

#[test]
fn what_only_nodes_of_our_own_could_do_is_refused_for_a_broker_of_the_users() {
    for flag in [
        "--model hdd:1",
        "--drives wal=/a",
        "--nodes 3",
        "--binary /bin/x",
    ] {
        for broker in ["-h amqp://box", "-H amqp://box,amqp://other"] {
            let said = spec(&format!("{flag} {broker}")).unwrap_err();
            assert!(said.contains("nodes of our own"), "{flag}: {said}");
        }
        assert!(spec(flag).is_ok(), "{flag}");
    }
    assert!(
        spec("--pid 1")
            .unwrap_err()
            .contains("--pid is for a broker of -h")
    );
    assert!(spec("--pid 1 -h amqp://box").is_ok());
    assert!(spec("--pid 1 --compare amqp://box").is_ok());
    assert!(spec("--rounds 5").unwrap_err().contains("--compare"));
    assert!(spec("--rounds 5 --compare amqp://box").is_ok());
    assert!(
        spec("-h amqp://a -H amqp://b")
            .unwrap_err()
            .contains("--uris")
    );
}

#[test]
fn a_load_that_tells_brokers_apart_has_as_many_as_it_names() {
    let run = |places: &str, brokers: &str| {
        let options = Command::try_parse_from(["run", "known", "--uris", brokers]).unwrap();
        let text = format!("name = \"x\"\n[[load]]\n{places}");
        let find = |_: &str| Ok(Spec::parse(&text).unwrap());
        options.run.spec(find, Spec::clone).map(|spec| spec.uris)
    };
    let follower = "declare_at = [0]\npublish_to = [1]\nconsume_from = [1]";
    let said = run(follower, "amqp://a").unwrap_err();
    assert!(said.contains("the URIs of 2"), "{said}");
    assert!(said.contains("not of 1"), "{said}");
    // Blanks after commas are nobody's.
    assert_eq!(
        run(follower, "amqp://a, amqp://b").unwrap(),
        ["amqp://a", "amqp://b"]
    );
    let spread = "publish_to = [0, 1, 2]";
    assert!(
        run(spread, "amqp://a,amqp://b")
            .unwrap_err()
            .contains("the URIs of 3")
    );
    assert!(run("publish_to = [0]", "amqp://a").is_ok());
}
