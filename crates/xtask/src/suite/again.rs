//! A second try, by themselves, for a few tests that failed beside other suites.
//!
//! Tests with real clients wait for things that a busy machine is late with, and some foreign ones
//! race with themselves. Who fails once and passes alone is named `AGAIN` in the table, so that it
//! is looked into; a broker that is wrong fails more tests, or the same one again.

use anyhow::Result;

use super::bench::Report;

/// How many tests of a suite may fail and run once more.
const AGAIN_MAX: usize = 3;

/// Runs what failed once more, unless it is too much or has a name that its runner does not know.
pub fn run_again(
    report: &mut Report,
    is_name: fn(&str) -> bool,
    run: impl FnOnce(&[String]) -> Result<Report>,
) -> Result<()> {
    let names: Vec<String> = report.failed.iter().map(|line| test_name(line)).collect();
    if names.is_empty() || names.len() > AGAIN_MAX || !names.iter().all(|name| is_name(name)) {
        return Ok(());
    }
    let second = run(&names)?;
    let (failed, again) = std::mem::take(&mut report.failed)
        .into_iter()
        .partition(|line| {
            let name = test_name(line);
            second.passed == 0 || second.failed.iter().any(|other| test_name(other) == name)
        });
    report.failed = failed;
    report.failed.extend(
        second
            .failed
            .into_iter()
            .filter(|line| !names.contains(&test_name(line))),
    );
    report.again = again;
    report.passed += report.again.len();
    Ok(())
}

/// The test's name out of a line `name: reason`.
fn test_name(line: &str) -> String {
    line.split_once(": ")
        .map_or(line, |(name, _)| name)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing(names: &[&str]) -> Report {
        Report {
            failed: names.iter().map(|name| (*name).to_owned()).collect(),
            ..Report::default()
        }
    }

    #[test]
    fn what_fails_twice_has_failed() {
        let mut report = failing(&["f.py::a: late", "f.py::b: lost"]);
        run_again(
            &mut report,
            |name| name.contains("::"),
            |names| {
                assert_eq!(names, ["f.py::a", "f.py::b"]);
                Ok(Report {
                    passed: 1,
                    ..failing(&["f.py::b: lost again"])
                })
            },
        )
        .expect("the second run ended");
        assert_eq!(report.failed, ["f.py::b: lost"]);
        assert_eq!(report.again, ["f.py::a: late"]);
        assert_eq!(report.passed, 1);
    }

    #[test]
    fn many_failures_and_a_dead_broker_get_no_second_try() {
        for names in [
            &["f::a", "f::b", "f::c", "f::d"][..],
            &["the broker died: see x.log"],
        ] {
            let mut report = failing(names);
            run_again(
                &mut report,
                |name| name.contains("::"),
                |_| panic!("nothing runs again"),
            )
            .expect("nothing to run");
            assert_eq!(report.failed.len(), names.len());
        }
    }
}
