//! Rows on the screen: aligned columns, tab-separated, boxed, CSV, JSON.

use crate::plain_text;
use serde_json::{Map, Value};

/// A list to show: named columns, rows of values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows, each with a value for every column.
    pub rows: Vec<Vec<Value>>,
}

impl Rows {
    /// Picks the fields named by `columns` (`shown name`, `field`) out of JSON objects; null where
    /// an object has none.
    #[must_use]
    pub fn pick(objects: &[Value], columns: &[(&str, &str)]) -> Self {
        let row = |object: &Value| {
            let value = |(_, field): &(&str, &str)| lookup(object, field);
            columns.iter().map(value).collect()
        };
        Self {
            columns: columns.iter().map(|(name, _)| (*name).to_owned()).collect(),
            rows: objects.iter().map(row).collect(),
        }
    }

    /// Columns padded to their widest value, and cut so that a line fits the terminal that they
    /// are written to: for people.
    #[must_use]
    pub fn aligned(&self) -> String {
        self.aligned_within(terminal_width())
    }

    /// The same for a terminal of so many columns; whole where it goes elsewhere.
    fn aligned_within(&self, terminal: Option<usize>) -> String {
        let cells = self.cells();
        let mut widths = self.widths(&cells);
        if let Some(terminal) = terminal {
            self.fit(&mut widths, terminal);
        }
        let mut out = String::new();
        for row in std::iter::once(&self.columns).chain(&cells) {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(&pad(&cut(cell, *width), width + 2));
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    /// rabbitmqctl's own form: tabs between values, a header line unless there are no rows.
    #[must_use]
    pub fn tabbed(&self, header: bool) -> String {
        let cells = self.cells();
        let head = (header && !cells.is_empty()).then_some(&self.columns);
        let lines = head.into_iter().chain(&cells);
        lines.map(|row| row.join("\t") + "\n").collect()
    }

    /// rabbitmqctl's `pretty_table`.
    #[must_use]
    pub fn boxed(&self) -> String {
        let cells = self.cells();
        if cells.is_empty() {
            return String::new();
        }
        let widths = self.widths(&cells);
        let rule = |left: &str, middle: &str, right: &str| {
            let bars: Vec<_> = widths.iter().map(|w| "─".repeat(w + 2)).collect();
            format!("{left}{}{right}\n", bars.join(middle))
        };
        let line = |row: &[String]| {
            let cells: Vec<_> = row.iter().zip(&widths).map(|(c, w)| pad(c, *w)).collect();
            format!("│ {} │\n", cells.join(" │ "))
        };
        let between = rule("├", "┼", "┤");
        let mut out = rule("┌", "┬", "┐") + &line(&self.columns);
        for row in &cells {
            out.push_str(&between);
            out.push_str(&line(row));
        }
        out + &rule("└", "┴", "┘")
    }

    /// Comma-separated values with a header line.
    #[must_use]
    pub fn csv(&self) -> String {
        let quote = |cell: &String| {
            if cell.contains([',', '"', '\n', '\r']) {
                format!("\"{}\"", cell.replace('"', "\"\""))
            } else {
                cell.clone()
            }
        };
        let cells = self.cells();
        let rows = std::iter::once(&self.columns).chain(&cells);
        rows.map(|row| row.iter().map(quote).collect::<Vec<_>>().join(",") + "\n")
            .collect()
    }

    /// JSON objects, one a line.
    #[must_use]
    pub fn json_lines(&self) -> String {
        let objects = self.objects();
        objects.map(|object| object + "\n").collect()
    }

    fn objects(&self) -> impl Iterator<Item = String> {
        self.rows.iter().map(|row| {
            let pairs = self.columns.iter().cloned().zip(row.iter().cloned());
            Value::Object(pairs.collect::<Map<_, _>>()).to_string()
        })
    }

    /// A JSON array of objects, one a line.
    #[must_use]
    pub fn json(&self) -> String {
        let objects: Vec<_> = self.objects().collect();
        match objects.is_empty() {
            true => "[]\n".to_owned(),
            false => format!("[\n{}\n]\n", objects.join("\n,")),
        }
    }

    /// Makes the widest columns of texts narrower until a line fits, never one of figures, and none
    /// narrower than its heading or [`TEXT_CHARS_MIN`].
    fn fit(&self, widths: &mut [usize], terminal: usize) {
        let is_figure = |value: &Value| match value {
            Value::Null | Value::Number(_) => true,
            Value::String(text) => text.starts_with(|first: char| first.is_ascii_digit()),
            _ => false,
        };
        let is_text = |column: usize| !self.rows.iter().all(|row| is_figure(&row[column]));
        let least = |column: usize| self.columns[column].chars().count().max(TEXT_CHARS_MIN);
        loop {
            let line = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
            let texts = (0..widths.len()).filter(|at| is_text(*at) && widths[*at] > least(*at));
            let Some(widest) = texts.max_by_key(|at| widths[*at]) else {
                return;
            };
            if line <= terminal {
                return;
            }
            widths[widest] -= 1;
        }
    }

    fn cells(&self) -> Vec<Vec<String>> {
        let row = |row: &Vec<Value>| row.iter().map(show).collect();
        self.rows.iter().map(row).collect()
    }

    fn widths(&self, cells: &[Vec<String>]) -> Vec<usize> {
        let width = |column: usize| {
            let rows = cells.iter().map(|row| row[column].chars().count());
            rows.max().unwrap_or(0)
        };
        let columns = self.columns.iter().enumerate();
        columns
            .map(|(at, name)| width(at).max(name.chars().count()))
            .collect()
    }
}

/// Characters of a text that stay, however narrow the terminal is.
const TEXT_CHARS_MIN: usize = 8;

/// Columns of the terminal that standard output is; none where it is no terminal.
fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// A text of at most so many characters, with a mark where something is left out.
fn cut(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        None => text.to_owned(),
        Some(_) => {
            let kept: String = text.chars().take(width.saturating_sub(1)).collect();
            kept + "…"
        }
    }
}

/// The value at a dotted path within an object; null where there is none.
fn lookup(object: &Value, path: &str) -> Value {
    let found = path.split('.').try_fold(object, |at, part| at.get(part));
    found.cloned().unwrap_or(Value::Null)
}

fn pad(cell: &str, width: usize) -> String {
    let missing = width.saturating_sub(cell.chars().count());
    format!("{cell}{}", " ".repeat(missing))
}

fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    plain_text::push(&mut out, text);
    out
}

