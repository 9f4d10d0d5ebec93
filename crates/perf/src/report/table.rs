//! Tables: once as data, then aligned in a terminal, in Markdown, or in a page.

use std::fmt::Write as _;

use crate::plot::escaped;

/// A table whose first column is names and whose others are figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The columns' heads.
    pub head: Vec<String>,
    /// The rows; a cell that is missing is empty.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    #[must_use]
    pub fn new(head: &[&str]) -> Self {
        Self {
            head: head.iter().map(|&name| name.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// One more row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table without columns that are empty in every row, or hold nothing but a dash.
    #[must_use]
    pub fn without_empty_columns(mut self) -> Self {
        let filled = |at: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(at));
            cells
                .into_iter()
                .any(|cell| !cell.is_empty() && cell != "–")
        };
        let kept: Vec<usize> = (0..self.head.len())
            .filter(|&at| at == 0 || filled(at))
            .collect();
        let keep = |row: &mut Vec<String>| {
            *row = kept
                .iter()
                .map(|&at| row.get(at).cloned().unwrap_or_default())
                .collect();
        };
        keep(&mut self.head);
        self.rows.iter_mut().for_each(keep);
        self
    }

    /// For a terminal: columns aligned, figures to the right.
    #[must_use]
    pub fn text(&self) -> String {
        self.aligned("  ", "", |_, _| None)
    }

    /// For a Markdown page; still aligned, for who reads the source.
    #[must_use]
    pub fn markdown(&self) -> String {
        let rule = |at: usize, width: usize| match at {
            0 => Some("-".repeat(width)),
            _ => Some(format!("{}:", "-".repeat(width.saturating_sub(1)))),
        };
        self.aligned(" | ", "|", rule)
    }

    /// Rows with every cell filled to its column's width; below the head what `rule` gives.
    fn aligned(
        &self,
        between: &str,
        edge: &str,
        rule: impl Fn(usize, usize) -> Option<String>,
    ) -> String {
        let widths: Vec<usize> = (0..self.head.len()).map(|at| self.width(at)).collect();
        let mut lines = vec![self.head.clone()];
        let rules: Option<Vec<String>> = widths
            .iter()
            .enumerate()
            .map(|(at, width)| rule(at, *width))
            .collect();
        lines.extend(rules);
        lines.extend(self.rows.iter().cloned());
        let mut text = String::new();
        for line in lines {
            let cells = widths.iter().enumerate().map(|(at, &width)| {
                let cell = line.get(at).map_or("", String::as_str).replace('\n', " ");
                let fill = " ".repeat(width.saturating_sub(cell.chars().count()));
                if at == 0 { cell + &fill } else { fill + &cell }
            });
            let joined = cells.collect::<Vec<_>>().join(between);
            let _ = match edge.is_empty() {
                true => writeln!(text, "{}", joined.trim_end()),
                false => writeln!(text, "{edge} {joined} {edge}"),
            };
        }
        text
    }

    fn width(&self, at: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(at));
        let widths = cells
            .chain(self.head.get(at))
            .map(|cell| cell.chars().count());
        widths.max().unwrap_or(0).max(3)
    }

    /// For a page.
    #[must_use]
    pub fn html(&self) -> String {
        let mut text = "<div class=\"scroll\"><table><thead><tr>".to_owned();
        for name in &self.head {
            let _ = write!(text, "<th>{}</th>", escaped(name));
        }
        text.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            text.push_str("<tr>");
            for at in 0..self.head.len() {
                let cell = escaped(row.get(at).map_or("", String::as_str));
                let _ = match at {
                    0 => write!(text, "<th scope=\"row\">{cell}</th>"),
                    _ => write!(text, "<td>{cell}</td>"),
                };
            }
            text.push_str("</tr>");
        }
        text.push_str("</tbody></table></div>");
        text
    }
}
