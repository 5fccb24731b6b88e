//! The verdict: a function of the measured figures and of nothing else.

use crate::figures::Measured;
use crate::targets::{Mark, Target};

/// Sent later than this, one request in a hundred, the figures say more about the machine that the
/// generator runs on than about the service: an optional part has 8 ms to spare.
const LATE_MS: f64 = 5.0;

/// What the run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Met,
    Missed,
    TooNoisy,
}

impl Verdict {
    /// Lateness is looked at first: a run that it spoilt shows nothing, whatever its figures are.
    pub(crate) fn of(measured: &Measured, targets: &[Target], quick: bool) -> Self {
        let limit = if quick { 5.0 * LATE_MS } else { LATE_MS };
        if measured.late_p99_ms() > limit {
            Self::TooNoisy
        } else if targets.iter().any(|target| target.mark == Mark::Missed) {
            Self::Missed
        } else {
            Self::Met
        }
    }

    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Met => 0,
            Self::Missed => 1,
            Self::TooNoisy => 2,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::TooNoisy => "too_noisy",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::{Kind, Reached};
    use crate::figures::Figures;
    use crate::figures::samples::all_well;
    use crate::page::Calls;
    use crate::run::{Mode, Setup};
    use crate::targets::targets;

    type Spoil = fn(&mut Measured);

    const UNTOUCHED: &str = "watertight: a refused call touches nothing: 4500 pages, ";

    /// Each target missed alone, by a little where it has a measure, and what is said about it.
    const MISSES: [(Spoil, &str); 14] = [
        (
            |m| {
                m.shared[1] = Figures { failed: 0, p99_ms: 416.0, ..m.shared[1] };
            },
            "shared pool, degraded: pages fail (0) or p99 is at least 10 times healthy (9.9 times)",
        ),
        (|m| m.watertight[0].failed = 1, "watertight: no page fails (1)"),
        (|m| m.watertight[1].failed = 2, "watertight: no page fails (2)"),
        (
            |m| m.watertight[1].p99_ms = 63.5,
            "watertight: degraded p99 within 1.5 times healthy (1.51)",
        ),
        (
            |m| m.watertight[0].partial_per_s = 1.8,
            "watertight: at most 1 % partial pages when healthy (1.2 %)",
        ),
        (
            |m| m.watertight[1].reviews_refused_per_s = 119.75,
            "watertight: 120 to 150 reviews refused a second when degraded (119.8)",
        ),
        (
            |m| m.watertight[1].reviews_refused_per_s = 150.25,
            "watertight: 120 to 150 reviews refused a second when degraded (150.2)",
        ),
        (|m| m.watertight[0].health_failed = 1, "watertight: no health check fails (1)"),
        (|m| m.watertight[1].health_failed = 3, "watertight: no health check fails (3)"),
        // A call that nobody accounts for, a refused one that ran, one that took a connection, and a
        // connection and a socket too many.
        (|m| m.ledger.reviews.asked += 1, "4501 calls of reviews = 1700 refused + 10 not started"),
        (|m| m.ledger.database.statements += 1, "+ 2790 started; 2791 statements run"),
        (|m| m.ledger.database.taken += 1, "connections taken 2791 times"),
        (|m| m.ledger.database.opened = 16, "ever opened: 16 of 15 connections"),
        (|m| m.ledger.sockets[1] = 21, "12 and 21 of 20 sockets"),
    ];

    fn judge(measured: &Measured, quick: bool) -> (u8, Vec<Target>) {
        let targets = targets(measured, quick);
        (Verdict::of(measured, &targets, quick).exit_code(), targets)
    }

    fn exit_code(spoil: Spoil, quick: bool) -> u8 {
        let mut measured = all_well();
        spoil(&mut measured);
        judge(&measured, quick).0
    }

    #[test]
    fn when_all_is_well_the_exit_code_is_0() {
        let (code, targets) = judge(&all_well(), false);
        assert_eq!(code, 0);
        assert_eq!(targets.len(), 7);
        assert!(targets.iter().all(|target| target.mark == Mark::Met), "{targets:#?}");
    }

