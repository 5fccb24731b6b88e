//! Connection pools: a bulkhead's connections are its own, clean, and never hang a worker.

use std::fmt;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use watertight::r2d2::{ConnectionErrorKind, ManageConnection, Pool, PoolBuilder};
use watertight::{
    Bulkhead, BulkheadBuilder, CallError, Clock, Deadline, Flatten, ManualClock, Rejection, Runtime,
};

use crate::support::{Gate, WATCHDOG, eventually, within};

const LONG: Duration = Duration::from_secs(20);

/// What the fake server refuses with.
#[derive(Debug, PartialEq)]
struct Refused(usize);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt {} was refused", self.0)
    }
}

impl std::error::Error for Refused {}

/// Does what a test wants when connection number `n` is opened, tested, returned or closed.
type Script = Arc<dyn Fn(usize) -> Result<(), Refused> + Send + Sync>;

/// A server and its manager in one.
#[derive(Clone)]
struct Server(Arc<State>);

struct State {
    /// Attempts, the failed ones too.
    connects: AtomicUsize,
    /// Connections that have been opened and not closed.
    open: AtomicUsize,
    tests: AtomicUsize,
    on_connect: Mutex<Script>,
    on_test: Mutex<Script>,
    on_return: Mutex<Script>,
    on_close: Mutex<Script>,
}

struct Connection {
    /// From 1.
    id: usize,
    in_transaction: bool,
    server: Server,
}

impl Server {
    fn new() -> Self {
        fn fine() -> Mutex<Script> {
            Mutex::new(Arc::new(|_| Ok(())))
        }
        Self(Arc::new(State {
            connects: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            tests: AtomicUsize::new(0),
            on_connect: fine(),
            on_test: fine(),
            on_return: fine(),
            on_close: fine(),
        }))
    }

    fn on_connect(&self, script: impl Fn(usize) -> Result<(), Refused> + Send + Sync + 'static) {
        *self.0.on_connect.lock().unwrap() = Arc::new(script);
    }

    fn on_test(&self, script: impl Fn(usize) -> Result<(), Refused> + Send + Sync + 'static) {
        *self.0.on_test.lock().unwrap() = Arc::new(script);
    }

    fn on_return(&self, script: impl Fn(usize) -> Result<(), Refused> + Send + Sync + 'static) {
        *self.0.on_return.lock().unwrap() = Arc::new(script);
    }

    fn on_close(&self, script: impl Fn(usize) -> Result<(), Refused> + Send + Sync + 'static) {
        *self.0.on_close.lock().unwrap() = Arc::new(script);
    }

    fn connects(&self) -> usize {
        self.0.connects.load(Ordering::SeqCst)
    }

    fn open(&self) -> usize {
        self.0.open.load(Ordering::SeqCst)
    }

    fn tests(&self) -> usize {
        self.0.tests.load(Ordering::SeqCst)
    }

    fn play(script: &Mutex<Script>, id: usize) -> Result<(), Refused> {
        let script = Arc::clone(&script.lock().unwrap());
        script(id)
    }
}

impl ManageConnection for Server {
    type Connection = Connection;
    type Error = Refused;

    fn connect(&self) -> Result<Connection, Refused> {
        let id = self.0.connects.fetch_add(1, Ordering::SeqCst) + 1;
        Self::play(&self.0.on_connect, id)?;
        self.0.open.fetch_add(1, Ordering::SeqCst);
        Ok(Connection { id, in_transaction: false, server: self.clone() })
    }

    fn is_valid(&self, connection: &mut Connection) -> Result<(), Refused> {
        self.0.tests.fetch_add(1, Ordering::SeqCst);
        Self::play(&self.0.on_test, connection.id)
    }

    fn has_broken(&self, connection: &mut Connection) -> bool {
        Self::play(&self.0.on_return, connection.id).is_err()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let state = &self.server.0;
        state.open.fetch_sub(1, Ordering::SeqCst);
        let _ = Server::play(&state.on_close, self.id);
    }
}

fn build_with(
    bulkhead: BulkheadBuilder,
    configure: impl FnOnce(PoolBuilder<Server>) -> PoolBuilder<Server>,
) -> (Runtime, Pool<Server>, Server) {
    let server = Server::new();
    let runtime = Runtime::builder().bulkhead(bulkhead).build().unwrap();
    let handle = runtime.bulkheads().next().unwrap().clone();
    let pool = configure(Pool::builder(server.clone())).build(&handle).unwrap();
    (runtime, pool, server)
}

/// A pool whose jobs have all the time they need.
fn build(name: &str, threads: usize) -> (Runtime, Pool<Server>, Server) {
    let bulkhead = Bulkhead::builder(name).threads(threads).call_limit(LONG);
    build_with(bulkhead, |pool| pool.connect_limit(LONG))
}

/// Which connection a job gets.
fn id(pool: &Pool<Server>) -> usize {
    pool.call(|connection, _| connection.id).unwrap()
}

