//! Reads TAP, the lines in which test programs of most languages say what came of each test.

use super::bench::Report;

/// What a program's output says of its tests. Lines that are indented count too: Node's runner
/// prints a file that holds tests as a test around them, and that one is not counted (its name
/// is the file's).
pub(super) fn parse(text: &str) -> Report {
    let mut report = Report::default();
    let mut lines = text.lines().map(str::trim_start);
    while let Some(line) = lines.next() {
        let failed = line.starts_with("not ok ");
        if !failed && !line.starts_with("ok ") {
            continue;
        }
        let name = line.split_once(" - ").map_or(line, |(_, name)| name);
        if let Some((name, reason)) = name.split_once(" # SKIP") {
            report
                .left_out
                .push((name.to_owned(), reason.trim().to_owned()));
        } else if name.ends_with("js") {
            continue;
        } else if failed {
            // The machine may be gone when somebody reads this: why is said here too.
            let details = lines.clone().take_while(|line| *line != "...");
            // Text of several lines begins in the next one.
            let mut details = details.skip_while(|line| !line.starts_with("error: "));
            let first = details.next().and_then(|line| line.strip_prefix("error: "));
            let why = first.and_then(|first| match first {
                "|-" | "|" => details.next(),
                first => Some(first),
            });
            let why = why.map(|why| format!(": {why}"));
            report
                .failed
                .push(name.to_owned() + &why.unwrap_or_default());
        } else {
            report.passed += 1;
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tap_is_counted() {
        let text = [
            "TAP version 13",
            "# Subtest: x.test.mjs",
            "    ok 1 - confirms arrive",
            "    not ok 2 - returns come first",
            "      ---",
            "      error: 'none came'",
            "      ...",
            "    not ok 4 - all come",
            "      ---",
            "      error: |-",
            "        one was lost",
            "      ...",
            "    ok 3 - later # SKIP no reason",
            "not ok 1 - /somewhere/x.test.mjs",
            "1..1",
        ]
        .join("\n");
        let report = parse(&text);
        assert_eq!(report.passed, 1);
        assert_eq!(
            report.failed,
            ["returns come first: 'none came'", "all come: one was lost"]
        );
        assert_eq!(
            report.left_out,
            [("later".to_owned(), "no reason".to_owned())]
        );
    }
}
