//! [`Throttling`]: how often the system has stopped the whole process for its CPU quota.

use std::time::Duration;

use crate::runtime::cgroup_file;

/// What the process's control group has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Throttling {
    /// Periods in which the group ran at all.
    pub(super) periods: u64,
    /// Those of them in which it was stopped.
    pub(super) throttled_periods: u64,
    /// How long its threads were stopped.
    pub(super) throttled: Duration,
}

impl Throttling {
    /// `None` where there is no such group: off Linux, or for processes outside of any.
    pub(super) fn read() -> Option<Self> {
        parse(&cgroup_file("cpu", "cpu.stat")?)
    }
}

/// Version 2 counts microseconds, version 1 nanoseconds, under another name. The root group of version 2
/// has no quota and says nothing of it.
fn parse(stat: &str) -> Option<Throttling> {
    let value = |name: &str| {
        stat.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
    };
    let throttled = value("throttled_usec").map(Duration::from_micros);
    Some(Throttling {
        periods: value("nr_periods")?,
        throttled_periods: value("nr_throttled")?,
        throttled: throttled.or_else(|| value("throttled_time").map(Duration::from_nanos))?,
    })
}

#[cfg(all(test, not(any(watertight_loom, watertight_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_control_groups_are_read_in_their_own_units() {
        let expected = Throttling {
            periods: 100,
            throttled_periods: 7,
            throttled: Duration::from_millis(1_500),
        };
        let v2 = "usage_usec 900\nuser_usec 1\nsystem_usec 2\nnr_periods 100\nnr_throttled 7\n\
                  throttled_usec 1500000\nnr_bursts 0\nburst_usec 0\n";
        let v1 = "nr_periods 100\nnr_throttled 7\nthrottled_time 1500000000\nnr_bursts 0\n";
        assert_eq!(parse(v2), Some(expected));
        assert_eq!(parse(v1), Some(expected));
        assert_eq!(parse("usage_usec 900\nuser_usec 1\n"), None);
    }
}
