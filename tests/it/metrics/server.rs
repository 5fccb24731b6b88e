//! The web server: what it answers, and that no client and no bulkhead can keep it from answering.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use watertight::metrics::{Format, Metrics, Server, client, serve};
use watertight::{Bulkhead, Clock, ManualClock, MonotonicClock, Runtime};

use super::exposition::{Scrape, strangers_agree};
use crate::support::{Gate, WATCHDOG, build, child, ends, eventually, hold, part, within};

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn of(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").expect("a whole head");
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }
}

fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    stream
}

fn exchange(server: SocketAddr, request: &str) -> Answer {
    let mut stream = connect(server);
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    Answer::of(&text)
}

fn get(server: SocketAddr, path: &str) -> Answer {
    exchange(server, &format!("GET {path} HTTP/1.1\r\nHost: here\r\n\r\n"))
}

/// Whether the server has closed the connection, which it does some time soon.
fn is_closed(mut stream: &TcpStream) -> bool {
    match stream.read(&mut [0; 64]) {
        Ok(read) => read == 0,
        Err(error) => matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
    }
}

#[test]
fn each_path_has_its_answer() {
    let (runtime, bulkhead) = build(Bulkhead::builder("per\"son").threads(2));
    bulkhead.call(|_| ()).unwrap();
    let server = serve("127.0.0.1:0", &Metrics::of(&runtime)).unwrap();
    let address = server.local_addr();
    assert!(address.ip().is_loopback() && address.port() != 0);

    let mut scrapes = Vec::new();
    for (accept, format) in [
        ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", Format::OpenMetrics),
        ("text/plain;version=0.0.4", Format::Text),
    ] {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: here\r\nAccept: {accept}\r\n\r\n");
        let answer = exchange(address, &request);
        assert_eq!(answer.status, 200);
        let content_type = format!("content-type: {}", format.content_type());
        assert!(answer.head.contains(&content_type), "{}", answer.head);
        assert!(answer.head.contains(&format!("content-length: {}", answer.body.len())));
        let scrape = Scrape::parse(format, answer.body);
        scrape.check();
        assert_eq!(scrape.get("watertight_accepted_total", &[("bulkhead", "per\"son")]), 1.0);
        scrapes.push(scrape);
    }
    strangers_agree(&scrapes);

    let json = get(address, "/snapshot.json");
    assert!(json.status == 200 && json.head.contains("content-type: application/json"));
    let json: serde_json::Value = serde_json::from_str(&json.body).unwrap();
    let first = &json["bulkheads"][0];
    assert_eq!(first["bulkhead"], "per\"son");
    assert_eq!(first["threads"], 2);
    assert_eq!(first["totals"]["returned"], 1);
    assert_eq!(first["run_seconds"]["count"], 1);

    for (path, status) in [
        ("/livez", 200),
        ("/readyz", 200),
        ("/", 200),
        ("/livez?verbose", 200),
        ("/metrics/", 404),
        ("/../etc/passwd", 404),
    ] {
        assert_eq!(get(address, path).status, status, "{path}");
    }
    let posted = exchange(
        address,
        "POST /metrics HTTP/1.1\r\nHost: here\r\nContent-Length: 99999999\r\n\r\n",
    );
    assert!(posted.status == 405 && posted.head.contains("allow: get, head"), "{}", posted.head);
    let head = exchange(address, "HEAD /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
    assert!(head.status == 200 && head.body.is_empty());
    assert_eq!(exchange(address, "GET /livez HTTP/1.0\r\n\r\n").status, 200);
}

/// Hangs as long as the gate is shut, once it is armed.
struct Hanging {
    armed: Arc<AtomicBool>,
    gate: Gate,
}

/// Lets the clock go on, also where the test fails, so that its runtime can end.
struct Release(Arc<AtomicBool>, Gate);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
        self.1.open();
    }
}

impl Clock for Hanging {
    fn now(&self) -> Instant {
        if self.armed.load(Ordering::SeqCst) {
            self.gate.pass();
        }
        MonotonicClock.now()
    }
}