    #[test]
    fn each_target_missed_alone_makes_it_1_and_is_named_with_its_figure() {
        let mut ever_missed = [false; 7];
        for (spoil, said) in MISSES {
            let mut measured = all_well();
            spoil(&mut measured);
            let (code, targets) = judge(&measured, false);
            assert_eq!(code, 1, "{said}");
            let missed: Vec<_> = (0..7).filter(|at| targets[*at].mark == Mark::Missed).collect();
            let [at] = missed[..] else { panic!("{said}: missed {missed:?}") };
            ever_missed[at] = true;
            let what = &targets[at].what;
            assert!(what == said || (what.starts_with(UNTOUCHED) && what.contains(said)), "{what}");
        }
        assert_eq!(ever_missed, [true; 7]);
    }

    /// What a good run measures in one of the other three setups.
    fn well_in(database: Kind, mode: Mode) -> Measured {
        let mut measured = all_well();
        measured.setup = Setup { database, mode };
        let ledger = &mut measured.ledger;
        if database.gives_threads_back() {
            measured.watertight[1].reviews_refused_per_s = 0.0;
            ledger.reviews = Calls { asked: 4500, refused: 2, unstarted: 1 };
            ledger.database = Reached { statements: 4300, taken: 4400, opened: 40 };
        } else {
            measured.watertight[1].reviews_refused_per_s = 150.25;
        }
        if mode == Mode::Hung {
            measured.recovered_after = [Some(0.05), Some(0.25)];
        }
        measured
    }

    #[test]
    fn in_the_other_setups_when_all_is_well_the_exit_code_is_0() {
        for (database, mode, count) in [
            (Kind::Sqlite, Mode::Hung, 8),
            (Kind::Postgres, Mode::Slow, 7),
            (Kind::Postgres, Mode::Hung, 8),
        ] {
            let (code, targets) = judge(&well_in(database, mode), false);
            assert_eq!(code, 0, "{targets:#?}");
            assert_eq!(targets.len(), count, "{database:?}, {mode:?}");
        }
    }

    #[test]
    fn what_the_other_setups_ask_for_missed_alone_makes_it_1_and_is_named() {
        let hung = (Kind::Sqlite, Mode::Hung);
        let slow_server = (Kind::Postgres, Mode::Slow);
        let hung_server = (Kind::Postgres, Mode::Hung);
        let spoilt: [((Kind, Mode), Spoil, &str); 11] = [
            (hung, |m| m.watertight[1].reviews_refused_per_s = 139.75, "140 to 160 reviews"),
            (hung, |m| m.watertight[1].reviews_refused_per_s = 160.25, "140 to 160 reviews"),
            (hung, |m| m.ledger.database.taken += 1, "connections taken 2791 times"),
            (hung, |m| m.recovered_after[1] = Some(1.01), "return (1.01 s; shared pool: 0.05 s)"),
            (slow_server, |m| m.watertight[1].reviews_refused_per_s = 30.25, "at most 30 reviews"),
            (slow_server, |m| m.ledger.database.statements = 4401, "connection in time, and 4401"),
            (slow_server, |m| m.ledger.database.taken = 4498, "of these 4498 had a connection"),
            (slow_server, |m| m.ledger.reviews.asked += 1, "4501 calls of reviews = 2 refused"),
            (slow_server, |m| m.ledger.sockets[0] = 21, "21 and 15 of 20 sockets"),
            (hung_server, |m| m.watertight[1].reviews_refused_per_s = 31.0, "at most 30 reviews"),
            (hung_server, |m| m.recovered_after[1] = None, "return (never; shared pool: 0.05 s)"),
        ];
        for ((database, mode), spoil, said) in spoilt {
            let mut measured = well_in(database, mode);
            spoil(&mut measured);
            let (code, targets) = judge(&measured, false);
            assert_eq!(code, 1, "{said}");
            let missed: Vec<_> = targets.iter().filter(|t| t.mark == Mark::Missed).collect();
            let [missed] = missed[..] else { panic!("{said}: {missed:#?}") };
            assert!(missed.what.contains(said), "{said}: {}", missed.what);
        }
    }

