//! [`Age`]: a duration as a person says it.

use std::fmt;
use std::time::Duration;

/// Writes `35ms`, `1.2s`, `3m 12s` or `5h 03m`: enough of it to decide by, and no more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Age(pub(crate) Duration);

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, milliseconds) = (self.0.as_secs(), self.0.as_millis());
        if milliseconds == 0 {
            write!(f, "{}us", self.0.as_micros())
        } else if seconds == 0 {
            write!(f, "{milliseconds}ms")
        } else if seconds < 60 {
            write!(f, "{seconds}.{}s", self.0.subsec_millis() / 100)
        } else if seconds < 3_600 {
            write!(f, "{}m {:02}s", seconds / 60, seconds % 60)
        } else {
            write!(f, "{}h {:02}m", seconds / 3_600, seconds / 60 % 60)
        }
    }
}

#[cfg(all(test, not(any(watertight_loom, watertight_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_said_in_the_unit_that_it_is_felt_in() {
        for (age, said) in [
            (Duration::ZERO, "0us"),
            (Duration::from_micros(250), "250us"),
            (Duration::from_millis(35), "35ms"),
            (Duration::from_millis(1_250), "1.2s"),
            (Duration::from_millis(59_999), "59.9s"),
            (Duration::from_secs(192), "3m 12s"),
            (Duration::from_secs(3_599), "59m 59s"),
            (Duration::from_secs(18_180), "5h 03m"),
        ] {
            assert_eq!(Age(age).to_string(), said);
        }
    }
}
