//! Pages whose commands are run: what a console block shows is typed into a shell, and what comes
//! out is compared with what the block says.
//!
//! - A line that begins with `$ ` is a command, `> ` goes on with it. `node-2$ ` types it at that
//!   node of a cluster of three, which a page with such a line gets.
//! - The lines below it are its output, standard error included: `...` stands for any text within a
//!   line, and alone on a line for any lines. Where none are there, anything may come out. `[65]`
//!   is the exit code, 0 where nothing is said; `(nothing)` says that nothing may come out.
//! - What people type is what is run, but for addresses and folders: `127.0.0.1:5672` (and 15672,
//!   15692, 5552), `/var/lib/leveret` and `/etc/leveret` are those of the page's own broker; in the
//!   output they are put back. `systemctl start`, `stop`, `kill` and `restart leveret` act on it.
//! - A block with the words `console leveret` is not for RabbitMQ; a block of any language with
//!   `file=PATH` behind it is the content of a file.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::bench::{Bench, Report};
use crate::broker::{self, Broker, Kind};
use crate::cluster::Cluster;
use crate::run;

/// Names under which the binary is called in pages.
const NAMES: [&str; 7] = [
    "leveret",
    "rabbitmqctl",
    "rabbitmq-diagnostics",
    "rabbitmq-plugins",
    "rabbitmq-queues",
    "rabbitmq-streams",
    "rabbitmq-upgrade",
];
/// Seconds that a command may take.
const SECONDS: &str = "90";
/// Nodes that a page with prompts of nodes gets.
const NODES: usize = 3;

/// What a page does.
#[derive(Debug, PartialEq)]
enum Step {
    /// A command is typed.
    Type(Typed),
    /// A file is written.
    Write { path: String, text: String },
}

impl Step {
    /// Whether it is a command that this broker is given.
    fn is_for(&self, kind: Kind) -> bool {
        matches!(self, Step::Type(typed) if kind == Kind::Leveret || typed.is_common)
    }
}

/// A command, and what it says.
#[derive(Debug, PartialEq)]
struct Typed {
    /// The line of the page, from 1.
    line: usize,
    /// The node, from 0, where the prompt names one.
    node: Option<usize>,
    command: String,
    /// What comes out; none where the page does not say.
    output: Option<Vec<String>>,
    code: i32,
    /// Whether RabbitMQ says the same.
    is_common: bool,
}

/// Runs all pages of these.
pub(super) fn run(bench: &Bench, pages: &[PathBuf]) -> Result<Report> {
    let mut report = Report::default();
    for page in pages {
        let text = fs::read_to_string(page).with_context(|| format!("{}", page.display()))?;
        let name = page.file_stem().unwrap_or_default().to_string_lossy();
        let steps = steps(&text).with_context(|| format!("{}", page.display()))?;
        if steps.iter().any(|step| step.is_for(bench.kind)) {
            report.add(run_page(bench, &name, &steps)?);
        }
    }
    Ok(report)
}

/// All pages of a folder, in the order of their names.
pub(super) fn pages(folder: &str) -> Result<Vec<PathBuf>> {
    let folder = run::root().join(folder);
    let entries = fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))?;
    let mut pages = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "md") {
            pages.push(path);
        }
    }
    pages.sort();
    Ok(pages)
}

/// The steps of a page, in its order.
fn steps(page: &str) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((_, line)) = lines.next() {
        let Some(info) = line.trim_start().strip_prefix("```") else {
            continue;
        };
        let words: Vec<&str> = info.split_whitespace().collect();
        let block: Vec<(usize, &str)> = lines
            .by_ref()
            .take_while(|(_, line)| line.trim() != "```")
            .map(|(at, line)| (at + 1, line))
            .collect();
        if let Some(path) = words.iter().find_map(|word| word.strip_prefix("file=")) {
            let text: String = block.iter().map(|(_, line)| format!("{line}\n")).collect();
            let path = path.to_owned();
            steps.push(Step::Write { path, text });
        } else if words.first() == Some(&"console") {
            let is_common = !words.contains(&"leveret");
            steps.extend(typed(&block, is_common)?.into_iter().map(Step::Type));
        }
    }
    Ok(steps)
}

/// The node of a prompt, and what is typed behind it.
fn prompt(line: &str) -> Option<(Option<usize>, &str)> {
    if let Some(command) = line.strip_prefix("$ ") {
        return Some((None, command));
    }
    let (number, command) = line.strip_prefix("node-")?.split_once("$ ")?;
    let number: usize = number.parse().ok().filter(|n| (1..=NODES).contains(n))?;
    Some((Some(number - 1), command))
}

fn typed(block: &[(usize, &str)], is_common: bool) -> Result<Vec<Typed>> {
    let mut all: Vec<Typed> = Vec::new();
    for &(line, text) in block {
        if let Some((node, command)) = prompt(text) {
            all.push(Typed {
                line,
                node,
                command: command.to_owned(),
                output: None,
                code: 0,
                is_common,
            });
            continue;
        }
        let Some(last) = all.last_mut() else {
            bail!("line {line}: a console block begins with a command");
        };
        let code = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        if let (Some(more), None) = (text.strip_prefix("> "), &last.output) {
            last.command.push('\n');
            last.command.push_str(more);
        } else if let Some(code) = code.and_then(|code| code.parse().ok()) {
            last.code = code;
        } else {
            let output = last.output.get_or_insert_with(Vec::new);
            if text != "(nothing)" {
                output.push(text.to_owned());
            }
        }
    }
    Ok(all)
}

