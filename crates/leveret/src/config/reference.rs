//! The reference of all keys, from the one table.

use super::keys::{IGNORED, KEYS, Key, Kind, REFUSED};
use std::fmt::Write;

/// A key's kind in words.
fn kind(key: &Key) -> String {
    match key.kind {
        Kind::Bool => "true or false".to_owned(),
        Kind::Count(least, most) => format!("{least} to {most}"),
        Kind::Bytes(..) => "size".to_owned(),
        Kind::Fraction(most) => format!("above 0, up to {most}"),
        Kind::Address => "address:port".to_owned(),
        Kind::Port => "port or none".to_owned(),
        Kind::Ip => "IP address".to_owned(),
        Kind::Path => "path".to_owned(),
        Kind::Text => "text".to_owned(),
        Kind::Secret => "text, never shown".to_owned(),
        Kind::Schedule => "moment".to_owned(),
        Kind::Choice(words) => words.join(", "),
    }
}

/// The reference as plain text.
#[must_use]
pub fn text() -> String {
    let mut out = String::new();
    for key in KEYS {
        let default = match key.default {
            "" => String::new(),
            default => format!(" = {default}"),
        };
        let _ = writeln!(
            out,
            "{}{default}\n    {}\n    {}",
            key.name,
            key.doc,
            kind(key)
        );
    }
    out
}

/// The reference as Markdown: the text of `docs/configuration.md`.
#[must_use]
pub fn markdown() -> String {
    let mut out = String::from(INTRODUCTION);
    out.push_str("\n## Keys\n\n| key | default | values | meaning |\n|---|---|---|---|\n");
    for key in KEYS {
        let code = |text: &str| match text {
            "" => String::new(),
            text => format!("`{text}`"),
        };
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} |",
            key.name,
            code(key.default),
            kind(key),
            key.doc
        );
    }
    table(
        &mut out,
        "Keys of RabbitMQ that are accepted and change nothing",
        IGNORED,
    );
    table(
        &mut out,
        "Keys of RabbitMQ with which a node refuses to start",
        REFUSED,
    );
    out
}

fn table(out: &mut String, title: &str, rows: &[(&str, &str)]) {
    let _ = write!(out, "\n## {title}\n\n| key | why |\n|---|---|\n");
    for (name, note) in rows {
        let _ = writeln!(out, "| `{name}` | {note} |");
    }
}

const INTRODUCTION: &str = r#"# Configuration

`leveret config reference --markdown` writes this page.

A node needs no configuration. Settings come from three places; a later one overrides an earlier
one:

1. a file: `--config FILE`, or `LEVERET_CONFIG_FILE`, or `RABBITMQ_CONFIG_FILE`. A name that ends in
   `.conf` is read as rabbitmq.conf is; anything else is TOML; a folder is read file by file, in the
   order of names. Beside a `rabbitmq.conf`, its `advanced.config` and `enabled_plugins`
   are read too, as RabbitMQ does (`RABBITMQ_ADVANCED_CONFIG_FILE` and
   `RABBITMQ_ENABLED_PLUGINS_FILE` name others): their entries are checked like the keys below, and
   plugins whose work is not done here refuse a start. A `rabbitmq.config` in Erlang's form is read
   by its ending.
2. the environment: RabbitMQ's `RABBITMQ_DEFAULT_USER`, `_DEFAULT_PASS`, `_DEFAULT_VHOST`,
   `_NODENAME`, `_NODE_PORT` and `_VM_MEMORY_HIGH_WATERMARK`; then, for every key, `LEVERET_` and
   its name in capitals with `_` for each dot: `LEVERET_DISK_FREE_LIMIT_ABSOLUTE=2GB`.
3. options of the command line: `--data-dir`, `--amqp`, `--stream`, `--http`, `--metrics`,
   `--cluster`, `--join`.

`leveret config check [FILE]` says what is wrong without starting anything: it looks at all that a
start does before anybody is served, also at folders, certificates, secrets, the store that is
there, and what that would say to `load_definitions`. With an unknown key the node refuses to start
and names the most similar key.

In TOML, dots make tables, as always: `disk_free_limit.absolute = "2GB"` and `[disk_free_limit]`
with `absolute = "2GB"` say the same. A key that has keys below it and a value of its own
(`log.console`, `log.file`) is written in quotes beside them: `"log.console" = true` and
`"log.console.level" = "debug"`. A list stands for numbered keys (`auth_mechanisms = ["PLAIN",
"EXTERNAL"]`) or for flags that are set (`loopback_users = ["guest"]`).

Sizes take RabbitMQ's units: `k`, `KiB`, `M`, `MiB`, `G`, `GiB`, `T`, `TiB` are powers of 1,024;
`kB`, `MB`, `GB`, `TB` of 1,000; a bare number is bytes.
"#;