/// Exactly as many jobs as there are threads hold a connection together.
fn all_have_connections(pool: &Pool<Server>, threads: usize) {
    let gate = Gate::new();
    let jobs: Vec<_> = (0..threads)
        .map(|_| {
            let gate = gate.clone();
            pool.submit(move |_, _| gate.pass()).unwrap()
        })
        .collect();
    gate.wait_for(threads);
    gate.open();
    for job in jobs {
        job.join().flat().unwrap();
    }
}

fn kind(error: &CallError<watertight::r2d2::ConnectionError>) -> ConnectionErrorKind {
    match error {
        CallError::Failed(error) => error.kind(),
        other => panic!("not a connection error: {other:?}"),
    }
}

/// The names of this process's threads that start so.
#[cfg(target_os = "linux")]
fn threads_named(start: &str) -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    // One that has just gone has no name any more.
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.map(|name| name.trim_end().to_owned()).filter(|name| name.starts_with(start)).collect()
}

// ---- One for each thread -------------------------------------------------------------------------

#[test]
fn a_pool_has_a_connection_for_each_thread_and_opens_none_before_it_is_asked() {
    let (_runtime, pool, server) = build("each", 3);
    assert_eq!(server.connects(), 0);
    all_have_connections(&pool, 3);
    assert_eq!(server.connects(), 3);
    all_have_connections(&pool, 3);
    assert_eq!(server.connects(), 3, "they are used again");
    let status = pool.status();
    assert_eq!((status.connections, status.idle, status.opened), (3, 3, 3));
}

#[test]
fn fewer_connections_than_threads_are_refused_with_the_bulkhead_the_setting_and_the_value() {
    let runtime = Runtime::builder().bulkhead(Bulkhead::builder("db").threads(4)).build().unwrap();
    let db = runtime.bulkhead("db").unwrap();
    let error = Pool::builder(Server::new()).connections(2).build(&db).unwrap_err();
    assert_eq!((error.bulkhead(), error.setting()), (Some("db"), "connections"));
    let text = error.to_string();
    assert!(text.starts_with("bulkhead \"db\": `connections` is 2, fewer than its 4 threads"));
    for (setting, builder) in [
        ("connect_limit", Pool::builder(Server::new()).connect_limit(Duration::ZERO)),
        ("max_lifetime", Pool::builder(Server::new()).max_lifetime(Duration::ZERO)),
        ("idle_limit", Pool::builder(Server::new()).idle_limit(Duration::ZERO)),
        ("connections", Pool::builder(Server::new()).connections(usize::MAX)),
    ] {
        assert_eq!(builder.build(&db).unwrap_err().setting(), setting);
    }
}

#[test]
fn a_refused_job_is_handed_back_as_the_caller_brought_it() {
    let bulkhead = Bulkhead::builder("full").threads(1).queue(0);
    let (_runtime, pool, server) = build_with(bulkhead, |pool| pool.connect_limit(LONG));
    let gate = Gate::new();
    let inner = gate.clone();
    let held = pool.submit(move |_, _| inner.pass()).unwrap();
    gate.wait_for(1);
    let refused = pool.submit(|connection, ctx| (connection.id, ctx.worker())).unwrap_err();
    assert_eq!(refused.reason(), Rejection::QueueFull);
    let job = refused.into_job();
    gate.open();
    held.join().flat().unwrap();
    assert_eq!(
        within("the second try", move || pool.submit(job).unwrap().join().flat().unwrap()).0,
        1
    );
    assert_eq!(server.connects(), 1);
}

#[test]
fn c87_a_second_connection_of_the_same_pool_is_refused_at_once() {
    let (runtime, pool, _) = build("c87", 4);
    let (gate, started) = (Gate::new(), Instant::now());
    let jobs: Vec<_> = (0..4)
        .map(|_| {
            let (gate, inner) = (gate.clone(), pool.clone());
            pool.submit(move |_, _| {
                gate.pass();
                inner.call_until(Deadline::never(), |connection, _| connection.id)
            })
            .unwrap()
        })
        .collect();
    gate.wait_for(4);
    gate.open();
    for job in jobs {
        let nested = within("the job", move || job.join().flat().unwrap());
        assert_eq!(nested.unwrap_err().rejection(), Some(Rejection::WouldDeadlock));
    }
    assert!(started.elapsed() < WATCHDOG);
    // With three threads free as well: that it worked while nothing was going on would only hide it.
    let inner = pool.clone();
    let nested = pool.call(move |_, _| inner.call(|connection, _| connection.id)).unwrap();
    assert_eq!(nested.unwrap_err().rejection(), Some(Rejection::WouldDeadlock));
    let now = runtime.bulkhead("c87").unwrap().snapshot();
    assert_eq!(now.arrivals, now.totals.accepted + now.rejected_in_all(), "{now}");
    all_have_connections(&pool, 4);
}

