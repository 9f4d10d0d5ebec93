//! Moments as answers write them, and as operators do.

/// A moment in RFC 3339's form, in milliseconds.
#[must_use]
pub fn rfc3339(ms: u64) -> String {
    let (days, rest) = (ms / 86_400_000, ms % 86_400_000);
    // Days to a date in the Gregorian calendar, by Howard Hinnant's method: years begin in March,
    // eras are 400 years.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (seconds, millis) = (rest / 1_000, rest % 1_000);
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{millis:03}+00:00")
}

/// What a moment may be, for whoever has written something else.
pub const MOMENTS: &str = "milliseconds since 1970, or a date such as 2026-11-29T10:00:00Z, \
                           2026-11-29T12:00+02:00 or \"2026-11-29 10:00\" (UTC where it says none)";

/// A moment in milliseconds since 1970: a number of them, or a date in the form of RFC 3339, of
/// which the time, its seconds and the offset from UTC may be left out.
#[must_use]
pub fn moment_ms(text: &str) -> Option<i64> {
    if let Ok(ms) = text.parse() {
        return Some(ms);
    }
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, time),
        None => (text, "00:00"),
    };
    let [year, month, day] = numbers(date, '-', &[4, 2, 2])?[..] else {
        return None;
    };
    let days = days(year, month, day)?;
    let (clock, east_minutes) = split_zone(time)?;
    let (clock, ms) = match clock.split_once('.') {
        None => (clock, 0),
        // A fraction is one of seconds, which then are there.
        Some((seconds, fraction)) if seconds.len() == 8 => (seconds, fraction_ms(fraction)?),
        Some(_) => return None,
    };
    let with_seconds = numbers(clock, ':', &[2, 2, 2]);
    let clock = with_seconds.or_else(|| numbers(clock, ':', &[2, 2]))?;
    let (hour, minute) = (clock[0], clock[1]);
    let second = clock.get(2).copied().unwrap_or(0);
    // A minute with a leap second has 61.
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let minutes = days * 1_440 + hour * 60 + minute - east_minutes;
    Some((minutes * 60 + second) * 1_000 + ms)
}

/// Numbers of so many digits with a character between them.
fn numbers(text: &str, between: char, digits: &[usize]) -> Option<Vec<i64>> {
    let parts: Vec<&str> = text.split(between).collect();
    let is_right = |(part, digits): (&&str, &usize)| {
        part.len() == *digits && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let are_right = parts.len() == digits.len() && parts.iter().zip(digits).all(is_right);
    let numbers = parts.iter().map(|part| part.parse().ok());
    are_right.then(|| numbers.collect())?
}

/// A time of day, and by how many minutes its clock is ahead of UTC.
fn split_zone(time: &str) -> Option<(&str, i64)> {
    for utc in ["Z", "z", " UTC"] {
        if let Some(clock) = time.strip_suffix(utc) {
            return Some((clock, 0));
        }
    }
    let Some(at) = time.rfind(['+', '-']) else {
        return Some((time, 0));
    };
    let (clock, zone) = time.split_at(at);
    let [hours, minutes] = numbers(&zone[1..], ':', &[2, 2])?[..] else {
        return None;
    };
    let east = if zone.starts_with('-') { -1 } else { 1 };
    (hours < 24 && minutes < 60).then_some((clock, east * (hours * 60 + minutes)))
}

/// A fraction of a second in milliseconds.
fn fraction_ms(digits: &str) -> Option<i64> {
    let is_number = (1..=9).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| format!("{digits:0<3}")[..3].parse().ok())?
}

/// Days since 1970 of a date in the Gregorian calendar, by Howard Hinnant's method.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of_month = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => return None,
    };
    if !(1..=days_of_month).contains(&day) {
        return None;
    }
    let (year, month_from_march) = match month {
        1 | 2 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_numbers_and_as_dates() {
        for (text, expected) in [
            ("0", 0),
            ("-5", -5),
            ("1709210096789", 1_709_210_096_789),
            ("1970-01-01", 0),
            ("1969-12-31T23:59:59Z", -1_000),
            ("2000-02-29", 951_782_400_000),
            ("2024-02-29T12:34:56.789Z", 1_709_210_096_789),
            ("2024-02-29T12:34:56.789+00:00", 1_709_210_096_789),
            ("2024-02-29t14:34:56.7891+02:00", 1_709_210_096_789),
            ("2024-02-29 07:04:56.7-05:30", 1_709_210_096_700),
            ("2026-11-29 10:00", 1_795_946_400_000),
            ("2026-11-29 10:00:30 UTC", 1_795_946_430_000),
            ("2026-11-29T10:00Z", 1_795_946_400_000),
        ] {
            assert_eq!(moment_ms(text), Some(expected), "{text}");
        }
        for ms in [0, 951_782_400_000, 1_709_210_096_789, 4_102_444_799_999] {
            assert_eq!(moment_ms(&rfc3339(ms)), i64::try_from(ms).ok());
        }
    }

    #[test]
    fn what_is_no_moment_is_none() {
        for text in [
            "",
            "now",
            "1.5",
            "2026-13-01",
            "2026-00-01",
            "2026-02-29",
            "2026-04-31",
            "2026-11-00",
            "26-11-29",
            "2026-11-29T",
            "2026-11-29T24:00",
            "2026-11-29T10:60",
            "2026-11-29T10:00:61",
            "2026-11-29T10",
            "2026-11-29T10:00.5",
            "2026-11-29T10:00:00.",
            "2026-11-29T10:00:00+2",
            "2026-11-29T10:00:00+24:00",
            "2026-11-29T10:00:00CET",
            "2026-11-29T+1:00",
            "2026-+1-29",
        ] {
            assert_eq!(moment_ms(text), None, "{text}");
        }
    }

    #[test]
    fn moments_are_written_as_dates() {
        for (ms, expected) in [
            (0, "1970-01-01T00:00:00.000+00:00"),
            (951_782_400_000, "2000-02-29T00:00:00.000+00:00"),
            (1_709_210_096_789, "2024-02-29T12:34:56.789+00:00"),
            (4_102_444_799_999, "2099-12-31T23:59:59.999+00:00"),
        ] {
            assert_eq!(rfc3339(ms), expected);
        }
    }
}
