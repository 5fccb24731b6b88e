//! What a row has to show, and whether it has.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Target {
    AtMost(f64),
    AtLeast(f64),
}

impl Target {
    pub(crate) const fn limit(self) -> f64 {
        match self {
            Self::AtMost(limit) | Self::AtLeast(limit) => limit,
        }
    }

    /// Whether `value` meets the target. What is not a number meets none.
    fn is_met_by(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(limit) => write!(f, "<= {limit}"),
            Self::AtLeast(limit) => write!(f, ">= {limit}"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Met,
    Missed,
    /// Identical code differed by more than the row's margin: the row shows nothing.
    TooNoisy,
    Skipped,
}

impl Verdict {
    pub(crate) fn of(target: Target, value: f64, spread: f64, margin: f64) -> Self {
        // A spread that is not a number comes of rounds that measured nothing.
        if spread.is_nan() || spread > margin {
            Self::TooNoisy
        } else if target.is_met_by(value) {
            Self::Met
        } else {
            Self::Missed
        }
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::TooNoisy => "too_noisy",
            Self::Skipped => "skipped",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_itself_is_met() {
        for (target, value, wanted) in [
            (Target::AtMost(1.05), 1.05, Verdict::Met),
            (Target::AtMost(1.05), 1.051, Verdict::Missed),
            (Target::AtLeast(20.0), 20.0, Verdict::Met),
            (Target::AtLeast(20.0), 19.9, Verdict::Missed),
        ] {
            assert_eq!(Verdict::of(target, value, 0.0, 0.05), wanted, "{target}, {value}");
        }
    }

    #[test]
    fn a_spread_beyond_the_margin_is_neither_met_nor_missed() {
        for value in [0.5, 1.0, 2.0] {
            let judge = |spread| Verdict::of(Target::AtMost(1.05), value, spread, 0.05);
            assert_ne!(judge(0.05), Verdict::TooNoisy, "{value}");
            assert_eq!(judge(0.051), Verdict::TooNoisy, "{value}");
        }
    }

    #[test]
    fn what_was_not_measured_is_never_met() {
        assert_eq!(Verdict::of(Target::AtMost(1.0), f64::NAN, 0.0, 0.1), Verdict::Missed);
        assert_eq!(Verdict::of(Target::AtMost(1.0), 0.5, f64::NAN, 0.1), Verdict::TooNoisy);
    }
}