// ---- The wait for a connection -------------------------------------------------------------------

#[test]
fn c56_a_hanging_connect_keeps_a_job_no_longer_than_its_deadline() {
    let (_runtime, pool, server) = build("c56", 4);
    let gate = Gate::new();
    let hang = gate.clone();
    server.on_connect(move |_| {
        hang.pass();
        Ok(())
    });
    let started = Instant::now();
    let deadline = Deadline::after(Duration::from_millis(500));
    let jobs: Vec<_> = (0..4)
        .map(|_| pool.submit_until(deadline, |connection, _| connection.id).unwrap())
        .collect();
    for job in jobs {
        within("the caller", move || job.join().flat().unwrap_err());
    }
    eventually("the threads are free", || pool.bulkhead().snapshot().running == 0);
    // A limit of its own it would have kept for 20 s.
    assert!(started.elapsed() < LONG / 2, "free after {:?}", started.elapsed());
    gate.open();
    all_have_connections(&pool, 4);
}

#[test]
fn one_job_that_waits_has_one_connection_opened_however_long_it_takes() {
    let (_runtime, pool, server) = build("one", 8);
    server.on_connect(|_| {
        // Many times as long as a waiting worker takes to look again.
        std::thread::sleep(Duration::from_millis(300));
        Ok(())
    });
    for _ in 0..100 {
        id(&pool);
    }
    assert_eq!(server.connects(), 1);
    server.on_connect(|_| Ok(()));
    all_have_connections(&pool, 8);
    assert_eq!(server.connects(), 8);
}

#[test]
fn a_connection_that_comes_back_is_taken_by_whoever_waits_for_a_new_one() {
    let (_runtime, pool, server) = build("back", 2);
    let (gate, hang) = (Gate::new(), Gate::new());
    let inner = gate.clone();
    let first = pool.submit(move |_, _| inner.pass()).unwrap();
    gate.wait_for(1);
    let inner = hang.clone();
    server.on_connect(move |_| {
        inner.pass();
        Ok(())
    });
    let second = pool.submit(|connection, _| connection.id).unwrap();
    hang.wait_for(1);
    gate.open();
    first.join().flat().unwrap();
    assert_eq!(within("the second job", move || second.join().flat().unwrap()), 1);
    hang.open();
}

#[test]
fn a_job_that_is_cancelled_while_it_waits_for_a_connection_frees_its_thread() {
    let (_runtime, pool, server) = build("cancel", 1);
    let gate = Gate::new();
    let hang = gate.clone();
    server.on_connect(move |_| {
        hang.pass();
        Ok(())
    });
    let started = Instant::now();
    let job = pool.submit(|connection, _| connection.id).unwrap();
    gate.wait_for(1);
    eventually("it waits", || pool.status().waiting == 1);
    job.cancel();
    let error = within("the job", move || job.join().flat().unwrap_err());
    assert_eq!(kind(&error), ConnectionErrorKind::NoConnectionInTime);
    assert!(started.elapsed() < LONG / 2);
    assert_eq!(pool.status().waiting, 0);
    gate.open();
}

#[test]
fn no_connection_in_time_cannot_connect_and_queue_full_are_three_errors() {
    let bulkhead = Bulkhead::builder("three").threads(1).queue(0).call_limit(LONG);
    let limit = Duration::from_millis(50);
    let (_runtime, pool, server) = build_with(bulkhead, |pool| pool.connect_limit(limit));
    server.on_connect(|n| Err(Refused(n)));
    let refused = pool.call(|_, _| ()).unwrap_err();
    assert_eq!(kind(&refused), ConnectionErrorKind::CannotConnect);
    let CallError::Failed(error) = refused else { unreachable!() };
    let source = std::error::Error::source(&error).expect("the cause is kept");
    assert_eq!(source.downcast_ref::<Refused>(), Some(&Refused(1)), "it is the manager's own");
    assert!(error.waited() >= limit, "{error}");
    assert_eq!(error.bulkhead(), "three");

    // The next attempt, which the pool makes by itself, hangs. The old failure is no excuse.
    let gate = Gate::new();
    let hang = gate.clone();
    server.on_connect(move |_| {
        hang.pass();
        Ok(())
    });
    gate.wait_for(1);
    let slow = pool.call(|_, _| ()).unwrap_err();
    assert_eq!(kind(&slow), ConnectionErrorKind::NoConnectionInTime);

    gate.open();
    let busy = Gate::new();
    let inner = busy.clone();
    eventually("a connection", || pool.status().idle == 1);
    let held = pool.submit(move |_, _| inner.pass()).unwrap();
    busy.wait_for(1);
    let full = pool.call(|_, _| ()).unwrap_err();
    assert_eq!(full.rejection(), Some(Rejection::QueueFull));
    busy.open();
    held.join().flat().unwrap();
}

