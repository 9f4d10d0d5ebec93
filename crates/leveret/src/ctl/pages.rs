//! The operator's guide names commands that there are.

use super::commands;
use std::path::Path;

/// Pages of the guide whose commands are looked at.
const PAGES: &[&str] = &[
    "backup.md",
    "cluster.md",
    "coming-from-rabbitmq.md",
    "configuration-by-example.md",
    "deployment.md",
    "getting-started.md",
    "monitoring.md",
    "quorum-queues.md",
    "replacing-a-node.md",
    "troubleshooting.md",
    "upgrading.md",
];

/// Words behind which a command of RabbitMQ's tools stands.
const TOOLS: &[&str] = &[
    "leveret ctl",
    "rabbitmqctl",
    "rabbitmq-diagnostics",
    "rabbitmq-queues",
    "rabbitmq-streams",
];

#[test]
fn commands_on_the_pages_are_there() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut seen = 0;
    for page in PAGES {
        let text = std::fs::read_to_string(docs.join(page)).expect(page);
        let typed = text.lines().filter_map(|line| line.split_once("$ "));
        let typed: Vec<&str> = typed.map(|(_, command)| command).collect();
        // A line may end within a command.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let named = text.split('`').skip(1).step_by(2);
        for code in named.chain(typed.iter().copied()) {
            for tool in TOOLS {
                let Some(rest) = code.strip_prefix(tool) else {
                    continue;
                };
                let name = rest.split_whitespace().find(|word| !word.starts_with('-'));
                let Some(name) = name.filter(|name| name.contains('_') || *name == "alarms") else {
                    continue;
                };
                seen += 1;
                assert!(commands::find(name).is_ok(), "{page}: {code}");
            }
        }
    }
    assert!(seen > 20, "{seen}");
}

/// The commands of RabbitMQ's tools, one a line.
const RABBITMQ: &str = include_str!("rabbitmq_commands.txt");

/// Each is there, and on a page of commands that are run with their exit codes and outputs.
#[test]
fn every_command_of_rabbitmqs_tools_is_there_and_is_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/interop/commands");
    let pages = std::fs::read_dir(folder).expect("the folder of pages");
    let pages = pages.map(|page| std::fs::read_to_string(page.expect("a page").path()));
    let text: String = pages.map(|page| page.expect("text")).collect();
    let lines = text.lines().filter(|line| line.starts_with("$ rabbitmq"));
    let run: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    let all: Vec<&str> = RABBITMQ
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    assert_eq!(all.len(), 210);
    for name in all {
        assert!(
            name == "help" || commands::find(name).is_ok(),
            "{name} is no command"
        );
        assert!(run.contains(&name), "{name} is on no page");
    }
}
