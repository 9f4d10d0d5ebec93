//! Figures of every kind and of hostile data.

use super::scale::FittedAxis;
use super::*;

fn axis(scale: Scale, unit: Unit) -> Axis {
    Axis {
        label: "label".to_owned(),
        scale,
        unit,
    }
}

fn figure(body: Body) -> Figure {
    Figure {
        name: "name".to_owned(),
        title: "title <&> \"of\" \u{0} it".to_owned(),
        subtitle: String::new(),
        banner: Some("MODELLED".to_owned()),
        body,
    }
}

fn lines(scale: Scale, series: Vec<Vec<(f64, f64)>>) -> Figure {
    let series = series.into_iter().enumerate().map(|(at, points)| Series {
        name: format!("series {at}"),
        ink: Ink::Category(at),
        points,
    });
    figure(Body::Lines(Lines {
        x: axis(Scale::Time, Unit::Seconds),
        y: axis(scale, Unit::Micros),
        series: series.collect(),
        spans: vec![Span {
            name: "warm-up".to_owned(),
            range: (0.0, 2.0),
        }],
    }))
}

fn bars(values: Vec<Vec<Option<f64>>>, groups: usize) -> Figure {
    let series = values
        .into_iter()
        .enumerate()
        .map(|(at, values)| BarSeries {
            name: format!("series {at}"),
            ink: Ink::Rank(at),
            values,
        });
    figure(Body::Bars(Bars {
        y: axis(Scale::Linear, Unit::MessagesPerSecond),
        groups: (0..groups)
            .map(|at| format!("group-{at} of many"))
            .collect(),
        series: series.collect(),
    }))
}

/// The document is well-formed, and no number in it is none.
fn check(figure: &Figure) -> String {
    for paint in [Paint::Page, Paint::Light, Paint::Dark] {
        let svg = figure.svg(paint);
        roxmltree::Document::parse(&svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
        for bad in ["NaN", "inf"] {
            assert!(!svg.contains(bad), "{bad} in {svg}");
        }
    }
    figure.svg(Paint::Light)
}

#[test]
fn values_are_short_and_have_units() {
    let cases = [
        (Unit::MessagesPerSecond, 0.0, "0/s"),
        (Unit::MessagesPerSecond, 999.4, "999/s"),
        (Unit::MessagesPerSecond, 999.6, "1k/s"),
        (Unit::MessagesPerSecond, 52_544.0, "52.5k/s"),
        (Unit::MessagesPerSecond, 1_230_000.0, "1.23M/s"),
        (Unit::Micros, 42.0, "42 µs"),
        (Unit::Micros, 4_240.0, "4.24 ms"),
        (Unit::Micros, 1_500_000.0, "1.5 s"),
        (Unit::Micros, 120_000_000.0, "2 min"),
        (Unit::BytesPerSecond, 250e6, "250 MB/s"),
        (Unit::Percentile, 99.99, "p99.99"),
        (Unit::Count, f64::NAN, "–"),
        (Unit::Count, f64::INFINITY, "–"),
        (Unit::Count, -0.001, "0"),
    ];
    for (unit, value, text) in cases {
        assert_eq!(unit.write(value), text, "{unit:?} {value}");
    }
    assert_eq!(Unit::Seconds.tick(150.0), "2:30");
}

#[test]
fn ticks_are_numbers_that_people_count_in() {
    let cases: [(Scale, Unit, &[f64], &[&str]); 5] = [
        (
            Scale::Linear,
            Unit::Count,
            &[3.0, 87.0],
            &["0", "20", "40", "60", "80", "100"],
        ),
        (
            Scale::Time,
            Unit::Seconds,
            &[0.0, 30.0],
            &["0", "5", "10", "15", "20", "25", "30"],
        ),
        (
            Scale::Log,
            Unit::Micros,
            &[120.0, 9_000.0],
            &[
                "100 µs", "200 µs", "500 µs", "1 ms", "2 ms", "5 ms", "10 ms",
            ],
        ),
        (
            Scale::Percentile,
            Unit::Percentile,
            &[99.9],
            &["0 %", "50 %", "90 %", "99 %", "99.9 %"],
        ),
        (
            Scale::Log,
            Unit::Micros,
            &[0.0, -1.0, f64::NAN],
            &["1 µs", "2 µs", "5 µs", "10 µs"],
        ),
    ];
    for (scale, unit, values, wanted) in cases {
        let placed = FittedAxis::fit(scale, unit, values.iter().copied());
        let labels: Vec<&str> = placed.ticks.iter().map(|tick| tick.1.as_str()).collect();
        assert_eq!(labels, wanted, "{scale:?} {values:?}");
        assert!(
            placed
                .ticks
                .iter()
                .all(|tick| (0.0..=1.0).contains(&tick.0))
        );
    }
}

#[test]
fn every_further_nine_takes_the_same_room() {
    let placed = FittedAxis::fit(Scale::Percentile, Unit::Percentile, [99.99].into_iter());
    let at = |value: f64| placed.place(value).unwrap();
    assert!((at(99.0) - at(90.0) - (at(99.9) - at(99.0))).abs() < 1e-9);
}

#[test]
fn ranges_of_any_size_have_few_ticks() {
    for high in [1e-300, 1e-9, 0.1, 1.0, 7.0, 1e6, 1e18, 1e300] {
        for scale in [Scale::Linear, Scale::Time, Scale::Log, Scale::Percentile] {
            let ticks = FittedAxis::fit(scale, Unit::Count, [high].into_iter()).ticks;
            assert!(ticks.len() <= 64, "{scale:?} {high}: {}", ticks.len());
        }
    }
}

#[test]
fn hostile_values_are_gaps() {
    let values = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -1.0,
        1.0,
        1e300,
        1e-300,
    ];
    let points: Vec<(f64, f64)> = values.iter().map(|&value| (value, value)).collect();
    for scale in [Scale::Linear, Scale::Log] {
        check(&lines(
            scale,
            vec![points.clone(), vec![], vec![(1.0, 5.0)]],
        ));
    }
    check(&bars(
        vec![values.iter().map(|&value| Some(value)).collect()],
        values.len(),
    ));
    check(&bars(vec![vec![None]], 1));
    check(&bars(vec![], 0));
    check(&lines(Scale::Log, vec![]));
}

