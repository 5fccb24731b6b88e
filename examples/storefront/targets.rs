//! The targets: what a run has to show, for its database and its mode.

use crate::figures::{Figures, Measured};
use crate::run::{Mode, Setup};

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

impl Target {
    fn new(quick: bool, met: bool, clearly_missed: bool, what: String) -> Self {
        let mark = match (met, quick && !clearly_missed) {
            (true, _) => Mark::Met,
            (false, true) => Mark::Near,
            (false, false) => Mark::Missed,
        };
        Self { mark, what }
    }
}

pub(crate) fn targets(measured: &Measured, quick: bool) -> Vec<Target> {
    let target = |met, clearly_missed, what| Target::new(quick, met, clearly_missed, what);

    let [before, after] = &measured.shared;
    let slower = after.p99_ms / before.p99_ms;
    let shared_fails = after.failed > 0 || slower >= 10.0;
    let [healthy, degraded] = &measured.watertight;
    let factor = degraded.p99_ms / healthy.p99_ms;
    let share = 100.0 * healthy.partial_per_s / (healthy.ok_per_s + healthy.failed_per_s);
    let failed = healthy.failed + degraded.failed;
    let probes = healthy.health_failed + degraded.health_failed;

    let mut targets = vec![
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
        refusals(measured.setup, degraded, quick),
        target(probes == 0, probes > 0, format!("watertight: no health check fails ({probes})")),
        balance(measured, quick),
    ];
    if measured.setup.mode == Mode::Hung {
        let [shared, watertight] = measured.recovered_after;
        let told = |after: Option<f64>| after.map_or("never".to_owned(), |s| format!("{s:.2} s"));
        targets.push(target(
            watertight.is_some_and(|after| after <= 1.0),
            watertight.is_none(),
            format!(
                "watertight: a page with reviews within 1 s of the database's return ({}; shared \
                 pool: {})",
                told(watertight),
                told(shared)
            ),
        ));
    }
    targets
}

/// How many calls of reviews are refused says who has its threads.
fn refusals(setup: Setup, degraded: &Figures, quick: bool) -> Target {
    let refused = degraded.reviews_refused_per_s;
    let (wanted, clearly, what) = match setup {
        // Each call ends at its limit, so 7.2 of the 15 threads are busy.
        Setup { database, .. } if database.gives_threads_back() => {
            (0.0..=30.0, 0.0..=90.0, "reviews has its threads back: at most 30")
        }
        // 15 calls are held for 3 s, and one in 30 finds a thread.
        Setup { mode: Mode::Slow, .. } => (120.0..=150.0, 60.0..=160.0, "120 to 150"),
        // 15 calls are held, and no other finds a thread.
        Setup { mode: Mode::Hung, .. } => (140.0..=160.0, 70.0..=170.0, "140 to 160"),
    };
    Target::new(
        quick,
        wanted.contains(&refused),
        !clearly.contains(&refused),
        format!("watertight: {what} reviews refused a second when degraded ({refused:.1})"),
    )
}

/// What reviews says of its calls, beside what the dependencies have counted.
fn balance(measured: &Measured, quick: bool) -> Target {
    let books = &measured.ledger;
    let (calls, reached) = (books.reviews, books.database);
    let (balanced, reviews) = if measured.setup.database.gives_threads_back() {
        // A call can reach its limit before it has a connection, and before its statement is sent.
        (
            reached.statements <= reached.taken && reached.taken <= calls.started(),
            format!(
                "of these {} had a connection in time, and {} a statement; ever opened: {} \
                 connections",
                reached.taken, reached.statements, reached.opened
            ),
        )
    } else {
        (
            calls.started() == reached.statements
                && reached.statements == reached.taken
                && reached.opened <= 15,
            format!(
                "{} statements run, connections taken {} times; ever opened: {} of 15 connections",
                reached.statements, reached.taken, reached.opened
            ),
        )
    };
    let balanced = balanced
        && calls.asked == measured.asked
        && books.sockets.iter().all(|sockets| *sockets <= 20);
    let what = format!(
        "watertight: a refused call touches nothing: {} pages, {} calls of reviews = {} refused + \
         {} not started + {} started; {reviews}, {} and {} of 20 sockets",
        measured.asked,
        calls.asked,
        calls.refused,
        calls.unstarted,
        calls.started(),
        books.sockets[0],
        books.sockets[1],
    );
    Target::new(quick, balanced, !balanced, what)
}
