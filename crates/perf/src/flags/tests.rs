//! Command lines, and the specifications that they stand for.

use super::*;
use crate::spec::{Rate, Size};
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

#[test]
fn perftests_flags_mean_what_they_mean_there() {
    let spec = spec(
        "-x 2 -y 3 -u q -s 1000 -c 100 -q 50 -z 20 -r 10.5 -C 7 -ad false -f persistent \
         -qa x-max-length=5,x-overflow=reject-publish -h amqp://box/%2f -e ex -k key -t topic \
         -ms -b 10 -A 4 -L 1500 -mp priority=5",
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
    let quorum = super::tests::spec("-qq -y 0").unwrap();
    assert!(quorum.loads[0].durable && !quorum.loads[0].auto_delete);
}

#[test]
fn shapes_of_rates_sizes_and_queues() {
    let load = |line: &str| spec(line).unwrap().loads.remove(0);
    assert_eq!(load("-s 16,4000").size, Size::Range { min: 16, max: 4000 });
    assert!(matches!(load("-vr 100:60 -vr 5:1").rate, Rate::Steps { steps } if steps.len() == 2));
    assert_eq!(load("-r -1").rate, Rate::Unlimited);
    let pattern = load("-qp perf-%d -qpf 1 -qpt 10 -X 5 -x 2");
    assert_eq!((pattern.queues, pattern.publishers), (10, 10));
    assert_eq!(pattern.channels_per_connection, 5);
    assert_eq!(load("-C 100 -D 100").count, Some(100));
}

#[test]
fn what_does_not_go_is_said() {
    for (line, said) in [
        ("known -x 2", "leveret perf show"),
        ("-C 1 -D 2", "do not go together"),
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
