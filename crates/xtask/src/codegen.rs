//! Turns the table of AMQP methods, `crates/amqp/spec/methods.txt`, into
//! `crates/amqp/src/generated.rs`, and the limits of `crates/types` into their page.
//!
//! The results are committed: a reader finds them without running anything, and `check` finds what
//! is stale.

use crate::{limits_page, run};
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Writes the generated files, or with `check` only says whether they are what would be written.
///
/// # Errors
/// If a source cannot be read or has a mistake, if `rustfmt` fails, or with `check` if a file
/// differs.
pub fn run(check: bool) -> Result<()> {
    let amqp = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../amqp");
    let spec = amqp.join("spec/methods.txt");
    let target = amqp.join("src/generated.rs");
    let text =
        std::fs::read_to_string(&spec).with_context(|| format!("reading {}", spec.display()))?;
    let code = rustfmt(&generate(&parse(&text)?))?;
    put(check, &code, &target)?;
    let limits = run::root().join(limits_page::SOURCE);
    let text = std::fs::read_to_string(&limits)
        .with_context(|| format!("reading {}", limits.display()))?;
    let page = limits_page::page(&text)?;
    put(check, &page, &run::root().join(limits_page::PAGE))
}

fn put(check: bool, text: &str, target: &Path) -> Result<()> {
    if check {
        return compare(text, target);
    }
    std::fs::write(target, text).with_context(|| format!("writing {}", target.display()))
}

fn compare(code: &str, target: &Path) -> Result<()> {
    let there =
        std::fs::read_to_string(target).with_context(|| format!("reading {}", target.display()))?;
    ensure!(
        there == code,
        "{} is stale: run `cargo xtask codegen`",
        target.display()
    );
    Ok(())
}

fn rustfmt(code: &str) -> Result<String> {
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024"])
        // Where the workspace's settings are found.
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting rustfmt")?;
    let mut input = child.stdin.take().context("rustfmt has no input")?;
    input.write_all(code.as_bytes())?;
    drop(input);
    let output = child.wait_with_output()?;
    ensure!(
        output.status.success(),
        "rustfmt refuses the generated code"
    );
    Ok(String::from_utf8(output.stdout)?)
}

#[derive(Clone, Copy, PartialEq)]
enum Type {
    Bit,
    Octet,
    Short,
    Long,
    LongLong,
    ShortString,
    LongString,
    Table,
}

struct Field {
    name: String,
    kind: Type,
    reserved: bool,
}

struct Method {
    class: String,
    class_id: u16,
    name: String,
    id: u16,
    sender: String,
    content: bool,
    fields: Vec<Field>,
}

impl Method {
    /// `basic::GetOk`, without the lifetime.
    fn path(&self) -> String {
        format!("{}::{}", self.class, camel(&self.name))
    }

    /// `BasicGetOk`, the name in the enum of all methods.
    fn variant(&self) -> String {
        camel(&format!("{}-{}", self.class, self.name))
    }

    fn visible(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|f| !f.reserved)
    }

    fn lifetime(&self) -> &'static str {
        let borrows =
            |f: &Field| matches!(f.kind, Type::ShortString | Type::LongString | Type::Table);
        if self.visible().any(borrows) {
            "<'a>"
        } else {
            ""
        }
    }

    /// The Rust type of a field. RabbitMQ checks short strings for UTF-8 but in the methods that
    /// carry content, where it would cost something for every message; so do we.
    fn rust_type(&self, kind: Type) -> &'static str {
        match kind {
            Type::Bit => "bool",
            Type::Octet => "u8",
            Type::Short => "u16",
            Type::Long => "u32",
            Type::LongLong => "u64",
            Type::ShortString if self.content => "&'a [u8]",
            Type::ShortString => "&'a str",
            Type::LongString => "&'a [u8]",
            Type::Table => "RawTable<'a>",
        }
    }

    fn read(&self, kind: Type) -> &'static str {
        match kind {
            Type::Octet | Type::Bit => "octet",
            Type::Short => "short",
            Type::Long => "long",
            Type::LongLong => "long_long",
            Type::ShortString if self.content => "short_string",
            Type::ShortString => "short_text",
            Type::LongString => "long_string",
            Type::Table => "table",
        }
    }
}

