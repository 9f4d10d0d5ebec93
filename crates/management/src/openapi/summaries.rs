//! What each method of each resource does, in a sentence, from one table of text (`summaries.txt`).

use std::collections::HashMap;
use std::sync::LazyLock;

const TABLE: &str = include_str!("summaries.txt");

/// The rows by method and path.
static ROWS: LazyLock<HashMap<(&'static str, &'static str), &'static str>> =
    LazyLock::new(|| rows().collect());

fn rows() -> impl Iterator<Item = ((&'static str, &'static str), &'static str)> {
    let is_row = |line: &&str| !line.is_empty() && !line.starts_with('#');
    TABLE.lines().filter(is_row).filter_map(|line| {
        let (of, says) = line.split_once("  ")?;
        Some((of.split_once(' ')?, says.trim()))
    })
}

/// What a method of a resource does.
pub(super) fn of(method: &str, pattern: &str) -> Option<&'static str> {
    ROWS.get(&(method, pattern)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::ROUTES;
    use std::collections::BTreeSet;

    #[test]
    fn every_method_of_every_route_has_one_short_sentence() {
        let mut found = BTreeSet::new();
        for (of, says) in rows() {
            assert!(found.insert(of), "twice: {of:?}");
            assert!(says.ends_with('.') && says.len() <= 110, "{of:?}: {says}");
            assert!(says.starts_with(|c: char| c.is_ascii_uppercase()), "{of:?}");
        }
        let routes = ROUTES.iter();
        let known = routes.flat_map(|route| route.methods.iter().map(|m| (m.name, route.path)));
        assert_eq!(found, known.collect());
    }
}
