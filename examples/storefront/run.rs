//! One build of the service under load: healthy and degraded windows, in turn.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::bulkheads::Bulkheads;
use crate::dependencies::Dependencies;
use crate::front::Front;
use crate::load::{Load, Seen};
use crate::page::{Calls, Failure, Part, Storefront};
use crate::shared::SharedPool;

/// What reviews takes when it is degraded.
pub(crate) const SLOW_MILLIS: u64 = 3_000;

/// After a switch, what is under way belongs to neither phase: it is drawn but not counted.
const SETTLE: Duration = Duration::from_secs(1);

/// The longest wait for held slots to drain. It should take one slow call; a build that needs twice
/// as long has not recovered, and its next window may show that.
const DRAIN_LIMIT: Duration = Duration::from_millis(2 * SLOW_MILLIS);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    Shared,
    Watertight,
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shared => "shared pool",
            Self::Watertight => "watertight",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Healthy,
    Degraded,
}

/// How many windows, and how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    pub(crate) rounds: u32,
    pub(crate) window: Duration,
}

/// A stretch of time that is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) phase: Phase,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    /// Review calls refused in it.
    pub(crate) refused: u64,
}

/// All that was recorded of one build.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) build: Build,
    pub(crate) seen: Seen,
    pub(crate) windows: Vec<Window>,
    /// When reviews was slow.
    pub(crate) slow: Vec<(Duration, Duration)>,
    /// From each slowdown to the moment that every thread was taken, where that happened.
    pub(crate) full_after: Vec<Duration>,
    pub(crate) ledger: Ledger,
}

/// What reached the dependencies, counted by them, beside what the service says of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ledger {
    pub(crate) reviews: Calls,
    /// Statements that the database has run.
    pub(crate) statements: u64,
    /// Times that a connection was taken from the pool.
    pub(crate) taken: u64,
    /// Connections to the database that were ever opened.
    pub(crate) opened: u64,
    /// Sockets that were ever opened to pricing and recommendations.
    pub(crate) sockets: [u64; 2],
}

pub(crate) fn start(
    build: Build,
    dependencies: &Dependencies,
) -> Result<Arc<dyn Storefront>, Failure> {
    Ok(match build {
        Build::Shared => Arc::new(SharedPool::start(dependencies)?),
        Build::Watertight => Arc::new(Bulkheads::start(dependencies)?),
    })
}

pub(crate) fn record(build: Build, schedule: Schedule) -> Result<Record, Failure> {
    let dependencies = Arc::new(Dependencies::start()?);
    let storefront = start(build, &dependencies)?;
    let front = Front::open(0, &storefront, &dependencies)?;
    let epoch = Instant::now();
    let load = Load::start(front.address(), epoch)?;

    let mut windows = Vec::new();
    let mut slow = Vec::new();
    let mut full_after = Vec::new();
    let window = |phase, round| {
        eprintln!(
            "{:>6.1?}  {build}: {phase:?} window {round} of {}",
            epoch.elapsed(),
            schedule.rounds
        );
        let (from, before) = (epoch.elapsed(), storefront.calls(Part::Reviews).refused);
        (phase, from, before)
    };
    let close = |(phase, from, before)| {
        let refused = storefront.calls(Part::Reviews).refused - before;
        Window { phase, from, to: epoch.elapsed(), refused }
    };

    thread::sleep(SETTLE);
    for round in 1..=schedule.rounds {
        let open = window(Phase::Healthy, round);
        thread::sleep(schedule.window);
        windows.push(close(open));

        let switched = epoch.elapsed();
        dependencies.slow(Part::Reviews, SLOW_MILLIS);
        eprintln!("{switched:>6.1?}  {build}: reviews now takes {SLOW_MILLIS} ms");
        let mut full = watch(&*storefront, epoch, switched + SETTLE);
        let open = window(Phase::Degraded, round);
        let until = epoch.elapsed() + schedule.window;
        full = full.or(watch(&*storefront, epoch, until));
        thread::sleep(until.saturating_sub(epoch.elapsed()));
        windows.push(close(open));
        full_after.extend(full.map(|full| full.saturating_sub(switched)));

        dependencies.slow(Part::Reviews, Part::Reviews.healthy_millis());
        // Read after the switch: a call that begins from now on is not a slow one.
        let recovered = Instant::now();
        slow.push((switched, epoch.elapsed()));
        if round < schedule.rounds {
            eprintln!("{:>6.1?}  {build}: reviews recovers", epoch.elapsed());
            thread::sleep(SETTLE);
            let what = if drain(&*storefront, recovered) {
                "the last slow call has ended"
            } else {
                "slow calls are still held; going on"
            };
            eprintln!("{:>6.1?}  {build}: {what}", epoch.elapsed());
        }
    }
    let seen = load.stop()?;

    // Calls that are still held end within one slow latency; only then do the counts add up.
    let rested = Instant::now() + DRAIN_LIMIT;
    while storefront.busy() > 0 && Instant::now() < rested {
        thread::sleep(Duration::from_millis(10));
    }
    let usage = dependencies.reviews.usage();
    let ledger = Ledger {
        reviews: storefront.calls(Part::Reviews),
        statements: dependencies.reached(Part::Reviews),
        taken: usage.taken(),
        opened: usage.opened(),
        sockets: [dependencies.pricing.sockets(), dependencies.recommendations.sockets()],
    };
    drop(front);
    Ok(Record { build, seen, windows, slow, full_after, ledger })
}

/// Looks on until no call from before the recovery is held, or says `false` at the limit.
fn drain(storefront: &dyn Storefront, recovered: Instant) -> bool {
    while storefront.holds_from_before(recovered) {
        if recovered.elapsed() >= DRAIN_LIMIT {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Looks on until every thread is taken, which is the answer, or the time is over.
fn watch(storefront: &dyn Storefront, epoch: Instant, until: Duration) -> Option<Duration> {
    while epoch.elapsed() < until {
        if storefront.busy() >= storefront.threads() {
            return Some(epoch.elapsed());
        }
        thread::sleep(Duration::from_millis(5));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_build_holds_a_slow_call_until_it_ends() {
        for build in [Build::Shared, Build::Watertight] {
            let dependencies = Dependencies::start().expect("the dependencies start");
            let storefront = start(build, &dependencies).expect("the build starts");
            dependencies.slow(Part::Reviews, 1_000);
            let before = Instant::now();
            let visitor = thread::spawn({
                let storefront = Arc::clone(&storefront);
                move || storefront.page(1, Instant::now()).expect("a page, whole or not")
            });
            while Part::ALL.iter().any(|part| dependencies.reached(*part) == 0) {
                thread::yield_now();
            }
            let recovered = Instant::now();
            assert!(storefront.holds_from_before(recovered), "{build} holds the slow call");
            assert!(!storefront.holds_from_before(before), "{build}: it began after that");

            assert!(drain(&*storefront, recovered), "{build} drains");
            assert_eq!(storefront.busy(), 0, "{build} has drained");
            visitor.join().expect("the visitor got its page");
        }
    }
}