    #[test]
    fn the_limits_of_the_other_setups_still_count_as_met() {
        let at_the_limit: [(Kind, Mode, Spoil); 5] = [
            (Kind::Sqlite, Mode::Hung, |m| m.watertight[1].reviews_refused_per_s = 140.0),
            (Kind::Sqlite, Mode::Hung, |m| m.watertight[1].reviews_refused_per_s = 160.0),
            (Kind::Postgres, Mode::Slow, |m| m.watertight[1].reviews_refused_per_s = 30.0),
            (Kind::Postgres, Mode::Hung, |m| m.recovered_after = [None, Some(1.0)]),
            (Kind::Postgres, Mode::Slow, |m| {
                m.ledger.database = Reached { statements: 4497, taken: 4497, opened: 900 };
            }),
        ];
        for (number, (database, mode, spoil)) in at_the_limit.into_iter().enumerate() {
            let mut measured = well_in(database, mode);
            spoil(&mut measured);
            assert_eq!(judge(&measured, false).0, 0, "number {number}");
        }
    }

    #[test]
    fn a_quick_run_forgives_a_late_return_and_not_a_missing_one() {
        let mut measured = well_in(Kind::Postgres, Mode::Hung);
        measured.recovered_after[1] = Some(1.4);
        let (code, targets) = judge(&measured, true);
        assert_eq!((code, targets[7].mark), (0, Mark::Near));
        measured.recovered_after[1] = None;
        assert_eq!(judge(&measured, true).0, 1);
    }

    #[test]
    fn a_limit_itself_still_counts_as_met() {
        let at_the_limit: [Spoil; 8] = [
            // Of the shared pool either one is enough: pages that fail, or pages that are slow.
            |m| m.shared[1] = Figures { failed: 0, p99_ms: 420.0, ..m.shared[1] },
            |m| m.shared[1] = Figures { failed: 1, p99_ms: 42.0, ..m.shared[1] },
            |m| m.watertight[1].p99_ms = 63.0,
            |m| m.watertight[0].partial_per_s = 1.5,
            |m| m.watertight[1].reviews_refused_per_s = 120.0,
            |m| m.watertight[1].reviews_refused_per_s = 150.0,
            |m| (m.ledger.database.opened, m.ledger.sockets) = (15, [20; 2]),
            |m| m.shared[0].late_p99_ms = LATE_MS,
        ];
        for (number, spoil) in at_the_limit.into_iter().enumerate() {
            assert_eq!(exit_code(spoil, false), 0, "number {number}");
        }
    }

    #[test]
    fn lateness_in_any_of_the_four_makes_it_2() {
        let late: [Spoil; 4] = [
            |m| m.shared[0].late_p99_ms = LATE_MS + 0.1,
            |m| m.shared[1].late_p99_ms = LATE_MS + 0.1,
            |m| m.watertight[0].late_p99_ms = LATE_MS + 0.1,
            |m| m.watertight[1].late_p99_ms = LATE_MS + 0.1,
        ];
        assert_eq!(late.map(|spoil| exit_code(spoil, false)), [2; 4]);
    }

    #[test]
    fn a_late_run_blames_no_target_on_the_service() {
        for (spoil, said) in MISSES {
            let mut measured = all_well();
            spoil(&mut measured);
            measured.watertight[1].late_p99_ms = 300.0;
            assert_eq!(judge(&measured, false).0, 2, "{said}");
        }
    }

    #[test]
    fn a_run_that_measured_nothing_has_shown_nothing() {
        let nothing = Figures::default();
        let nothing = Measured { shared: [nothing; 2], watertight: [nothing; 2], ..all_well() };
        assert_eq!(judge(&nothing, false).0, 1);
        assert_eq!(judge(&nothing, true).0, 1);
    }

    #[test]
    fn a_quick_run_forgives_what_a_busy_machine_explains() {
        let (code, targets) = judge(
            &{
                let mut measured = all_well();
                measured.watertight[1].p99_ms = 100.0;
                measured.watertight[1].late_p99_ms = 5.0 * LATE_MS;
                measured
            },
            true,
        );
        assert_eq!(code, 0);
        assert_eq!(targets[2].mark, Mark::Near);

        assert_eq!(exit_code(|m| m.watertight[1].p99_ms = 200.0, true), 1);
        assert_eq!(exit_code(|m| m.watertight[1].failed = 1, true), 1);
        assert_eq!(exit_code(|m| m.ledger.database.taken += 1, true), 1);
        assert_eq!(exit_code(|m| m.watertight[1].late_p99_ms = 5.0 * LATE_MS + 0.1, true), 2);
    }
}