#[test]
fn it_says_that_it_is_alive_while_every_bulkhead_and_the_clock_itself_hang() {
    let (armed, gate) = (Arc::new(AtomicBool::new(false)), Gate::new());
    let runtime = Runtime::builder()
        .clock(Hanging { armed: Arc::clone(&armed), gate: gate.clone() })
        .bulkhead(Bulkhead::builder("db").threads(2).queue(0))
        .build()
        .unwrap();
    let server = serve("127.0.0.1:0", &Metrics::of(&runtime)).unwrap();
    let (address, wedge) = (server.local_addr(), Gate::new());
    let held = hold(&runtime.bulkhead("db").unwrap(), &wedge, 2);
    wedge.wait_for(2);
    assert_eq!(get(address, "/metrics").status, 200, "a wedged bulkhead is still read");

    let release = Release(Arc::clone(&armed), gate.clone());
    armed.store(true, Ordering::SeqCst);
    let scrape = thread::spawn(move || get(address, "/metrics"));
    gate.wait_for(1);
    for _ in 0..3 {
        assert_eq!(get(address, "/livez").status, 200);
    }
    // It waits for as long as a scraper does, and then says what is wrong.
    let waited = scrape.join().unwrap();
    assert_eq!(waited.status, 503);
    assert!(waited.body.contains("clock"), "{}", waited.body);
    assert_eq!(get(address, "/livez").status, 200);
    drop(release);
    eventually("it reads again", || get(address, "/metrics").status == 200);
    wedge.open();
    for job in held {
        job.join().unwrap();
    }
}

#[test]
fn it_stops_while_the_reader_hangs_and_gives_its_port_back() {
    let (armed, gate) = (Arc::new(AtomicBool::new(false)), Gate::new());
    let runtime = Runtime::builder()
        .clock(Hanging { armed: Arc::clone(&armed), gate: gate.clone() })
        .bulkhead(Bulkhead::builder("db").threads(1))
        .build()
        .unwrap();
    let server = serve("127.0.0.1:0", &Metrics::of(&runtime)).unwrap();
    let address = server.local_addr();
    let idle = connect(address);
    let _release = Release(Arc::clone(&armed), gate.clone());
    armed.store(true, Ordering::SeqCst);
    let mut asked = connect(address);
    asked.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    gate.wait_for(1);
    within("the server stops", move || server.shutdown());
    assert!(is_closed(&idle) && is_closed(&asked));
    TcpListener::bind(address).unwrap();
}

#[test]
fn it_is_ready_as_long_as_the_required_bulkheads_are() {
    let clock = Arc::new(ManualClock::new());
    let runtime = Runtime::builder()
        .clock(Arc::clone(&clock))
        .bulkhead(Bulkhead::builder("checkout").threads(1).queue(0))
        .bulkhead(Bulkhead::builder("reviews").threads(1).queue(0))
        .build()
        .unwrap();
    let metrics = Metrics::of(&runtime);
    let server = Server::builder(&metrics)
        .require("checkout")
        .saturated_limit(Duration::from_secs(10))
        .serve("127.0.0.1:0")
        .unwrap();
    let ready = || get(server.local_addr(), "/readyz");
    let fill = |name| {
        let gate = Gate::new();
        let held = hold(&runtime.bulkhead(name).unwrap(), &gate, 1);
        gate.wait_for(1);
        (gate, held)
    };
    let relieve = |(gate, held): (Gate, Vec<watertight::JobHandle<()>>)| {
        gate.open();
        for job in held {
            job.join().unwrap();
        }
    };
    assert_eq!(ready().status, 200);

    let optional = fill("reviews");
    clock.advance(Duration::from_secs(1_000));
    assert_eq!(ready().status, 200, "an optional bulkhead that is full");
    let required = fill("checkout");
    clock.advance(Duration::from_millis(9_999));
    assert_eq!(ready().status, 200, "a burst");
    clock.advance(Duration::from_millis(1));
    let answer = ready();
    assert_eq!(answer.status, 503);
    assert_eq!(answer.body, "bulkhead `checkout` has been full for 10.0s\n");
    relieve(required);
    assert_eq!(ready().status, 200);
    relieve(optional);

    runtime.shutdown(WATCHDOG).unwrap();
    assert_eq!(ready().body, "bulkhead `checkout` is shutting down\n");
    drop(runtime);
    let gone = ready();
    assert_eq!((gone.status, &*gone.body), (503, "bulkhead `checkout` is not there\n"));
}

