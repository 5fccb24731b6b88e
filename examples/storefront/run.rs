//! One build of the service under load: healthy and degraded windows, in turn.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::bulkheads::Bulkheads;
use crate::database::{Kind, Reached};
use crate::dependencies::Dependencies;
use crate::front::Front;
use crate::latency::Pace;
use crate::load::{Load, Seen};
use crate::page::{Calls, Failure, Part, Storefront};
use crate::shared::SharedPool;

/// What reviews takes when it is degraded.
pub(crate) const SLOW_MILLIS: u64 = 3_000;

/// After a switch, what is under way belongs to neither phase: it is drawn but not counted.
const SETTLE: Duration = Duration::from_secs(1);

/// A healthy page is finished after this long. What a database that hangs catches on its way belongs
/// to neither phase; one that becomes slow catches nothing, see `Latency`.
const FLIGHT: Duration = Duration::from_millis(100);

/// How long the load goes on after the last return of a database that hung: longer than the second
/// in which reviews should be there again.
const RETURN: Duration = Duration::from_millis(1_500);

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

/// What happens to the reviews database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// It takes `SLOW_MILLIS`.
    Slow,
    /// It accepts and does not answer.
    Hung,
}

impl Mode {
    pub(crate) const ALL: [Self; 2] = [Self::Slow, Self::Hung];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::Hung => "hung",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    fn pace(self) -> Pace {
        match self {
            Self::Slow => Pace::Millis(SLOW_MILLIS),
            Self::Hung => Pace::Never,
        }
    }

    /// What reviews does in it.
    fn does(self) -> &'static str {
        match self {
            Self::Slow => "takes 3 s",
            Self::Hung => "does not answer",
        }
    }
}

/// What is compared under: one database, in one kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setup {
    pub(crate) database: Kind,
    pub(crate) mode: Mode,
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
    pub(crate) setup: Setup,
    pub(crate) seen: Seen,
    pub(crate) windows: Vec<Window>,
    /// When reviews was slow, or hung.
    pub(crate) slow: Vec<(Duration, Duration)>,
    /// From each slowdown to the moment that every thread was taken, where that happened.
    pub(crate) full_after: Vec<Duration>,
    pub(crate) ledger: Ledger,
}

/// What reached the dependencies, counted by them, beside what the service says of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ledger {
    pub(crate) reviews: Calls,
    pub(crate) database: Reached,
    /// Sockets that were ever opened to pricing and recommendations.
    pub(crate) sockets: [u64; 2],
}

fn start(build: Build, dependencies: &Dependencies) -> Result<Arc<dyn Storefront>, Failure> {
    Ok(match build {
        Build::Shared => Arc::new(SharedPool::start(dependencies)?),
        Build::Watertight => Arc::new(Bulkheads::start(dependencies)?),
    })
}