#[test]
fn c83_failed_and_broken_connections_use_up_no_places() {
    let bulkhead = Bulkhead::builder("c83").threads(5).queue(5).call_limit(LONG);
    let limit = Duration::from_secs(1);
    let (_runtime, pool, server) = build_with(bulkhead, |pool| pool.connect_limit(limit));
    server.on_connect(|n| Err(Refused(n)));
    let down: Vec<_> = (0..10).map(|_| pool.submit(|_, _| ()).unwrap()).collect();
    for job in down {
        let error = within("a job", move || job.join().flat().unwrap_err());
        assert_eq!(kind(&error), ConnectionErrorKind::CannotConnect);
    }
    server.on_connect(|_| Ok(()));
    // Within one interval of the retries.
    eventually("all places are filled", || pool.status().connections == 5);
    all_have_connections(&pool, 5);

    server.on_return(|id| Err(Refused(id)));
    for _ in 0..20 {
        let _ = pool.call(|_, _| ());
    }
    server.on_return(|_| Ok(()));
    eventually("broken ones are closed", || pool.status().unclosed == 0);
    // Five that are opened one after the other within the limit.
    eventually("all places are filled", || {
        let jobs: Vec<_> = (0..5).map(|_| pool.submit(|_, _| ()).unwrap()).collect();
        jobs.into_iter().all(|job| job.join().flat().is_ok())
    });
    all_have_connections(&pool, 5);
    assert!(pool.status().discarded >= 20, "{pool:?}");
}

#[test]
fn a_manager_that_panics_in_connect_test_or_release_loses_no_place() {
    let bulkhead = Bulkhead::builder("panics").threads(2).call_limit(LONG);
    let (_runtime, pool, server) =
        build_with(bulkhead, |pool| pool.connect_limit(LONG).test_after_idle(Duration::ZERO));
    server.on_connect(|n| if n <= 4 { resume_unwind(Box::new("connect")) } else { Ok(()) });
    all_have_connections(&pool, 2);
    assert_eq!(pool.status().failed, 4, "four attempts panicked");

    let before = server.connects();
    server.on_test(|_| resume_unwind(Box::new("test")));
    all_have_connections(&pool, 2);
    assert_eq!(server.connects(), before + 2, "those tested so were not given out again");

    server.on_test(|_| Ok(()));
    server.on_return(|_| resume_unwind(Box::new("return")));
    all_have_connections(&pool, 2);
    server.on_return(|_| Ok(()));
    server.on_close(|_| resume_unwind(Box::new("close")));
    all_have_connections(&pool, 2);
    for _ in 0..5 {
        let _ = pool.call(|_, _| resume_unwind(Box::new("job")));
    }
    all_have_connections(&pool, 2);
}

#[test]
fn a_panic_in_connect_is_told_with_its_message() {
    let bulkhead = Bulkhead::builder("message").threads(1).call_limit(LONG);
    let limit = Duration::from_millis(50);
    let (_runtime, pool, server) = build_with(bulkhead, |pool| pool.connect_limit(limit));
    server.on_connect(|_| resume_unwind(Box::new("no such host".to_owned())));
    let CallError::Failed(error) = pool.call(|_, _| ()).unwrap_err() else { panic!() };
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(source, "the connection manager panicked: no such host");
}

// ---- Testing -------------------------------------------------------------------------------------

#[test]
fn a_connection_is_tested_only_after_it_was_idle() {
    let (clock, server) = (Arc::new(ManualClock::new()), Server::new());
    let runtime = Runtime::builder()
        .clock(Arc::clone(&clock))
        .bulkhead(Bulkhead::builder("idle").threads(1).no_deadline())
        .build()
        .unwrap();
    let pool = Pool::builder(server.clone())
        .connect_limit(LONG)
        .test_after_idle(Duration::from_secs(60))
        .build(&runtime.bulkhead("idle").unwrap())
        .unwrap();
    assert_eq!((id(&pool), id(&pool), server.tests()), (1, 1, 0));
    clock.advance(Duration::from_secs(59));
    assert_eq!((id(&pool), server.tests()), (1, 0));
    clock.advance(Duration::from_secs(60));
    assert_eq!((id(&pool), server.tests()), (1, 1));
    server.on_test(|id| Err(Refused(id)));
    clock.advance(Duration::from_secs(60));
    assert_eq!((id(&pool), server.tests()), (2, 2), "one that fails is replaced");
    assert!(clock.now() > Instant::now());
}