#[test]
fn it_listens_to_other_machines_only_when_told_to() {
    let (runtime, _bulkhead) = build(Bulkhead::builder("db").threads(1));
    let metrics = Metrics::of(&runtime);
    let refused = serve("0.0.0.0:0", &metrics).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(refused.to_string().contains("allow_public"), "{refused}");
    let server = Server::builder(&metrics).allow_public().serve("0.0.0.0:0").unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], server.local_addr().port()));
    assert_eq!(get(address, "/livez").status, 200);
    for wrong in [
        Server::builder(&metrics).clients(0).serve("127.0.0.1:0"),
        Server::builder(&metrics).client_limit(Duration::ZERO).serve("127.0.0.1:0"),
    ] {
        assert_eq!(wrong.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    let taken = serve(address, &metrics).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AddrInUse);
}

#[derive(Debug)]
struct Broken(Arc<AtomicBool>);

impl client::collector::Collector for Broken {
    fn encode(&self, mut encoder: client::encoding::DescriptorEncoder<'_>) -> std::fmt::Result {
        if self.0.load(Ordering::SeqCst) {
            return Err(std::fmt::Error);
        }
        let kind = client::metrics::MetricType::Gauge;
        encoder.encode_descriptor("broken", "Broken.", None, kind)?;
        std::panic::resume_unwind(Box::new("a collector of the user's"))
    }
}

#[test]
fn a_collector_that_fails_or_panics_costs_one_answer() {
    let (runtime, _bulkhead) = build(Bulkhead::builder("db").threads(1));
    let fails = Arc::new(AtomicBool::new(true));
    let mut registry = client::registry::Registry::default();
    let requests = client::metrics::counter::Counter::<u64>::default();
    // Long enough that a part of the answer has been written when the collector fails.
    registry.register("requests", "Requests ".repeat(10_000), requests);
    registry.register_collector(Box::new(Broken(Arc::clone(&fails))));
    let server =
        Server::builder(&Metrics::of(&runtime)).registry(registry).serve("127.0.0.1:0").unwrap();
    let address = server.local_addr();
    assert_eq!(get(address, "/metrics").status, 500, "half an answer would look like a whole one");
    fails.store(false, Ordering::SeqCst);
    assert_eq!(get(address, "/metrics").status, 500);
    assert_eq!(get(address, "/snapshot.json").status, 200);
}

#[test]
fn a_client_may_stay_for_its_limit() {
    let (runtime, _bulkhead) = build(Bulkhead::builder("db").threads(1));
    let server = Server::builder(&Metrics::of(&runtime))
        .client_limit(Duration::from_millis(50))
        .serve("127.0.0.1:0")
        .unwrap();
    let silent = connect(server.local_addr());
    let mut slow = connect(server.local_addr());
    slow.write_all(b"GET /metr").unwrap();
    assert!(is_closed(&silent) && is_closed(&slow));
}