pub(crate) fn record(build: Build, setup: Setup, schedule: Schedule) -> Result<Record, Failure> {
    let dependencies = Arc::new(Dependencies::start(setup.database)?);
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
        if setup.mode == Mode::Hung {
            thread::sleep(FLIGHT);
        }

        let switched = epoch.elapsed();
        dependencies.set(Part::Reviews, setup.mode.pace())?;
        eprintln!("{switched:>6.1?}  {build}: reviews now {}", setup.mode.does());
        let mut full = watch(&*storefront, epoch, switched + SETTLE);
        let open = window(Phase::Degraded, round);
        let until = epoch.elapsed() + schedule.window;
        full = full.or(watch(&*storefront, epoch, until));
        thread::sleep(until.saturating_sub(epoch.elapsed()));
        windows.push(close(open));
        full_after.extend(full.map(|full| full.saturating_sub(switched)));

        slow.push((switched, epoch.elapsed()));
        dependencies.set(Part::Reviews, Pace::Millis(Part::Reviews.healthy_millis()))?;
        // Read after the switch: a call that begins from now on is not a slow one.
        let recovered = Instant::now();
        if round < schedule.rounds {
            eprintln!("{:>6.1?}  {build}: reviews recovers", epoch.elapsed());
            thread::sleep(SETTLE);
            let what = if drain(&*storefront, recovered) {
                "the last slow call has ended"
            } else {
                "slow calls are still held; going on"
            };
            eprintln!("{:>6.1?}  {build}: {what}", epoch.elapsed());
        } else if setup.mode == Mode::Hung {
            thread::sleep(RETURN);
        }
    }
    let seen = load.stop()?;

    // Calls that are still held end within one slow latency; only then do the counts add up.
    let rested = Instant::now() + DRAIN_LIMIT;
    while storefront.busy() > 0 && Instant::now() < rested {
        thread::sleep(Duration::from_millis(10));
    }
    let ledger = Ledger {
        reviews: storefront.calls(Part::Reviews),
        database: dependencies.reviews.reached()?,
        sockets: [dependencies.pricing.sockets(), dependencies.recommendations.sockets()],
    };
    drop(front);
    Ok(Record { build, setup, seen, windows, slow, full_after, ledger })
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

    /// The databases that can be had here.
    fn databases() -> impl Iterator<Item = (Kind, Arc<Dependencies>)> {
        Kind::ALL.into_iter().filter_map(|kind| match Dependencies::start(kind) {
            Ok(dependencies) => Some((kind, Arc::new(dependencies))),
            // Without the feature, or without a server's programs.
            Err(error) if kind == Kind::Postgres => {
                eprintln!("**** {error}; it is left out");
                assert!(std::env::var_os("CI").is_none() || cfg!(not(feature = "postgres")));
                None
            }
            Err(error) => panic!("{error}"),
        })
    }

    fn visit(storefront: &Arc<dyn Storefront>) -> thread::JoinHandle<bool> {
        let storefront = Arc::clone(storefront);
        thread::spawn(move || {
            storefront.page(1, Instant::now()).is_ok_and(|page| page.missing().next().is_none())
        })
    }

    #[test]
    fn each_build_holds_a_slow_call_until_it_ends() {
        for (kind, dependencies) in databases() {
            for build in [Build::Shared, Build::Watertight] {
                if build == Build::Watertight && kind.gives_threads_back() {
                    continue;
                }
                let storefront = start(build, &dependencies).expect("the build starts");
                let reached = || Part::ALL.map(|part| dependencies.reached(part));
                let before_it = reached();
                dependencies.set(Part::Reviews, Pace::Millis(1_000)).expect("it becomes slow");
                let before = Instant::now();
                let visitor = visit(&storefront);
                while reached().iter().zip(before_it).any(|(now, then)| *now == then) {
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

    #[test]
    fn each_build_serves_whole_pages_again_after_its_database_hung() {
        for (kind, dependencies) in databases() {
            for build in [Build::Shared, Build::Watertight] {
                let storefront = start(build, &dependencies).expect("the build starts");
                until_whole(&storefront, build, kind);
                dependencies.set(Part::Reviews, Mode::Hung.pace()).expect("it hangs");
                let visitors: Vec<_> = (0..3).map(|_| visit(&storefront)).collect();
                for visitor in visitors {
                    assert!(!visitor.join().expect("no panic"), "{build}, {kind:?}: no reviews");
                }
                let healthy = Pace::Millis(Part::Reviews.healthy_millis());
                dependencies.set(Part::Reviews, healthy).expect("it returns");
                let is_free = drain(&*storefront, Instant::now());
                if !is_free {
                    // Dropping it would wait for its threads.
                    std::mem::forget(storefront);
                    panic!("{build}, {kind:?}: what it held was not answered");
                }
                until_whole(&storefront, build, kind);
            }
        }
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn a_call_to_postgresql_gives_its_thread_back_at_its_limit() {
        for (kind, dependencies) in databases().filter(|(kind, _)| kind.gives_threads_back()) {
            let storefront = start(Build::Watertight, &dependencies).expect("the build starts");
            until_whole(&storefront, Build::Watertight, kind);
            for pace in [Pace::Millis(600_000), Pace::Never] {
                dependencies.set(Part::Reviews, pace).expect("it changes");
                assert!(!visit(&storefront).join().expect("no panic"), "no reviews: {pace:?}");
                assert!(drain(&*storefront, Instant::now()), "the thread is held: {pace:?}");
                dependencies.set(Part::Reviews, Pace::Millis(30)).expect("it returns");
                until_whole(&storefront, Build::Watertight, kind);
            }
        }
    }

    /// A page can lack a part on a busy machine, or while connections are opened.
    fn until_whole(storefront: &Arc<dyn Storefront>, build: Build, kind: Kind) {
        let limit = Instant::now() + Duration::from_secs(30);
        while !visit(storefront).join().expect("no panic") {
            assert!(Instant::now() < limit, "{build}, {kind:?}: no whole page in 30 s");
        }
    }
}