#[test]
fn connections_that_were_opened_together_grow_old_one_by_one() {
    const CONNECTIONS: usize = 24;
    let (clock, server) = (Arc::new(ManualClock::new()), Server::new());
    let bulkhead = Bulkhead::builder("old").threads(CONNECTIONS).queue(CONNECTIONS).no_deadline();
    let runtime = Runtime::builder().clock(Arc::clone(&clock)).bulkhead(bulkhead).build().unwrap();
    let pool = Pool::builder(server.clone())
        .connect_limit(LONG)
        .test_after_idle(Duration::MAX)
        .max_lifetime(Duration::from_secs(10_000))
        .build(&runtime.bulkhead("old").unwrap())
        .unwrap();
    all_have_connections(&pool, CONNECTIONS);
    clock.advance(Duration::from_secs(7_499));
    all_have_connections(&pool, CONNECTIONS);
    all_have_connections(&pool, CONNECTIONS);
    assert_eq!(server.connects(), CONNECTIONS, "none is too old before three quarters");
    // Every one is in use in each round, so whichever is too old is replaced in the next.
    let mut replaced = Vec::new();
    for _ in 0..25 {
        let before = server.connects();
        clock.advance(Duration::from_secs(101));
        all_have_connections(&pool, CONNECTIONS);
        all_have_connections(&pool, CONNECTIONS);
        replaced.push(server.connects() - before);
    }
    assert_eq!(replaced.iter().sum::<usize>(), CONNECTIONS, "{replaced:?}");
    let rounds = replaced.iter().filter(|replaced| **replaced > 0).count();
    // By chance alone fewer than four rounds come about less than once in 10^15 runs.
    assert!(rounds >= 4, "{replaced:?}");
    assert_eq!(pool.status().discarded, 0, "to grow old is no failure");
}

#[test]
fn c85_a_test_that_hangs_holds_no_other_worker_and_its_connection_is_not_given_out_again() {
    let bulkhead = Bulkhead::builder("c85").threads(4).queue(20).call_limit(LONG);
    let (_runtime, pool, server) = build_with(bulkhead, |pool| {
        pool.connect_limit(Duration::from_secs(4)).test_after_idle(Duration::ZERO)
    });
    all_have_connections(&pool, 4);
    let (gate, first) = (Gate::new(), Arc::new(AtomicUsize::new(0)));
    let (hang, which) = (gate.clone(), Arc::clone(&first));
    server.on_test(move |id| {
        // The first to be tested.
        if which.compare_exchange(0, id, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            hang.pass();
        }
        Ok(())
    });
    let behind = pool.submit(|connection, _| connection.id).unwrap();
    gate.wait_for(1);
    let jobs: Vec<_> =
        (0..20).map(|_| pool.submit(|connection, _| connection.id).unwrap()).collect();
    let first = first.load(Ordering::SeqCst);
    for job in jobs {
        assert_ne!(within("a job", move || job.join().flat().unwrap()), first);
    }
    assert!(!behind.is_finished(), "the others have not waited for it");
    let status = pool.status();
    assert_eq!((status.waiting, status.unclosed), (1, 1), "where it is stuck is to be seen");
    assert_eq!(server.connects(), 4, "the others go on with what they had");

    // Whoever was behind it gives it up in the middle of its time, and takes a new one.
    assert_ne!(within("the first job", move || behind.join().flat().unwrap()), first);
    assert!(server.connects() <= 5);
    all_have_connections(&pool, 4);
    assert_eq!(pool.status().unclosed, 1, "it hangs on, and nobody minds");
    gate.open();
    eventually("it is closed in the end", || server.open() == 4 && pool.status().unclosed == 0);
}

#[test]
fn tests_that_all_hang_bring_no_pool_to_a_halt() {
    let bulkhead = Bulkhead::builder("halt").threads(1).call_limit(LONG);
    let limit = Duration::from_secs(2);
    let (_runtime, pool, server) =
        build_with(bulkhead, |pool| pool.connect_limit(limit).test_after_idle(Duration::ZERO));
    let gate = Gate::new();
    let hang = gate.clone();
    server.on_test(move |_| {
        hang.pass();
        Ok(())
    });
    for _ in 0..20 {
        id(&pool);
    }
    assert!(pool.status().unclosed <= 3, "{pool:?}");
    gate.open();
}

// ---- What goes back ------------------------------------------------------------------------------

#[test]
fn c80_after_a_panic_a_cancel_or_a_passed_deadline_nobody_gets_that_connection() {
    let (clock, server) = (Arc::new(ManualClock::new()), Server::new());
    let runtime = Runtime::builder()
        .clock(Arc::clone(&clock))
        .bulkhead(Bulkhead::builder("c80").threads(1).no_deadline())
        .build()
        .unwrap();
    let pool = Pool::builder(server.clone())
        .connect_limit(LONG)
        .build(&runtime.bulkhead("c80").unwrap())
        .unwrap();

    let panicked = pool.call(|connection, _| {
        connection.in_transaction = true;
        resume_unwind(Box::new("in mid-transaction"))
    });
    assert!(matches!(panicked, Err::<(), _>(CallError::Panicked(_))));
    assert_eq!(id(&pool), 2, "after a panic");

    let gate = Gate::new();
    let inner = gate.clone();
    let cancelled = pool.submit(move |_, _| inner.pass()).unwrap();
    gate.wait_for(1);
    cancelled.cancel();
    gate.open();
    within("the cancelled job", move || cancelled.join().flat().unwrap());
    assert_eq!(id(&pool), 3, "after a cancel");

    let gate = Gate::new();
    let inner = gate.clone();
    let deadline = Deadline::at(clock.now() + Duration::from_secs(5));
    let late = pool.submit_until(deadline, move |_, _| inner.pass()).unwrap();
    gate.wait_for(1);
    clock.advance(Duration::from_secs(5));
    within("the late caller", move || late.join().flat().unwrap_err());
    gate.open();
    assert_eq!(id(&pool), 4, "after a deadline");

    eventually("they are closed", || server.open() == 1);
    assert_eq!(pool.status().discarded, 3);
}