#[test]
fn values_that_stand_upright_stay_below_the_legend() {
    let svg = check(&bars(vec![vec![Some(123_456.0); 6]; 6], 6));
    let document = roxmltree::Document::parse(&svg).unwrap();
    let texts = || {
        document
            .descendants()
            .filter(|node| node.has_tag_name("text"))
    };
    let foot =
        |node: &roxmltree::Node<'_, '_>| -> f64 { node.attribute("y").unwrap().parse().unwrap() };
    let legend = texts()
        .filter(|node| node.text().is_some_and(|text| text.starts_with("series")))
        .map(|node| foot(&node))
        .fold(0.0, f64::max);
    let upright: Vec<_> = texts()
        .filter(|node| {
            node.attribute("transform")
                .is_some_and(|t| t.contains("-90"))
        })
        .collect();
    assert_eq!(upright.len(), 36);
    for node in upright {
        let text = node.text().unwrap();
        assert!(foot(&node) - super::svg::width_of(text) >= legend, "{text}");
    }
}

#[test]
fn text_cannot_break_out() {
    let svg = check(&lines(Scale::Linear, vec![vec![(0.0, 1.0)]]));
    assert!(svg.contains("title &lt;&amp;&gt; &quot;of&quot;  it"));
}

#[test]
fn the_banner_is_in_every_picture_that_has_one() {
    let mut picture = lines(Scale::Linear, vec![vec![(0.0, 1.0)]]);
    assert!(picture.svg(Paint::Light).contains("MODELLED"));
    picture.banner = None;
    assert!(!picture.svg(Paint::Light).contains("MODELLED"));
}

#[test]
fn long_series_keep_their_extremes_and_little_else() {
    let count = POINTS_MAX * 50;
    let mut points: Vec<(f64, f64)> = (0..count).map(|at| (at as f64, 1.0)).collect();
    points[count / 3].1 = 1_000.0;
    let long = check(&lines(Scale::Linear, vec![points.clone()]));
    let short = check(&lines(Scale::Linear, vec![points[..POINTS_MAX].to_vec()]));
    assert!(
        long.len() < short.len() * 2,
        "{} and {}",
        long.len(),
        short.len()
    );
    assert!(
        long.contains(">1 ms</text>"),
        "the one high value decides the axis"
    );
}

