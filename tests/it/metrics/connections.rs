//! Connections and look-ups of names: where they are, and why they went.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use watertight::http::Client;
use watertight::metrics::{Format, Metrics};
use watertight::r2d2::{ManageConnection, Pool};
use watertight::{Bulkhead, Deadline, Runtime};

use super::exposition::{Scrape, strangers_agree};
use crate::support::{Gate, WATCHDOG, build, eventually};

const DISCARDED: &str = "watertight_connections_discarded_total";

/// A manager that does as it is told.
#[derive(Clone, Default)]
struct Manager(Arc<Faults>);

#[derive(Default)]
struct Faults {
    refuses: AtomicBool,
    breaks: AtomicBool,
    fails_tests: AtomicBool,
    stays_dirty: AtomicBool,
}

impl ManageConnection for Manager {
    type Connection = ();
    type Error = io::Error;

    fn connect(&self) -> io::Result<()> {
        if self.0.refuses.load(Ordering::SeqCst) { Err(io::Error::other("no")) } else { Ok(()) }
    }

    fn is_valid(&self, (): &mut ()) -> io::Result<()> {
        if self.0.fails_tests.load(Ordering::SeqCst) { Err(io::Error::other("no")) } else { Ok(()) }
    }

    fn has_broken(&self, (): &mut ()) -> bool {
        self.0.breaks.load(Ordering::SeqCst)
    }
}

#[test]
fn each_cause_of_a_lost_connection_has_a_count_of_its_own() {
    let (runtime, bulkhead) = build(Bulkhead::builder("db").threads(1).queue(4).no_deadline());
    let metrics = Metrics::of(&runtime);
    assert!(!metrics.render(Format::Text).contains("watertight_connections"), "it has none yet");
    let manager = Manager::default();
    let faults = Arc::clone(&manager.0);
    let hook = Arc::clone(&faults);
    let pool = Pool::builder(manager)
        .test_after_idle(Duration::ZERO)
        .connect_limit(WATCHDOG)
        .on_return(move |()| if hook.stays_dirty.load(Ordering::SeqCst) { Err(()) } else { Ok(()) })
        .build(&bulkhead)
        .unwrap();
    let get = |name: &str, labels: &[(&str, &str)]| Scrape::of(&metrics).get(name, labels);
    let state = |state| get("watertight_connections", &[("state", state)]);
    let opened = || get("watertight_connections_opened_total", &[]);
    let call = || pool.call(|(), _| ()).unwrap();
    let with = |fault: &AtomicBool, times: usize| {
        for _ in 0..times {
            call();
            fault.store(true, Ordering::SeqCst);
            call();
            fault.store(false, Ordering::SeqCst);
        }
    };

    let gate = Gate::new();
    let inside = gate.clone();
    let held = pool.submit(move |(), _| inside.pass()).unwrap();
    gate.wait_for(1);
    assert_eq!([state("in_use"), state("idle")], [1.0, 0.0]);
    gate.open();
    held.join().unwrap().unwrap();
    eventually("it is back", || state("idle") == 1.0);
    assert_eq!([state("in_use"), opened()], [0.0, 1.0]);

    let panicked = pool.call(|(), _| resume_unwind(Box::new("boom")));
    assert!(Result::<(), _>::is_err(&panicked));
    for _ in 0..2 {
        let gate = Gate::new();
        let inside = gate.clone();
        let cancelled = pool.submit(move |(), _| inside.pass()).unwrap();
        gate.wait_for(1);
        cancelled.cancel();
        gate.open();
        drop(cancelled.join());
    }
    with(&faults.stays_dirty, 3);
    with(&faults.breaks, 4);
    for _ in 0..5 {
        call();
        faults.fails_tests.store(true, Ordering::SeqCst);
        // The one that is there fails its test, and a new one needs none.
        call();
        faults.fails_tests.store(false, Ordering::SeqCst);
    }
    for (cause, times) in [
        ("panicked", 1.0),
        ("unwanted", 2.0),
        ("unclean", 3.0),
        ("broken", 4.0),
        ("failed_test", 5.0),
    ] {
        assert_eq!(get(DISCARDED, &[("cause", cause)]), times, "{cause}");
    }
    let status = pool.status();
    assert_eq!(status.discarded, 15);
    eventually("no connection is unaccounted for", || {
        let rest = Scrape::of(&metrics);
        let open = rest.sum("watertight_connections", &[]);
        rest.sum(DISCARDED, &[]) + open == rest.get("watertight_connections_opened_total", &[])
    });

    faults.breaks.store(true, Ordering::SeqCst);
    call();
    faults.refuses.store(true, Ordering::SeqCst);
    let deadline = Deadline::after(Duration::from_millis(50));
    assert!(pool.call_until(deadline, |(), _| ()).is_err());
    eventually("a failure to connect", || get("watertight_connect_failures_total", &[]) > 0.0);
    faults.refuses.store(false, Ordering::SeqCst);
    faults.breaks.store(false, Ordering::SeqCst);
    call();
    let before = Scrape::of(&metrics);
    runtime.shutdown(WATCHDOG).unwrap();
    let closed = Scrape::of(&metrics);
    closed.has_not_fallen_since(&before);
    assert_eq!(closed.sum("watertight_connections", &[]), 0.0);
    assert_eq!(
        closed.sum(DISCARDED, &[]),
        closed.get("watertight_connections_opened_total", &[]),
        "the idle one was retired"
    );
}

