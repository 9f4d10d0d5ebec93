//! Colours: one palette for light and one for dark, as fixed values or as a page's variables.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Where a picture's colours come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// Variables of the page around it ([`style_sheet`]): it follows the reader's light or dark.
    Page,
    /// Fixed colours on white paper, for files and print.
    Light,
    /// Fixed colours on a dark ground.
    Dark,
}

/// What a mark is drawn in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// One of several things of equal rank: the n-th colour, counted from zero.
    Category(usize),
    /// One of an ordered few, from faint (0) to strong: percentiles.
    Rank(usize),
    /// What others measured, or a threshold: grey, behind the rest.
    Reference,
}

/// Parts of a picture that have a colour besides the marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Ground,
    Text,
    Muted,
    Grid,
    Axis,
    Span,
    Banner,
}

/// Name, light colour, dark colour. Neighbours in the palette differ in lightness as well as in
/// hue, so that they stay apart in grey and for most colour-blind readers.
const PARTS: [(Part, &str, &str, &str); 7] = [
    (Part::Ground, "ground", "#ffffff", "#16181d"),
    (Part::Text, "text", "#1d2330", "#eceef2"),
    (Part::Muted, "muted", "#5d6675", "#a3abba"),
    (Part::Grid, "grid", "#e6e9ee", "#2a2e37"),
    (Part::Axis, "axis", "#9aa3b2", "#5b6373"),
    (Part::Span, "span", "#f3f5f8", "#1d2027"),
    (Part::Banner, "banner", "#b42318", "#ff8a7a"),
];
const CATEGORIES: [(&str, &str); 8] = [
    ("#2a6fd6", "#5b9bf5"),
    ("#e2682b", "#f08a4f"),
    ("#15936a", "#3cbf92"),
    ("#a23fb5", "#cc7be0"),
    ("#b98900", "#e0b53a"),
    ("#0e8fa8", "#3fc0d8"),
    ("#c7365f", "#f07598"),
    ("#5a6b2f", "#a3b86a"),
];
const RANKS: [(&str, &str); 6] = [
    ("#86b6ef", "#2f5c9c"),
    ("#5598e7", "#3f78c4"),
    ("#2a6fd6", "#5b9bf5"),
    ("#1c5cab", "#86b6ef"),
    ("#104281", "#b7d3f6"),
    ("#0a2a57", "#dcebfc"),
];
const REFERENCE: (&str, &str) = ("#a9b1be", "#6b7383");

impl Paint {
    pub(super) fn ink(self, ink: Ink) -> Cow<'static, str> {
        let (class, at, (light, dark)) = match ink {
            Ink::Category(at) => {
                let at = at % CATEGORIES.len();
                ("c", at, CATEGORIES[at])
            }
            Ink::Rank(at) => {
                let at = at.min(RANKS.len() - 1);
                ("r", at, RANKS[at])
            }
            Ink::Reference => ("ref", 0, REFERENCE),
        };
        match self {
            Self::Page => Cow::Owned(format!("var(--{class}{at})")),
            Self::Light => Cow::Borrowed(light),
            Self::Dark => Cow::Borrowed(dark),
        }
    }

    pub(super) fn part(self, part: Part) -> Cow<'static, str> {
        let row = PARTS.iter().find(|row| row.0 == part).unwrap_or(&PARTS[1]);
        match self {
            Self::Page => Cow::Owned(format!("var(--{})", row.1)),
            Self::Light => Cow::Borrowed(row.2),
            Self::Dark => Cow::Borrowed(row.3),
        }
    }
}

/// The variables that [`Paint::Page`] refers to: light, dark where the reader prefers it, and light
/// again on paper.
#[must_use]
pub fn style_sheet() -> String {
    let (light, dark) = (variables(false), variables(true));
    format!(
        ":root{{color-scheme:light dark;{light}}}\n\
         @media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n\
         @media print{{:root{{color-scheme:light;{light}}}}}\n"
    )
}

fn variables(dark: bool) -> String {
    let pick = |pair: (&'static str, &'static str)| if dark { pair.1 } else { pair.0 };
    let mut text = String::new();
    for row in PARTS {
        let _ = write!(text, "--{}:{};", row.1, pick((row.2, row.3)));
    }
    let numbered = [
        ("c", CATEGORIES.as_slice()),
        ("r", &RANKS),
        ("ref", &[REFERENCE]),
    ];
    for (class, colours) in numbered {
        for (at, &pair) in colours.iter().enumerate() {
            let _ = write!(text, "--{class}{at}:{};", pick(pair));
        }
    }
    text
}