/// What a page runs on.
struct Stage {
    kind: Kind,
    folder: PathBuf,
    nodes: Vec<Broker>,
}

impl Stage {
    fn set_up(bench: &Bench, page: &str, steps: &[Step]) -> Result<Stage> {
        let is_cluster = steps
            .iter()
            .any(|step| matches!(step, Step::Type(typed) if typed.node.is_some()));
        let nodes = match is_cluster {
            true => named_cluster(&format!("{}-{page}", bench.name))?.nodes,
            false => vec![Broker::start(
                bench.kind,
                &format!("{}-{page}", bench.name),
                match bench.kind {
                    Kind::Leveret => &NODE_NAMES[..1],
                    Kind::RabbitMq => &[],
                },
            )?],
        };
        let folder = bench
            .folder()?
            .join(format!("{page}-{}", bench.kind.name()));
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(folder.join("bin"))?;
        fs::create_dir_all(folder.join("etc"))?;
        // Beside RabbitMQ there is no binary of ours.
        let is_ours = bench.kind == Kind::Leveret;
        for name in NAMES {
            let place = folder.join("bin").join(name);
            if is_ours {
                symlink(fs::canonicalize(broker::leveret_binary())?, place)?;
            } else {
                // RabbitMQ's scripts look for the others beside themselves.
                let script = Path::new(broker::RABBITMQ_BIN).join(name);
                let text = format!("#!/bin/sh\nexec {} \"$@\"\n", script.display());
                fs::write(&place, text)?;
                fs::set_permissions(&place, fs::Permissions::from_mode(0o755))?;
            }
        }
        Ok(Stage {
            kind: bench.kind,
            folder,
            nodes,
        })
    }

    /// What pages say, and what it is here: of the node that is meant.
    fn names(&self, node: usize) -> Vec<(String, String)> {
        let broker = &self.nodes[node];
        let path = |path: PathBuf| path.display().to_string();
        let mut names = vec![
            ("127.0.0.1:5672".to_owned(), broker.amqp.to_string()),
            ("127.0.0.1:15672".to_owned(), broker.http.to_string()),
            ("127.0.0.1:15692".to_owned(), broker.metrics.to_string()),
            ("127.0.0.1:5552".to_owned(), broker.stream.to_string()),
            (
                "/var/lib/leveret".to_owned(),
                path(broker.folder.join("data")),
            ),
            ("/etc/leveret".to_owned(), path(self.folder.join("etc"))),
        ];
        // The links of a cluster, wherever the page has them.
        for (at, other) in self.nodes.iter().enumerate() {
            if let Some(address) = other.cluster_address() {
                names.push((format!("node-{}:25672", at + 1), address.to_owned()));
            }
        }
        names
    }

    fn write(&self, path: &str, text: &str) -> Result<()> {
        let text = put(text, &self.names(0));
        let path = PathBuf::from(put(path, &self.names(0)));
        let path = self.folder.join(path);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    }

    /// What came out, as pages say it, and the exit code.
    fn run(&mut self, typed: &Typed) -> Result<(String, i32)> {
        let node = typed.node.unwrap_or(0);
        if let Some(action) = typed.command.strip_prefix("systemctl ") {
            return self
                .supervise(node, action.trim())
                .map(|()| (String::new(), 0));
        }
        let names = self.names(node);
        let mut command = Command::new("timeout");
        command.args([SECONDS, "sh", "-c"]);
        command.arg(format!("exec 2>&1\n{}", put(&typed.command, &names)));
        command.current_dir(&self.folder).stdin(Stdio::null());
        command.env_clear();
        if self.kind == Kind::RabbitMq {
            let told = self.nodes[node].ctl_command();
            let told = told
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?)));
            command.envs(told);
        }
        let path = format!(
            "{}:/usr/bin:/bin:/usr/sbin:/sbin",
            self.folder.join("bin").display()
        );
        command.env("PATH", path).env("LC_ALL", "C.UTF-8");
        command.env("HOME", &self.nodes[node].folder);
        if self.kind == Kind::Leveret {
            command.env("LEVERET_DATA_DIR", self.nodes[node].folder.join("data"));
        }
        let output = command.output().context("start a shell")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let back: Vec<(String, String)> = names.into_iter().map(|(said, is)| (is, said)).collect();
        Ok((put(&said, &back), output.status.code().unwrap_or(-1)))
    }

    /// What systemd would do.
    fn supervise(&mut self, node: usize, action: &str) -> Result<()> {
        let broker = &mut self.nodes[node];
        match action {
            "start leveret" => {
                // What has ended by itself, or by a command, is waited for.
                broker.kill()?;
                broker.launch()
            }
            "stop leveret" => broker.stop(),
            "kill leveret" => broker.kill(),
            "restart leveret" => {
                broker.stop()?;
                broker.launch()
            }
            other => bail!("pages have no `systemctl {other}`"),
        }
    }
}