#[test]
fn no_count_falls_when_a_pool_is_replaced_by_another() {
    let (runtime, bulkhead) = build(Bulkhead::builder("db").threads(1));
    let metrics = Metrics::of(&runtime);
    let mut before = None;
    for _ in 0..3 {
        let pool = Pool::builder(Manager::default()).build(&bulkhead).unwrap();
        pool.call(|(), _| ()).unwrap();
        drop(pool);
        let now = Scrape::of(&metrics);
        if let Some(before) = &before {
            now.has_not_fallen_since(before);
            assert_eq!(Scrape::names(before), now.names());
        }
        before = Some(now);
    }
    eventually("all are retired", || {
        let scrape = Scrape::of(&metrics);
        scrape.get(DISCARDED, &[("cause", "retired")]) == 3.0
            && scrape.get("watertight_connections_opened_total", &[]) == 3.0
    });
}

/// A web server that answers each request, or none.
fn web_server(answers: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || serve_one(stream, answers));
        }
    });
    address
}

fn serve_one(mut stream: TcpStream, answers: bool) {
    let mut seen = Vec::new();
    let mut byte = [0];
    while stream.read(&mut byte).is_ok_and(|read| read == 1) {
        seen.push(byte[0]);
        if answers && seen.ends_with(b"\r\n\r\n") {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    }
}

#[test]
fn the_connections_and_look_ups_of_an_http_client_are_counted() {
    let (runtime, bulkhead) = build(Bulkhead::builder("api").threads(2).queue(4).no_deadline());
    let metrics = Metrics::of(&runtime);
    let (answering, silent) = (web_server(true), web_server(false));
    let slow = Gate::new();
    let look_up = {
        let slow = slow.clone();
        move |host: &str, _| match host {
            "there.test" => Ok(vec![answering]),
            slowly if slowly.starts_with("slow") => {
                slow.pass();
                Ok(vec![answering])
            }
            _ => Err(io::Error::other("there is no such name")),
        }
    };
    let client = Client::builder().look_up(look_up).build(&bulkhead).unwrap();
    let get = |name: &str, labels: &[(&str, &str)]| Scrape::of(&metrics).get(name, labels);
    let state = |state| get("watertight_connections", &[("state", state)]);
    let fetch = |url: String| {
        client.call(move |agent, _| agent.get(url).call()?.body_mut().read_to_string()).unwrap()
    };

    let gate = Gate::new();
    let inside = gate.clone();
    let held = client.submit(move |agent, _| {
        let answer = agent.get(format!("http://{answering}/")).call()?.body_mut().read_to_string();
        inside.pass();
        answer
    });
    gate.wait_for(1);
    assert_eq!([state("in_use"), state("idle")], [1.0, 0.0]);
    gate.open();
    held.unwrap().join().unwrap().unwrap();
    assert_eq!(fetch(format!("http://{answering}/")).unwrap(), "ok");
    assert_eq!([state("in_use"), state("idle")], [0.0, 1.0]);
    assert_eq!(get("watertight_connections_opened_total", &[]), 1.0);

    let deadline = Deadline::after(Duration::from_millis(50));
    let url = format!("http://{silent}/");
    assert!(client.call_until(deadline, move |agent, _| agent.get(url).call().map(drop)).is_err());
    eventually("the aborted connection is gone", || {
        get(DISCARDED, &[("cause", "unwanted")]) + get(DISCARDED, &[("cause", "closed")]) == 1.0
    });
    // Nobody listens there any more.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(fetch(format!("http://{closed}/")).is_err());
    assert_eq!(get("watertight_connect_failures_total", &[]), 1.0);

    let looked_up = |outcome| get("watertight_dns_lookups_total", &[("outcome", outcome)]);
    assert_eq!(looked_up("answered"), 0.0, "an address is no name");
    let named = format!("http://there.test:{}/", answering.port());
    assert_eq!(fetch(named.clone()).unwrap(), "ok");
    assert_eq!(fetch(named).unwrap(), "ok");
    assert_eq!(looked_up("answered"), 1.0, "the second is answered from memory");
    for _ in 0..2 {
        assert!(fetch("http://nowhere.test/".into()).is_err());
    }
    assert_eq!(looked_up("failed"), 2.0);
    for url in ["http://slow-1.test/", "http://slow-2.test/"] {
        let deadline = Deadline::after(Duration::from_millis(50));
        let late = client.call_until(deadline, move |agent, _| agent.get(url).call().map(drop));
        assert!(late.map_or(true, |answer| answer.is_err()));
    }
    eventually("both have given up", || looked_up("timed_out") == 2.0);
    assert!(fetch("http://slow-3.test/".into()).is_err());
    assert_eq!(looked_up("refused"), 1.0);
    assert!(get("watertight_dns_wait_seconds_total", &[]) > 0.0);
    slow.open();

    let scrapes = [Format::Text, Format::OpenMetrics]
        .map(|format| Scrape::parse(format, metrics.render(format)));
    strangers_agree(&scrapes);
}

/// The metrics that a table of the documentation explains.
fn documented() -> std::collections::BTreeSet<String> {
    let page = include_str!("../../../docs/operations.md");
    let names = page.lines().filter_map(|line| line.strip_prefix("| `watertight_"));
    let names: Vec<_> = names.map(|rest| rest.split_once('`').unwrap().0).collect();
    assert_eq!(names.len(), names.iter().collect::<std::collections::BTreeSet<_>>().len());
    names.into_iter().map(|name| format!("watertight_{name}")).collect()
}

#[test]
#[cfg(target_os = "linux")]
fn the_documentation_explains_the_metrics_that_there_are_and_no_other() {
    let (runtime, bulkhead) = build(Bulkhead::builder("db").threads(1));
    let _pool = Pool::builder(Manager::default()).build(&bulkhead).unwrap();
    let _client = Client::builder().build(&bulkhead).unwrap();
    let scrape = Scrape::of(&Metrics::of(&runtime));
    let rendered: std::collections::BTreeSet<String> = scrape.types.into_keys().collect();
    let mut documented = documented();
    // Not every process is in a control group that counts.
    documented.retain(|name| !name.starts_with("watertight_cgroup") || rendered.contains(name));
    assert_eq!(documented, rendered);
}

#[test]
fn one_bulkhead_s_connections_are_not_another_s() {
    let runtime = Runtime::builder()
        .bulkhead(Bulkhead::builder("db").threads(1))
        .bulkhead(Bulkhead::builder("cpu").threads(1))
        .build()
        .unwrap();
    let pool = Pool::builder(Manager::default()).build(&runtime.bulkhead("db").unwrap()).unwrap();
    pool.call(|(), _| ()).unwrap();
    let scrape = Scrape::of(&Metrics::of(&runtime));
    assert_eq!(scrape.sum("watertight_connections", &[("bulkhead", "db")]), 1.0);
    assert!(scrape.matching("watertight_connections", &[("bulkhead", "cpu")]).is_empty());
}