fn parse(text: &str) -> Result<Vec<Method>> {
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|(number, line)| {
            parse_method(line).with_context(|| format!("methods.txt:{}", number + 1))
        })
        .collect()
}

fn parse_method(line: &str) -> Result<Method> {
    let mut words = line.split_whitespace().peekable();
    let mut word = || words.next().context("the line is too short");
    let (name, ids, sender) = (word()?, word()?, word()?);
    let (class, name) = name.split_once('.').context("a name is class.method")?;
    let (class_id, id) = ids.split_once('.').context("ids are class.method")?;
    ensure!(
        ["client", "server", "both"].contains(&sender),
        "unknown sender {sender}"
    );
    let content = words.next_if_eq(&"content").is_some();
    Ok(Method {
        class: class.to_owned(),
        class_id: class_id.parse()?,
        name: name.to_owned(),
        id: id.parse()?,
        sender: sender.to_owned(),
        content,
        fields: words.map(parse_field).collect::<Result<_>>()?,
    })
}

fn parse_field(word: &str) -> Result<Field> {
    let (name, kind) = word.split_once(':').context("a field is name:type")?;
    let kind = match kind {
        "bit" => Type::Bit,
        "octet" => Type::Octet,
        "short" => Type::Short,
        "long" => Type::Long,
        "longlong" => Type::LongLong,
        "shortstr" => Type::ShortString,
        "longstr" => Type::LongString,
        "table" => Type::Table,
        other => bail!("unknown type {other}"),
    };
    let name = match name {
        "type" => "kind".to_owned(),
        name => name.replace('-', "_"),
    };
    let reserved = name.starts_with("reserved");
    Ok(Field {
        name,
        kind,
        reserved,
    })
}

fn camel(name: &str) -> String {
    name.split('-')
        .map(|word| word[..1].to_uppercase() + &word[1..])
        .collect()
}

fn generate(methods: &[Method]) -> String {
    let mut out = String::from(HEAD);
    let mut classes: Vec<&str> = methods.iter().map(|m| m.class.as_str()).collect();
    classes.dedup();
    for class in classes {
        let of_class: Vec<&Method> = methods.iter().filter(|m| m.class == class).collect();
        generate_class(&mut out, class, &of_class);
    }
    generate_enum(&mut out, methods);
    out
}

const HEAD: &str = "\
//! The methods of AMQP 0-9-1: their structures, how they are read and how they are written.
//!
//! @generated from `spec/methods.txt` by `cargo xtask codegen`. Do not edit.

// Methods and fields bear the specification's own names, and it is their description.
#![allow(missing_docs)]

use crate::error::DecodeError;
use crate::method::{EncodeMethod, Sender};
use crate::wire::Reader;

";

fn generate_class(out: &mut String, class: &str, methods: &[&Method]) {
    let id = methods[0].class_id;
    let _ = writeln!(
        out,
        "/// Class `{class}`.\npub mod {class} {{\nuse crate::error::DecodeError;"
    );
    let _ = writeln!(out, "use crate::method::EncodeMethod;");
    if methods
        .iter()
        .any(|m| m.fields.iter().any(|f| f.kind == Type::Table))
    {
        let _ = writeln!(out, "use crate::table::RawTable;");
    }
    let strings = |f: &Field| matches!(f.kind, Type::ShortString | Type::LongString | Type::Table);
    let writes = methods.iter().any(|m| m.fields.iter().any(strings));
    let _ = writeln!(
        out,
        "use crate::wire::{};\n",
        if writes { "{self, Reader}" } else { "Reader" }
    );
    let _ = writeln!(out, "/// The class's id.\npub const CLASS: u16 = {id};\n");
    for method in methods {
        generate_method(out, method);
    }
    let _ = writeln!(out, "}}\n");
}