#[test]
fn c80_a_transaction_left_open_is_ended_before_anybody_else_sees_it() {
    let bulkhead = Bulkhead::builder("c80").threads(1).call_limit(LONG);
    let (_runtime, pool, _server) = build_with(bulkhead, |pool| {
        pool.connect_limit(LONG).on_return(|connection: &mut Connection| {
            connection.in_transaction = false;
            Ok::<(), Refused>(())
        })
    });
    let failed = pool.call(|connection, _| {
        connection.in_transaction = true;
        Err::<(), _>("no such row")
    });
    assert_eq!(failed.unwrap(), Err("no such row"));
    let next = pool.call(|connection, _| (connection.id, connection.in_transaction)).unwrap();
    assert_eq!(next, (1, false));
}

#[test]
fn a_connection_that_cannot_be_cleaned_is_closed() {
    let bulkhead = Bulkhead::builder("clean").threads(1).call_limit(LONG);
    let (_runtime, pool, server) = build_with(bulkhead, |pool| {
        pool.connect_limit(LONG).on_return(|connection: &mut Connection| match connection.id {
            1 => Err(Refused(1)),
            2 => resume_unwind(Box::new("the hook")),
            _ => Ok(()),
        })
    });
    // The value of the job is its own: it comes all the same.
    assert_eq!((id(&pool), id(&pool), id(&pool), id(&pool)), (1, 2, 3, 3));
    eventually("two are closed", || server.open() == 1);
}

#[test]
fn c82_values_and_ordinary_errors_keep_the_connection() {
    let (_runtime, pool, server) = build("c82", 2);
    for n in 0..1_000 {
        assert_eq!(pool.call(move |_, _| n).unwrap(), n);
    }
    for _ in 0..10 {
        assert_eq!(
            pool.call(|_, _| Err::<(), _>("a business error")).unwrap(),
            Err("a business error")
        );
    }
    assert!(server.connects() <= 2);
    let gate = Gate::new();
    let held: Vec<_> = (0..2)
        .map(|_| {
            let gate = gate.clone();
            pool.submit(move |_, _| gate.pass()).unwrap()
        })
        .collect();
    gate.wait_for(2);
    for _ in 0..10 {
        assert!(pool.submit(|_, _| ()).unwrap().cancel(), "it had not started");
    }
    gate.open();
    for job in held {
        job.join().flat().unwrap();
    }
    assert!(server.connects() <= 2);
    for _ in 0..10 {
        let _ = pool.call(|_, _| resume_unwind(Box::new("a bug")));
    }
    id(&pool);
    assert!(server.connects() <= 2 + 10, "{} connects", server.connects());
}

#[test]
fn a_close_that_hangs_holds_no_worker_and_what_waits_behind_it_is_bounded() {
    let bulkhead = Bulkhead::builder("close").threads(1).call_limit(LONG);
    let limit = Duration::from_secs(2);
    let (_runtime, pool, server) = build_with(bulkhead, |pool| pool.connect_limit(limit));
    let gate = Gate::new();
    let hang = gate.clone();
    server.on_close(move |_| {
        hang.pass();
        Ok(())
    });
    let mut opened = 0;
    for _ in 0..6 {
        match pool.call(|_, _| resume_unwind(Box::new("a bug"))) {
            Err::<(), _>(CallError::Panicked(_)) => opened += 1,
            Err(error) => {
                assert_eq!(kind(&error), ConnectionErrorKind::CannotConnect);
                let CallError::Failed(error) = error else { unreachable!() };
                let source = std::error::Error::source(&error).unwrap().to_string();
                assert!(source.contains("have not been closed yet"), "{source}");
            }
            Ok(()) => unreachable!(),
        }
    }
    assert_eq!(opened, 3, "as many as there are connections, and one for each of the two threads");
    gate.open();
    eventually("it connects again", || pool.call(|_, _| ()).is_ok());
}

// ---- The end of a pool ---------------------------------------------------------------------------