/// A value in rabbitmqctl's form: lists in brackets, tables as lists of pairs. What would break a
/// line, speak to a terminal, or turn the direction of what stands beside it, is escaped.
#[must_use]
pub fn show(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => one_line(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(show).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(pairs) => {
            let pair = |(key, value): (&String, &Value)| match (one_line(key), value) {
                (key, Value::String(_)) => format!("{{\"{key}\",\"{}\"}}", show(value)),
                (key, _) => format!("{{\"{key}\",{}}}", show(value)),
            };
            let pairs: Vec<_> = pairs.iter().map(pair).collect();
            format!("[{}]", pairs.join(","))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rows() -> Rows {
        let objects = [
            json!({"name": "q", "n": 1, "arguments": {"x-max-length": 5, "x-overflow": "drop-head"}}),
            json!({"name": "ünï\tq", "n": 20, "tags": ["a", "b"], "arguments": {}}),
        ];
        let columns = [
            ("name", "name"),
            ("messages", "n"),
            ("arguments", "arguments"),
            ("tags", "tags"),
        ];
        Rows::pick(&objects, &columns)
    }

    #[test]
    fn a_table_fits_the_terminal_by_its_widest_texts_and_never_by_its_figures() {
        let long = "a".repeat(40);
        let row = json!({"name": long, "messages": 12_345_678_901_u64, "state": "running"});
        let columns = ["name", "messages", "state"].map(|name| (name, name));
        let table = Rows::pick(&[row], &columns);
        let whole = table.aligned_within(None);
        assert!(whole.contains(&long), "{whole}");
        assert_eq!(table.aligned_within(Some(200)), whole);
        for width in 34..62 {
            let fitted = table.aligned_within(Some(width));
            let longest = fitted.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(width), "{width}: {fitted}");
            let shown = fitted.contains("12345678901") && fitted.contains("running");
            assert!(shown && fitted.contains("aaa…"), "{fitted}");
        }
        // What cannot be cut stays.
        let least = table.aligned_within(Some(1));
        assert!(least.contains("aaaaaaa…  12345678901  running"), "{least}");
    }

    #[test]
    fn every_form_of_a_list() {
        let rows = rows();
        assert_eq!(
            rows.tabbed(true),
            "name\tmessages\targuments\ttags\n\
             q\t1\t[{\"x-max-length\",5},{\"x-overflow\",\"drop-head\"}]\t\n\
             ünï\\tq\t20\t[]\t[a, b]\n"
        );
        assert_eq!(rows.tabbed(false).lines().count(), 2);
        let short = Rows {
            columns: vec!["name".into(), "messages".into()],
            rows: vec![vec![json!("q,1"), json!(7)]],
        };
        assert_eq!(short.csv(), "name,messages\n\"q,1\",7\n");
        assert_eq!(short.json(), "[\n{\"messages\":7,\"name\":\"q,1\"}\n]\n");
        assert_eq!(short.aligned(), "name  messages\nq,1   7\n");
        assert_eq!(
            short.boxed(),
            "┌──────┬──────────┐\n│ name │ messages │\n├──────┼──────────┤\n│ q,1  │ 7        │\n└──────┴──────────┘\n"
        );
    }

    #[test]
    fn an_empty_list_has_no_header() {
        let empty = Rows {
            columns: vec!["name".into()],
            rows: vec![],
        };
        assert_eq!(empty.tabbed(true), "");
        assert_eq!(empty.json(), "[]\n");
        assert_eq!(empty.boxed(), "");
        assert_eq!(empty.csv(), "name\n");
    }

    #[test]
    fn nothing_from_a_name_reaches_the_terminal_as_a_command() {
        assert_eq!(show(&json!("a\u{1b}[31mb\r\n")), "a\\u001b[31mb\\r\\n");
        let turned = json!(["q\u{202e}", {"\u{2067}key": "value\u{61c}"}]);
        let shown = r#"[q\u202e, [{"\u2067key","value\u061c"}]]"#;
        assert_eq!(show(&turned), shown);
    }
}