/// What names the nodes of a page.
const NODE_NAMES: [&str; NODES] = [
    "node_name = leveret@node-1",
    "node_name = leveret@node-2",
    "node_name = leveret@node-3",
];

fn named_cluster(name: &str) -> Result<Cluster> {
    Cluster::start_with(name, &NODE_NAMES.map(|setting| format!("{setting}\n")))
}

/// Puts one name for the other.
fn put(text: &str, names: &[(String, String)]) -> String {
    let mut text = text.to_owned();
    for (from, to) in names {
        text = text.replace(from, to);
    }
    text
}

fn run_page(bench: &Bench, page: &str, steps: &[Step]) -> Result<Report> {
    let mut report = Report::default();
    let mut stage = Stage::set_up(bench, page, steps)?;
    for step in steps {
        let typed = match step {
            Step::Write { path, text } => {
                stage.write(path, text)?;
                continue;
            }
            Step::Type(_) if !step.is_for(bench.kind) => continue,
            Step::Type(typed) => typed,
        };
        let (said, code) = stage.run(typed)?;
        let is_said = match &typed.output {
            Some(expected) => matches(
                expected,
                &said.lines().map(str::trim_end).collect::<Vec<_>>(),
            ),
            None => true,
        };
        if is_said && code == typed.code {
            report.passed += 1;
        } else {
            let expected = typed.output.as_ref().map(|lines| lines.join("\n"));
            report.failed.push(format!(
                "{page}:{}: {}\n--- expected, with exit code {}\n{}\n--- came, with {code}\n{said}---",
                typed.line,
                typed.command,
                typed.code,
                expected.unwrap_or_else(|| "(anything)".to_owned()),
            ));
        }
    }
    for node in stage
        .nodes
        .iter_mut()
        .filter_map(|node| node.is_alive().then_some(node))
    {
        node.stop()?;
    }
    Ok(report)
}

/// Whether lines are what a page says.
fn matches(expected: &[String], said: &[&str]) -> bool {
    match (expected.split_first(), said.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first == "..." => {
            (0..=said.len()).any(|skipped| matches(rest, &said[skipped..]))
        }
        (Some((first, rest)), Some((line, after))) => {
            line_matches(first.trim_end(), line) && matches(rest, after)
        }
        _ => false,
    }
}

fn line_matches(expected: &str, line: &str) -> bool {
    let Some((beginning, rest)) = expected.split_once("...") else {
        return expected == line;
    };
    let Some(after) = line.strip_prefix(beginning) else {
        return false;
    };
    let mut ends = (0..=after.len()).filter(|at| after.is_char_boundary(*at));
    ends.any(|at| line_matches(rest, &after[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_its_commands_with_what_comes_out() {
        let page = "text\n```console\n$ echo a\n> b\na\n...\nnode-2$ false\n[1]\n$ true\n(nothing)\n```\n\
                    ```toml file=/etc/leveret/x.toml\na = 1\n```\n```sh\n$ not run\n```\n\
                    ```console leveret\n$ leveret\n```\n";
        let steps = steps(page).expect("a page");
        let command = |line, node, command: &str, output: Option<&[&str]>, code, is_common| {
            Step::Type(Typed {
                line,
                node,
                command: command.to_owned(),
                output: output.map(|lines| lines.iter().map(|l| (*l).to_owned()).collect()),
                code,
                is_common,
            })
        };
        assert_eq!(
            steps,
            [
                command(3, None, "echo a\nb", Some(&["a", "..."]), 0, true),
                command(7, Some(1), "false", None, 1, true),
                command(9, None, "true", Some(&[]), 0, true),
                Step::Write {
                    path: "/etc/leveret/x.toml".to_owned(),
                    text: "a = 1\n".to_owned()
                },
                command(19, None, "leveret", None, 0, false),
            ]
        );
        assert!(super::steps("```console\nno command\n```\n").is_err());
        let of_rabbitmq = steps.iter().filter(|step| step.is_for(Kind::RabbitMq));
        assert_eq!(of_rabbitmq.count(), 3);
        let of_leveret = steps.iter().filter(|step| step.is_for(Kind::Leveret));
        assert_eq!(of_leveret.count(), 4);
    }

    #[test]
    fn dots_stand_for_text_and_for_lines() {
        let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
        for (expected, said, is_same) in [
            ("a\nb", "a\nb", true),
            ("a", "a\nb", false),
            ("a\n...", "a\nb\nc", true),
            ("...\nc", "a\nb\nc", true),
            ("...\nb", "a\nb\nc", false),
            ("up ... s", "up 12 s", true),
            ("up ... s", "up 12", false),
            ("...", "", true),
        ] {
            let said: Vec<&str> = said.lines().collect();
            assert_eq!(
                matches(&lines(expected), &said),
                is_same,
                "{expected:?} {said:?}"
            );
        }
    }
}