#[test]
fn c40_helper_threads_and_connections_are_gone_when_the_shutdown_says_so() {
    for _ in 0..50 {
        let (runtime, pool, server) = build("c40", 2);
        all_have_connections(&pool, 2);
        assert_eq!(server.open(), 2);
        let report = within("the shutdown", move || runtime.shutdown(WATCHDOG).unwrap());
        assert!(report.is_clean(), "{report}");
        assert_eq!(server.open(), 0, "idle connections are closed");
    }
    // The system takes a moment to forget a thread that has run its last line.
    #[cfg(target_os = "linux")]
    eventually("no thread is left", || threads_named("wt-c40-").is_empty());
}

#[test]
fn c40_a_runtime_that_is_dropped_leaves_no_thread_and_no_connection() {
    for _ in 0..50 {
        let (runtime, pool, server) = build("c40d", 2);
        all_have_connections(&pool, 2);
        drop(runtime);
        assert_eq!(server.open(), 0);
    }
    #[cfg(target_os = "linux")]
    eventually("no thread is left", || threads_named("wt-c40d-").is_empty());
}

#[test]
fn a_pool_ends_with_its_last_handle_and_its_last_job() {
    let (runtime, pool, server) = build("last", 2);
    let bulkhead = pool.bulkhead().clone();
    let gate = Gate::new();
    let inner = gate.clone();
    let job = pool.submit(move |connection, _| (inner.pass(), connection.id).1).unwrap();
    gate.wait_for(1);
    drop(pool);
    assert_eq!(server.open(), 1, "a job still has it");
    gate.open();
    assert_eq!(job.join().flat().unwrap(), 1);
    eventually("its connection is closed", || server.open() == 0);
    #[cfg(target_os = "linux")]
    eventually("its threads are gone", || {
        threads_named("wt-last-").iter().all(|name| !name.ends_with(['c', 'k', 'l']))
    });
    // The bulkhead lives on, and can have another.
    let pool = Pool::builder(server.clone()).connect_limit(LONG).build(&bulkhead).unwrap();
    assert_eq!(pool.call(|connection, _| connection.id).unwrap(), 2);
    let report = within("the shutdown", move || runtime.shutdown(WATCHDOG).unwrap());
    assert!(report.is_clean(), "{report}");
    assert_eq!(server.open(), 0);
}

#[test]
fn a_pool_of_a_dead_server_is_built_at_once_and_stops_connecting_when_it_ends() {
    let (runtime, pool, server) = build("dead", 4);
    assert_eq!(server.connects(), 0);
    server.on_connect(|n| Err(Refused(n)));
    let jobs: Vec<_> = (0..4)
        .map(|_| {
            let deadline = Deadline::after(Duration::from_millis(200));
            pool.submit_until(deadline, |_, _| ()).unwrap()
        })
        .collect();
    for job in jobs {
        within("a job", move || job.join().flat().unwrap_err());
    }
    let report = within("the shutdown", move || runtime.shutdown(WATCHDOG).unwrap());
    assert!(report.is_clean(), "{report}");
    let tried = server.connects();
    // Longer than its interval: there is nothing to wait for that would show that nothing happens.
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(server.connects(), tried);
    let closed = pool.call(|_, _| ()).unwrap_err();
    assert_eq!(closed.rejection(), Some(Rejection::ShuttingDown));
}

#[test]
fn a_connect_that_hangs_is_named_by_the_shutdown_and_ends_with_its_pool() {
    let (runtime, pool, server) = build("hung", 1);
    let gate = Gate::new();
    let hang = gate.clone();
    server.on_connect(move |_| {
        hang.pass();
        Ok(())
    });
    let deadline = Deadline::after(Duration::from_millis(500));
    let job = pool.submit_until(deadline, |_, _| ()).unwrap();
    gate.wait_for(1);
    within("the job", move || job.join().flat().unwrap_err());
    eventually("the worker is free", || pool.bulkhead().snapshot().running == 0);
    let report = within("the shutdown", move || runtime.shutdown(Duration::from_secs(2)).unwrap());
    let helpers: Vec<_> = report.helpers.iter().map(|helper| helper.thread.as_str()).collect();
    assert_eq!((report.stuck.len(), helpers), (0, vec!["wt-hung-c"]), "{report}");
    gate.open();
    eventually("what it opened is closed", || server.connects() == 1 && server.open() == 0);
    #[cfg(target_os = "linux")]
    eventually("its thread is gone", || threads_named("wt-hung-").is_empty());
}

#[test]
fn a_close_that_hangs_is_named_by_the_shutdown_and_r2d2s_own_thread_is_gone_all_the_same() {
    let (runtime, pool, server) = build("hungk", 1);
    let gate = Gate::new();
    let hang = gate.clone();
    server.on_close(move |_| {
        hang.pass();
        Ok(())
    });
    id(&pool);
    let report = within("the shutdown", move || runtime.shutdown(Duration::from_secs(2)).unwrap());
    let [helper] = &report.helpers[..] else { panic!("{report}") };
    assert!(helper.thread == "wt-hungk-k" || helper.thread == "wt-hungk-l", "{report}");
    gate.open();
    #[cfg(target_os = "linux")]
    eventually("its thread is gone", || threads_named("wt-hungk-").is_empty());
}

