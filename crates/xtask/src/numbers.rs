//! Small arithmetic for reports: seeded randomness, percentiles, aligned tables.

/// A small seeded generator (SplitMix64), so that a run can be repeated.
pub struct Random(u64);

impl Random {
    /// A generator whose sequence the seed fixes.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to below `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        assert!(low < high, "an empty range {low}..{high}");
        low + self.next() % (high - low)
    }
}

/// The median of some figures; zero of none.
pub fn median(figures: &[f64]) -> f64 {
    if figures.is_empty() {
        return 0.0;
    }
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        (sorted[middle - 1] + sorted[middle]) / 2.0
    }
}

/// A Markdown table with columns of equal width: the first to the left, the others to the right.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: Vec<String>| {
        let padded = cells
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(at, (cell, &width))| {
                if at == 0 {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            });
        format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
    };
    let mut text = line(head.iter().map(|&cell| cell.to_owned()).collect());
    let rules = widths.iter().enumerate().map(|(at, &width)| {
        if at == 0 {
            "-".repeat(width)
        } else {
            format!("{}:", "-".repeat(width - 1))
        }
    });
    text.push_str(&line(rules.collect()));
    for row in rows {
        text.push_str(&line(row.clone()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_even_and_no_figures() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn a_seed_fixes_the_sequence() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            [
                random.between(0, 100),
                random.between(0, 100),
                random.between(0, 100),
            ]
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn tables_align() {
        let rows = [vec!["a".to_owned(), "12".to_owned()]];
        assert_eq!(
            table(&["row", "n"], &rows),
            "| row |  n |\n| --- | -: |\n| a   | 12 |\n"
        );
    }
}