#[test]
fn what_is_too_many_is_left_out_and_said() {
    let many = |count| lines(Scale::Linear, vec![vec![(0.0, 1.0)]; count]);
    assert!(!check(&many(SERIES_MAX)).contains("left out"));
    assert!(check(&many(SERIES_MAX + 1)).contains("1 further lines left out"));
    assert!(!check(&bars(vec![vec![]], GROUPS_MAX)).contains("left out"));
    assert!(check(&bars(vec![vec![]], GROUPS_MAX + 1)).contains("1 further groups left out"));
}

#[test]
fn the_page_has_every_colour_that_figures_ask_for() {
    let sheet = style_sheet();
    let series = (0..SERIES_MAX).map(|at| vec![(0.0, at as f64)]).collect();
    let svg = lines(Scale::Linear, series).svg(Paint::Page);
    for (at, _) in svg.match_indices("var(--") {
        let name = svg[at + 4..].split(')').next().unwrap();
        assert!(sheet.contains(&format!("{name}:")), "{name}");
    }
    assert!(
        !svg.contains("fill:#") && !svg.contains("stroke:#"),
        "a fixed colour in a page"
    );
}

/// All texts of a picture, with where they stand.
fn texts(svg: &str) -> Vec<(f64, String)> {
    let document = roxmltree::Document::parse(svg).unwrap();
    let texts = document
        .descendants()
        .filter(|node| node.has_tag_name("text"));
    texts
        .map(|node| {
            let x = node.attribute("x").unwrap().parse().unwrap();
            (x, node.text().unwrap_or_default().to_owned())
        })
        .collect()
}

#[test]
fn long_names_keep_their_ends_and_stay_within_the_picture() {
    let long = |end: &str| format!("{}{end}", "a long name ".repeat(20));
    let mut picture = lines(Scale::Linear, vec![vec![(0.0, 1.0)], vec![(0.0, 2.0)]]);
    picture.title = long("titled");
    let Body::Lines(body) = &mut picture.body else {
        unreachable!()
    };
    body.series[0].name = long("published");
    body.series[1].name = long("consumed");
    let found = texts(&check(&picture));
    for end in ["titled", "published", "consumed"] {
        let (x, text) = found.iter().find(|(_, text)| text.ends_with(end)).unwrap();
        assert!(x + svg::width_of(text) <= svg::WIDTH, "{x} {text}");
        assert!(text.starts_with("a long"), "{text}");
    }
    let mut picture = bars(vec![vec![Some(1.0); 8], vec![Some(2.0); 8]], 8);
    let Body::Bars(body) = &mut picture.body else {
        unreachable!()
    };
    body.groups[1] = long("group");
    body.series[0].name = long("legend");
    let found = texts(&check(&picture));
    let (x, text) = found
        .iter()
        .find(|(_, text)| text.ends_with("legend"))
        .unwrap();
    assert!(x + svg::width_of(text) <= svg::WIDTH, "{x} {text}");
    let (x, text) = found
        .iter()
        .find(|(_, text)| text.ends_with("group"))
        .unwrap();
    let reach = svg::width_of(text) * 35f64.to_radians().cos();
    assert!(x - reach >= 0.0, "{x} {text}");
}

#[test]
fn the_values_of_bars_are_all_written_or_none() {
    let written = |values: Vec<Option<f64>>, series: usize, groups: usize| {
        let texts = texts(&check(&bars(vec![values; series], groups)));
        let numbers = ["7", "77", "777k"];
        let numbers = texts
            .iter()
            .filter(|(_, text)| numbers.contains(&text.as_str()));
        numbers.count()
    };
    let values = |groups: usize| {
        let values = [7.0, 77.0, 777_000.0].into_iter().cycle().map(Some);
        values.take(groups).collect::<Vec<_>>()
    };
    assert_eq!(written(values(3), 1, 3), 3);
    assert_eq!(written(values(12), 3, 12), 36, "upright");
    assert_eq!(written(values(20), 3, 20), 0, "too narrow for any");
}

#[test]
fn a_gap_takes_no_extreme_of_a_long_series_away() {
    let count = POINTS_MAX * 10;
    let mut points: Vec<(f64, f64)> = (0..count).map(|at| (at as f64, 1.0)).collect();
    points[count / 3].1 = 1_000.0;
    points[count / 3 + 1].1 = f64::NAN;
    points[count / 3 - 1].1 = f64::NAN;
    assert!(check(&lines(Scale::Linear, vec![points])).contains(">1 ms</text>"));
}