#[test]
fn a_pool_that_is_built_after_the_shutdown_is_closed_at_once() {
    let (runtime, _, server) = build("after", 1);
    let bulkhead = runtime.bulkhead("after").unwrap();
    runtime.shutdown(WATCHDOG).unwrap();
    let pool = Pool::builder(server.clone()).build(&bulkhead).unwrap();
    let refused = pool.call(|_, _| ()).unwrap_err();
    assert_eq!(refused.rejection(), Some(Rejection::ShuttingDown));
    #[cfg(target_os = "linux")]
    eventually("no thread is left", || threads_named("wt-after-").is_empty());
    assert_eq!(server.connects(), 0);
}

#[test]
#[cfg(target_os = "linux")]
fn helper_threads_bear_the_name_of_their_bulkhead_as_far_as_there_is_room() {
    let (_runtime, _pool, _) = build("quotations-of-the-day", 1);
    let wanted = ["c", "k", "l"].map(|letter| format!("wt-quotations-{letter}"));
    assert!(wanted.iter().all(|name| name.len() <= 15));
    eventually("they have started", || {
        let found = threads_named("wt-quotations-");
        wanted.iter().all(|name| found.contains(name))
    });
}

// ---- A real one ----------------------------------------------------------------------------------

struct Sqlite(std::path::PathBuf);

impl ManageConnection for Sqlite {
    type Connection = rusqlite::Connection;
    type Error = rusqlite::Error;

    fn connect(&self) -> rusqlite::Result<rusqlite::Connection> {
        rusqlite::Connection::open(&self.0)
    }

    fn is_valid(&self, connection: &mut rusqlite::Connection) -> rusqlite::Result<()> {
        connection.execute_batch("SELECT 1")
    }

    fn has_broken(&self, _: &mut rusqlite::Connection) -> bool {
        false
    }
}

#[test]
fn sqlite_sees_neither_the_writes_of_a_panic_nor_those_of_an_open_transaction() {
    let path = std::env::temp_dir().join(format!("watertight-pooled-{}.db", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let bulkhead = Bulkhead::builder("sqlite").threads(2).call_limit(LONG);
    let runtime = Runtime::builder().bulkhead(bulkhead).build().unwrap();
    let db = Pool::builder(Sqlite(path.clone()))
        .connect_limit(LONG)
        .test_after_idle(Duration::ZERO)
        .on_return(|connection: &mut rusqlite::Connection| {
            if connection.is_autocommit() { Ok(()) } else { connection.execute_batch("ROLLBACK") }
        })
        .build(&runtime.bulkhead("sqlite").unwrap())
        .unwrap();

    db.call(|db, _| db.execute_batch("CREATE TABLE stars (n INTEGER)")).unwrap().unwrap();
    let panicked = db.call(|db, _| {
        db.execute_batch("BEGIN; INSERT INTO stars VALUES (1)").unwrap();
        resume_unwind(Box::new("in mid-transaction"))
    });
    assert!(matches!(panicked, Err::<(), _>(CallError::Panicked(_))));
    let failed = db.call(|db, _| -> rusqlite::Result<()> {
        db.execute_batch("BEGIN; INSERT INTO stars VALUES (2)")?;
        db.execute_batch("SELECT nonsense")
    });
    assert!(failed.unwrap().is_err());
    db.call(|db, _| db.execute_batch("BEGIN; INSERT INTO stars VALUES (3); COMMIT"))
        .unwrap()
        .unwrap();
    let stars: Result<i64, rusqlite::Error> =
        db.call(|db, _| db.query_row("SELECT sum(n) FROM stars", [], |row| row.get(0))).unwrap();
    assert_eq!(stars.unwrap(), 3);

    let report = within("the shutdown", move || runtime.shutdown(WATCHDOG).unwrap());
    assert!(report.is_clean(), "{report}");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn an_sqlite_file_that_cannot_be_opened_says_so_in_its_own_error() {
    let bulkhead = Bulkhead::builder("nowhere").threads(1);
    let runtime = Runtime::builder().bulkhead(bulkhead).build().unwrap();
    let db = Pool::builder(Sqlite("/nowhere/at/all.db".into()))
        .build(&runtime.bulkhead("nowhere").unwrap())
        .unwrap();
    let CallError::Failed(error) = db.call(|_, _| ()).unwrap_err() else { panic!() };
    assert_eq!(error.kind(), ConnectionErrorKind::CannotConnect);
    let source = std::error::Error::source(&error).expect("it is kept");
    assert!(source.downcast_ref::<rusqlite::Error>().is_some(), "{source}");
}
