//! The verdict: a function of the measured figures and of nothing else.

use crate::figures::Measured;

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

/// Something that the run has to show.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) mark: Mark,
    /// What was asked for and the figure that was found.
    pub(crate) what: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Met,
    /// Missed by so little that a short run on a busy machine explains it.
    Near,
    Missed,
}

pub(crate) fn targets(measured: &Measured, quick: bool) -> Vec<Target> {
    let target = |met: bool, clearly_missed: bool, what: String| {
        let mark = match (met, quick && !clearly_missed) {
            (true, _) => Mark::Met,
            (false, true) => Mark::Near,
            (false, false) => Mark::Missed,
        };
        Target { mark, what }
    };

    let [before, after] = &measured.shared;
    let slower = after.p99_ms / before.p99_ms;
    let shared_fails = after.failed > 0 || slower >= 10.0;
    let [healthy, degraded] = &measured.watertight;
    let factor = degraded.p99_ms / healthy.p99_ms;
    let share = 100.0 * healthy.partial_per_s / (healthy.ok_per_s + healthy.failed_per_s);
    let refused = degraded.reviews_refused_per_s;
    let failed = healthy.failed + degraded.failed;
    let probes = healthy.health_failed + degraded.health_failed;

    let books = &measured.ledger;
    let calls = books.reviews;
    let balanced = calls.asked == measured.asked
        && calls.started() == books.statements
        && books.statements == books.taken
        && books.opened <= 15
        && books.sockets.iter().all(|sockets| *sockets <= 20);

    vec![
        target(
            shared_fails,
            !shared_fails,
            format!(
                "shared pool, degraded: pages fail ({}) or p99 is at least 10 times healthy \
                 ({slower:.1} times)",
                after.failed
            ),
        ),
        target(failed == 0, failed > 0, format!("watertight: no page fails ({failed})")),
        target(
            factor <= 1.5,
            factor > 4.0,
            format!("watertight: degraded p99 within 1.5 times healthy ({factor:.2})"),
        ),
        target(
            share <= 1.0,
            share > 20.0,
            format!("watertight: at most 1 % partial pages when healthy ({share:.1} %)"),
        ),
        target(
            (120.0..=150.0).contains(&refused),
            !(60.0..=160.0).contains(&refused),
            format!("watertight: 120 to 150 reviews refused a second when degraded ({refused:.1})"),
        ),
        target(probes == 0, probes > 0, format!("watertight: no health check fails ({probes})")),
        target(
            balanced,
            !balanced,
            format!(
                "watertight: a refused call touches nothing: {} pages, {} calls of reviews = {} \
                 refused + {} not started + {} started; {} statements run, connections taken {} \
                 times; ever opened: {} of 15 connections, {} and {} of 20 sockets",
                measured.asked,
                calls.asked,
                calls.refused,
                calls.unstarted,
                calls.started(),
                books.statements,
                books.taken,
                books.opened,
                books.sockets[0],
                books.sockets[1],
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Figures;
    use crate::figures::samples::all_well;

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
        (|m| m.ledger.statements += 1, "+ 2790 started; 2791 statements run"),
        (|m| m.ledger.taken += 1, "connections taken 2791 times"),
        (|m| m.ledger.opened = 16, "ever opened: 16 of 15 connections"),
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
            |m| m.ledger = crate::run::Ledger { opened: 15, sockets: [20; 2], ..m.ledger },
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
        assert_eq!(exit_code(|m| m.ledger.taken += 1, true), 1);
        assert_eq!(exit_code(|m| m.watertight[1].late_p99_ms = 5.0 * LATE_MS + 0.1, true), 2);
    }
}