#[test]
fn the_slowest_client_goes_when_there_are_too_many() {
    let (runtime, _bulkhead) = build(Bulkhead::builder("db").threads(1));
    let server = Server::builder(&Metrics::of(&runtime))
        .clients(2)
        .client_limit(Duration::MAX)
        .serve("127.0.0.1:0")
        .unwrap();
    let address = server.local_addr();
    let slowest = connect(address);
    let mut other = connect(address);
    assert_eq!(get(address, "/livez").status, 200);
    assert!(is_closed(&slowest));
    // The place that the third one leaves is enough for a fourth.
    assert_eq!(get(address, "/livez").status, 200);
    other.write_all(b"GET /livez HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let mut text = String::new();
    other.read_to_string(&mut text).unwrap();
    assert_eq!(Answer::of(&text).status, 200, "one that there was room for");
}

/// The server's process in a child, so that its threads can be counted.
#[test]
#[cfg(target_os = "linux")]
fn a_thousand_hostile_clients_keep_nobody_out_and_cost_two_threads() {
    const TEST: &str =
        "metrics::server::a_thousand_hostile_clients_keep_nobody_out_and_cost_two_threads";
    if part().is_some() {
        return hold_out();
    }
    let output = ends("the server and its clients", child(TEST, "server"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[cfg(target_os = "linux")]
fn hold_out() {
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let (runtime, bulkhead) = build(Bulkhead::builder("db").threads(2).queue(0));
    let (before, gate) = (threads(), Gate::new());
    let held = hold(&bulkhead, &gate, 2);
    let server = serve("127.0.0.1:0", &Metrics::of(&runtime)).unwrap();
    let address = server.local_addr();
    // The files that this process may have open, less some for everything else.
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let files: usize = files.split_whitespace().nth(3).unwrap().parse().unwrap_or(usize::MAX);
    let most = 1_000.min(files.saturating_sub(200));

    let mut hostile: Vec<TcpStream> = Vec::new();
    for one in 0..most {
        let mut stream = connect(address);
        // A write may fail: the server sends away whoever is too slow.
        let _ = match one % 5 {
            // Says nothing.
            0 => Ok(()),
            // A byte now, and none after.
            1 => stream.write_all(b"G"),
            // A head without an end.
            2 => stream.write_all(b"GET /metrics HTTP/1.1\r\nX-Long: aaaaaaaaaaaaaaaaaaaaa"),
            // A head that is far too large.
            3 => huge(&mut stream),
            // Asks for much, again and again, and reads none of it.
            _ => stream.write_all(&b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n".repeat(100)),
        };
        if one % 7 == 0 {
            let _ = stream.shutdown(Shutdown::Write);
        }
        hostile.push(stream);
        if one % 50 == 0 {
            for path in ["/livez", "/readyz", "/metrics"] {
                assert_eq!(get(address, path).status, 200, "{path} among {one}");
            }
        }
    }
    assert_eq!(threads(), before + 2);
    let json = get(address, "/snapshot.json");
    let json: serde_json::Value = serde_json::from_str(&json.body).unwrap();
    assert_eq!(json["bulkheads"][0]["running"], 2);
    drop(hostile);
    assert_eq!(get(address, "/livez").status, 200);
    within("the server stops", move || server.shutdown());
    gate.open();
    drop(held);
}

#[cfg(target_os = "linux")]
fn huge(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(b"GET /metrics HTTP/1.1\r\n")?;
    let line = format!("X-Huge: {}\r\n", "a".repeat(1_000));
    (0..64).try_for_each(|_| stream.write_all(line.as_bytes()))
}

#[test]
fn a_head_that_is_too_large_is_refused_and_one_that_is_cut_gets_nothing() {
    let (runtime, _bulkhead) = build(Bulkhead::builder("db").threads(1));
    let server = serve("127.0.0.1:0", &Metrics::of(&runtime)).unwrap();
    let address = server.local_addr();
    let mut large = connect(address);
    let head = format!("GET /livez HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(64 * 1024));
    // It may be refused before all of it is written.
    let _ = large.write_all(head.as_bytes());
    let mut text = Vec::new();
    let _ = large.read_to_end(&mut text);
    assert!(text.is_empty() || text.starts_with(b"HTTP/1.1 431"), "{text:?}");

    let mut cut = connect(address);
    cut.write_all(b"GET /livez HTTP/1.1\r\nHos").unwrap();
    cut.shutdown(Shutdown::Write).unwrap();
    assert!(is_closed(&cut));

    // Who has asked may close its half.
    let mut half = connect(address);
    half.write_all(b"GET /livez HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    half.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    half.read_to_string(&mut text).unwrap();
    assert_eq!(Answer::of(&text).status, 200);
    assert_eq!(exchange(address, "nonsense\r\n\r\n").status, 400);
}
