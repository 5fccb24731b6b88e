//! The verdict: a function of the measured figures and of nothing else.

use crate::figures::Measured;

/// Sent later than this, one request in a hundred, the figures say more about the machine that the
/// generator runs on than about the service.
const LATE_MS: f64 = 10.0;

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