fn generate_method(out: &mut String, method: &Method) {
    let (name, life) = (camel(&method.name), method.lifetime());
    let _ = writeln!(out, "/// `{}.{}`.", method.class, method.name);
    let _ = writeln!(
        out,
        "#[derive(Clone, Copy, Debug, PartialEq)]\npub struct {name}{life} {{"
    );
    for field in method.visible() {
        let _ = writeln!(out, "pub {}: {},", field.name, method.rust_type(field.kind));
    }
    let _ = writeln!(out, "}}\n");
    let (generics, anonymous) = if life.is_empty() {
        ("", "")
    } else {
        ("<'a>", "<'_>")
    };
    let input = if life.is_empty() { "&[u8]" } else { "&'a [u8]" };
    let _ = writeln!(out, "impl{generics} {name}{life} {{");
    let _ = writeln!(
        out,
        "/// Reads the fields: all that follows the ids in the frame."
    );
    let _ = writeln!(
        out,
        "///\n/// # Errors\n/// If the bytes are not exactly these fields."
    );
    let _ = writeln!(
        out,
        "pub fn decode(fields: {input}) -> Result<Self, DecodeError> {{"
    );
    let mutable = if method.fields.is_empty() { "" } else { "mut " };
    let _ = writeln!(out, "let {mutable}reader = Reader::new(fields);");
    generate_reads(out, method);
    let names: Vec<&str> = method.visible().map(|f| f.name.as_str()).collect();
    let _ = writeln!(
        out,
        "reader.finish()?;\nOk(Self {{ {} }})\n}}\n}}\n",
        names.join(", ")
    );
    let _ = writeln!(out, "impl EncodeMethod for {name}{anonymous} {{");
    let _ = writeln!(
        out,
        "const CLASS: u16 = CLASS;\nconst METHOD: u16 = {};",
        method.id
    );
    let unused = if method.fields.is_empty() { "_" } else { "" };
    let _ = writeln!(out, "fn encode_fields(&self, {unused}out: &mut Vec<u8>) {{");
    generate_writes(out, method);
    let _ = writeln!(out, "}}\n}}\n");
}

/// Runs of bits, each of at most eight, and the other fields one by one.
fn runs(fields: &[Field]) -> Vec<&[Field]> {
    let bits = |a: &Field, b: &Field| a.kind == Type::Bit && b.kind == Type::Bit;
    fields
        .chunk_by(bits)
        .flat_map(|run| run.chunks(8))
        .collect()
}

fn generate_reads(out: &mut String, method: &Method) {
    for run in runs(&method.fields) {
        let read = method.read(run[0].kind);
        if run[0].kind != Type::Bit {
            let name = if run[0].reserved {
                String::new()
            } else {
                format!("let {} = ", run[0].name)
            };
            let read = if run[0].reserved && read == "short_text" {
                "short_string"
            } else {
                read
            };
            let _ = writeln!(out, "{name}reader.{read}()?;");
            continue;
        }
        let all_reserved = run.iter().all(|f| f.reserved);
        let _ = writeln!(
            out,
            "{}reader.octet()?;",
            if all_reserved { "" } else { "let bits = " }
        );
        for (index, field) in run.iter().enumerate().filter(|(_, f)| !f.reserved) {
            let _ = writeln!(out, "let {} = bits & {} != 0;", field.name, 1 << index);
        }
    }
}

fn generate_writes(out: &mut String, method: &Method) {
    for run in runs(&method.fields) {
        let field = &run[0];
        let value = |zero: &str| {
            if field.reserved {
                zero.to_owned()
            } else {
                format!("self.{}", field.name)
            }
        };
        let line = match field.kind {
            Type::Bit => {
                let bit = |(i, f): (usize, &Field)| format!("u8::from(self.{}) << {i}", f.name);
                let bits = run.iter().enumerate().filter(|(_, f)| !f.reserved).map(bit);
                let bits: Vec<String> = bits
                    .map(|b| b.trim_end_matches(" << 0").to_owned())
                    .collect();
                let bits = if bits.is_empty() {
                    "0".to_owned()
                } else {
                    bits.join(" | ")
                };
                format!("out.push({bits});")
            }
            Type::Octet => format!("out.push({});", value("0")),
            Type::Short if field.reserved => "out.extend_from_slice(&[0; 2]);".to_owned(),
            Type::Short | Type::Long | Type::LongLong => {
                format!("out.extend_from_slice(&{}.to_be_bytes());", value("0"))
            }
            Type::ShortString if field.reserved || method.content => {
                format!("wire::put_short_string(out, {});", value("b\"\""))
            }
            Type::ShortString => format!("wire::put_short_string(out, {}.as_bytes());", value("")),
            Type::LongString => format!("wire::put_long_string(out, {});", value("b\"\"")),
            Type::Table => format!(
                "wire::put_long_string(out, {}.as_bytes());",
                value("RawTable::EMPTY")
            ),
        };
        let _ = writeln!(out, "{line}");
    }
}

