//! When a log file is rotated by the clock: rabbitmq.conf's `log.file.rotation.date`.

/// A moment that comes again: `$H30`, `$D0`, `$W0D23`, `$M1D0`. Hours and days are those of UTC, as
/// the log's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Every hour at this minute.
    Hourly(u64),
    /// Every day at this hour.
    Daily(u64),
    /// Every week on this day, Sunday being 0, at this hour.
    Weekly(u64, u64),
    /// Every month on this day at this hour; on the month's last where it is shorter.
    Monthly(u64, u64),
}

const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;
/// The first of January 1970 was a Thursday.
const FIRST_WEEKDAY: u64 = 4;

impl Schedule {
    /// Reads what an operator typed; the error says what would have been right.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::read(text).ok_or_else(|| {
            "must be such as \"$D0\" (every day at midnight), \"$H30\" (every hour), \"$W0D23\" \
             (Sundays at 23) or \"$M1D0\" (the first of every month; \"$ML\" the last)"
                .to_owned()
        })
    }

    fn read(text: &str) -> Option<Self> {
        let mut letters = text.strip_prefix('$')?.chars();
        let (unit, rest) = (letters.next()?, letters.as_str());
        let number = |text: &str, most: u64| text.parse().ok().filter(|n| *n <= most);
        // A day may be followed by an hour; midnight where it is not.
        let (day, hour) = match rest.split_once('D') {
            Some((day, hour)) => (day, number(hour, 23)?),
            None => (rest, 0),
        };
        Some(match unit {
            'H' => Self::Hourly(number(rest, 59)?),
            'D' => Self::Daily(number(rest, 23)?),
            'W' => Self::Weekly(number(day, 6)?, hour),
            'M' if day == "L" => Self::Monthly(31, hour),
            'M' => Self::Monthly(number(day, 31).filter(|day| *day > 0)?, hour),
            _ => return None,
        })
    }

    /// The first such moment after `now`; both in seconds since 1970 (UTC).
    #[must_use]
    pub fn next_after(self, now: u64) -> u64 {
        let first_day = now / DAY;
        let on = |day: u64, hour: u64| day * DAY + hour * HOUR;
        let next = |hour: u64, fits: &dyn Fn(u64) -> bool| {
            let mut days = first_day..;
            days.find(|day| fits(*day) && on(*day, hour) > now)
                .map_or(u64::MAX, |day| on(day, hour))
        };
        match self {
            Self::Hourly(minute) => {
                let this_hour = now / HOUR * HOUR + minute * 60;
                this_hour + if this_hour > now { 0 } else { HOUR }
            }
            Self::Daily(hour) => next(hour, &|_| true),
            Self::Weekly(weekday, hour) => next(hour, &|day| (day + FIRST_WEEKDAY) % 7 == weekday),
            Self::Monthly(wanted, hour) => next(hour, &|day| {
                let at = day_of_month(day);
                at == wanted || at < wanted && day_of_month(day + 1) == 1
            }),
        }
    }
}

/// Which day of its month a day is, by Howard Hinnant's method: years begin in March.
const fn day_of_month(days_since_1970: u64) -> u64 {
    let day_of_era = (days_since_1970 + 719_468) % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    day_of_year - (153 * month_from_march + 2) / 5 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-21 15:30:00, a Saturday.
    const NOW: u64 = 1_795_275_000;
    const MIDNIGHT: u64 = NOW - 15 * HOUR - HOUR / 2;

    #[test]
    fn every_form_of_rabbitmqs_has_its_next_moment() {
        for (text, expected) in [
            ("$H31", NOW + 60),
            ("$H30", NOW + HOUR),
            ("$H0", NOW + HOUR / 2),
            ("$D0", MIDNIGHT + DAY),
            ("$D16", MIDNIGHT + 16 * HOUR),
            ("$D15", MIDNIGHT + DAY + 15 * HOUR),
            ("$W0", MIDNIGHT + DAY),
            ("$W0D23", MIDNIGHT + DAY + 23 * HOUR),
            ("$W6", MIDNIGHT + 7 * DAY),
            ("$M21D16", MIDNIGHT + 16 * HOUR),
            ("$M1", MIDNIGHT + 10 * DAY),
            ("$ML", MIDNIGHT + 9 * DAY),
            ("$M31D5", MIDNIGHT + 9 * DAY + 5 * HOUR),
        ] {
            let schedule = Schedule::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(schedule.next_after(NOW), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "", "$", "D0", "$D", "$D24", "$H60", "$W7", "$W0D24", "$M0", "$M32", "$MD5", "$D-1",
            "$Q1", "$M1D", "daily",
        ] {
            assert!(Schedule::parse(text).is_err(), "{text}");
        }
    }
}