fn generate_enum(out: &mut String, methods: &[Method]) {
    let _ = writeln!(
        out,
        "/// Any method.\n#[derive(Clone, Copy, Debug, PartialEq)]\npub enum Method<'a> {{"
    );
    for method in methods {
        let _ = writeln!(
            out,
            "{}({}{}),",
            method.variant(),
            method.path(),
            method.lifetime()
        );
    }
    let _ = writeln!(out, "}}\n\nimpl<'a> Method<'a> {{");
    let _ = writeln!(
        out,
        "/// Reads a method frame's payload.\n///\n/// # Errors"
    );
    let _ = writeln!(
        out,
        "/// If there is no such method, or the bytes are not exactly its fields."
    );
    let _ = writeln!(
        out,
        "pub fn decode(payload: &'a [u8]) -> Result<Self, DecodeError> {{"
    );
    let _ = writeln!(out, "let mut reader = Reader::new(payload);");
    let _ = writeln!(
        out,
        "let (class, method) = (reader.short()?, reader.short()?);"
    );
    let _ = writeln!(
        out,
        "let fields = reader.rest();\nOk(match (class, method) {{"
    );
    for method in methods {
        let (variant, path) = (method.variant(), method.path());
        let _ = writeln!(
            out,
            "({}, {}) => Self::{variant}({path}::decode(fields)?),",
            method.class_id, method.id
        );
    }
    let _ = writeln!(
        out,
        "_ => return Err(DecodeError::UnknownMethod {{ class, method }}),\n}})\n}}\n"
    );
    let _ = writeln!(
        out,
        "/// Appends a method frame's payload: ids and fields.\n\
         pub fn encode(&self, out: &mut Vec<u8>) {{"
    );
    let _ = writeln!(out, "match self {{");
    for method in methods {
        let _ = writeln!(out, "Self::{}(m) => m.encode(out),", method.variant());
    }
    let _ = writeln!(out, "}}\n}}\n");
    generate_method_ids(out, methods);
    let _ = writeln!(out, "}}");
}

fn generate_method_ids(out: &mut String, methods: &[Method]) {
    let _ = writeln!(
        out,
        "/// Class id and method id.\n#[must_use]\n\
         pub const fn ids(&self) -> (u16, u16) {{\nmatch self {{"
    );
    for method in methods {
        let _ = writeln!(
            out,
            "Self::{}(_) => ({}, {}),",
            method.variant(),
            method.class_id,
            method.id
        );
    }
    let _ = writeln!(out, "}}\n}}\n");
    let _ = writeln!(
        out,
        "/// The name, as `class.method`.\n#[must_use]\n\
         pub const fn name(&self) -> &'static str {{\nmatch self {{"
    );
    for method in methods {
        let _ = writeln!(
            out,
            "Self::{}(_) => \"{}.{}\",",
            method.variant(),
            method.class,
            method.name
        );
    }
    let _ = writeln!(out, "}}\n}}\n");
    let _ = writeln!(
        out,
        "/// Who may send it.\n#[must_use]\npub const fn sender(&self) -> Sender {{\nmatch self {{"
    );
    for sender in ["client", "server", "both"] {
        let of: Vec<String> = methods
            .iter()
            .filter(|m| m.sender == sender)
            .map(|m| format!("Self::{}(_)", m.variant()))
            .collect();
        let _ = writeln!(out, "{} => Sender::{},", of.join(" | "), camel(sender));
    }
    let _ = writeln!(out, "}}\n}}\n");
    let content: Vec<String> = methods
        .iter()
        .filter(|m| m.content)
        .map(|m| format!("Self::{}(_)", m.variant()))
        .collect();
    let _ = writeln!(
        out,
        "/// Whether a content header and a body follow it.\n#[must_use]\n\
         pub const fn has_content(&self) -> bool {{"
    );
    let _ = writeln!(out, "matches!(self, {})\n}}", content.join(" | "));
}
