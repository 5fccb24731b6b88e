//! HTTP clients against servers that are well, slow, silent, hostile, and gone.

mod hung;
mod names;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ureq::Agent;
use watertight::http::{Client, Fault, fault};
use watertight::{Bulkhead, CallError, Context, Deadline, Flatten, Rejection, Runtime};

use crate::support::{Gate, WATCHDOG, eventually, within};

/// A server that hands every connection to `serve`, each on a thread of its own.
struct Server(SocketAddr);

impl Server {
    fn new(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serve = Arc::new(serve);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let serve = Arc::clone(&serve);
                thread::spawn(move || serve(stream));
            }
        });
        Self(address)
    }

    /// Answers every request with `response`, on as many requests as come.
    fn answering(response: impl Into<String>) -> Self {
        let response = response.into();
        Self::new(move |mut stream| {
            while read_request(&mut stream) {
                if stream.write_all(response.as_bytes()).is_err() {
                    return;
                }
            }
        })
    }

    /// Reads the request, writes `start`, and is silent from then on.
    fn silent_after(start: &'static str) -> Self {
        Self::new(move |mut stream| {
            if read_request(&mut stream) {
                let _ = stream.write_all(start.as_bytes());
                let _ = stream.read(&mut [0]);
            }
        })
    }

    fn url(&self) -> String {
        format!("http://{}/", self.0)
    }
}

/// Says whether there was one.
fn read_request(stream: &mut TcpStream) -> bool {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => seen.push(byte[0]),
            _ => return false,
        }
    }
    true
}

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn build(threads: usize) -> (Runtime, Bulkhead, Client) {
    let runtime = Runtime::builder()
        .bulkhead(Bulkhead::builder("http").threads(threads).queue(16).no_deadline())
        .build()
        .unwrap();
    let bulkhead = runtime.bulkhead("http").unwrap();
    let client = Client::builder().build(&bulkhead).unwrap();
    (runtime, bulkhead, client)
}

fn get(client: &Client, url: String) -> Result<String, CallError<ureq::Error>> {
    client.call(move |agent, _| agent.get(url).call()?.body_mut().read_to_string()).flat()
}

fn get_within(
    client: &Client,
    url: String,
    limit: Duration,
) -> Result<String, CallError<ureq::Error>> {
    let fetch = move |agent: &ureq::Agent, _: &watertight::Context<'_>| {
        agent.get(url).call()?.body_mut().read_to_string()
    };
    client.call_until(Deadline::after(limit), fetch).flat()
}

#[test]
fn a_request_runs_on_the_bulkhead_and_reads_its_body() {
    let (_runtime, bulkhead, client) = build(2);
    let server = Server::answering(HELLO);
    assert_eq!(get(&client, server.url()).unwrap(), "hello");
    assert_eq!(get_within(&client, server.url(), WATCHDOG).unwrap(), "hello");
    assert_eq!(bulkhead.snapshot().totals.returned, 2);
}

#[test]
fn a_deadline_frees_caller_and_thread_wherever_the_server_falls_silent() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhe";
    let servers = [
        ("accepts and says nothing", Server::silent_after("")),
        ("silent in the head", Server::silent_after("HTTP/1.1 200 OK\r\nX-")),
        ("silent in the body", Server::silent_after(head)),
        (
            "silent in a body that ends with the connection",
            Server::silent_after("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhe"),
        ),
        (
            "a byte at a time",
            Server::new(|mut stream| {
                read_request(&mut stream);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX-Slow: ");
                while stream.write_all(b"x").is_ok() {
                    thread::sleep(Duration::from_millis(5));
                }
            }),
        ),
        (
            "a body of a byte at a time",
            Server::new(|mut stream| {
                read_request(&mut stream);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n");
                while stream.write_all(b"x").is_ok() {
                    thread::sleep(Duration::from_millis(5));
                }
            }),
        ),
    ];
    let well = Server::answering(HELLO);
    for (what, server) in servers {
        let (runtime, bulkhead, client) = build(1);
        let url = server.url();
        let (caller, limit) = (client.clone(), Duration::from_millis(100));
        let error = within(what, move || get_within(&caller, url, limit)).unwrap_err();
        // Ours, or ureq's own timeout a moment before.
        let timed_out = matches!(
            error,
            CallError::TimedOut(_)
                | CallError::Failed(ureq::Error::Timeout(_) | ureq::Error::Io(_))
        );
        // On a busy machine the time may be up before there is a thread for it.
        assert!(timed_out || error.never_started(), "{what}: {error:?}");
        eventually(what, || bulkhead.snapshot().running == 0);
        assert_eq!(get(&client, well.url()).unwrap(), "hello", "{what}: the thread serves again");
        assert!(runtime.shutdown(WATCHDOG).unwrap().is_clean(), "{what}");
    }
}

#[test]
fn cancelling_frees_the_thread_and_a_cut_off_body_is_no_success() {
    let close = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf of the bod";
    for start in ["", close] {
        let (_runtime, bulkhead, client) = build(1);
        let (started, url) = (Gate::new(), Server::silent_after(start).url());
        let inside = started.clone();
        started.open();
        let job = client.submit(move |agent, _| {
            inside.pass();
            agent.get(url).call()?.body_mut().read_to_string()
        });
        let job = job.map_err(|refused| refused.reason()).unwrap();
        started.wait_for(1);
        // Somewhere in the request: before it is sent, or waiting for an answer.
        thread::yield_now();
        job.cancel();
        let answer = within("the job", move || job.join().unwrap());
        assert!(answer.is_err(), "{answer:?}");
        assert_eq!(bulkhead.snapshot().overdue, 0);
        assert_eq!(get(&client, Server::answering(HELLO).url()).unwrap(), "hello");
    }
}

#[test]
fn a_late_abort_never_hits_another_job_s_request() {
    let (_runtime, _bulkhead, client) = build(2);
    let server = Server::answering(HELLO);
    for round in 0..2_000_u32 {
        let (one, url) = (server.url(), server.url());
        let job = client.submit(move |agent, _| agent.get(one).call().is_ok());
        let job = job.map_err(|refused| refused.reason()).unwrap();
        let other = client.clone();
        let neighbour = thread::spawn(move || get(&other, url));
        for _ in 0..round % 50 {
            std::hint::spin_loop();
        }
        job.cancel();
        assert_eq!(neighbour.join().unwrap().unwrap(), "hello", "round {round}");
        let _ = job.join();
        assert_eq!(get(&client, server.url()).unwrap(), "hello", "round {round}");
    }
}

#[test]
fn a_reset_is_an_error_and_a_response_too_long_is_one() {
    let (_runtime, bulkhead, client) = build(1);
    let reset = Server::new(|mut stream| {
        read_request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhe");
    });
    assert!(matches!(get(&client, reset.url()), Err(CallError::Failed(_))));
    let small = Client::builder().max_response(1_000).build(&bulkhead).unwrap();
    let long = format!("HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n{}", "x".repeat(50_000));
    let long = Server::answering(long);
    match get(&small, long.url()) {
        Err(CallError::Failed(ureq::Error::BodyExceedsLimit(1_000))) => {}
        // ureq wraps what a body's reader says.
        Err(CallError::Failed(error)) => assert!(error.to_string().contains("1000"), "{error}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(get(&client, long.url()).unwrap().len(), 50_000);
}

#[test]
fn a_response_is_read_inside_its_job_or_not_at_all() {
    let (_runtime, _bulkhead, client) = build(1);
    let long = format!("HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n{}", "x".repeat(300_000));
    let url = Server::answering(long).url();
    let mut response = client.call(move |agent, _| agent.get(url).call()).flat().unwrap();
    let error = response.body_mut().read_to_string().unwrap_err();
    assert!(error.to_string().contains("inside the closure"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn no_request_has_a_thread_of_its_own_and_none_outlives_the_client() {
    let names = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let comm = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
        tasks.filter_map(|task| comm(task.ok()?)).filter(|name| name.starts_with("wt-bare")).count()
    };
    let runtime =
        Runtime::builder().bulkhead(Bulkhead::builder("bare").threads(2)).build().unwrap();
    let bulkhead = runtime.bulkhead("bare").unwrap();
    assert_eq!(names(), 3, "two workers and the timekeeper");
    let server = Server::answering(HELLO);
    for _ in 0..20 {
        let client = Client::builder().build(&bulkhead).unwrap();
        assert_eq!(get_within(&client, server.url(), WATCHDOG).unwrap(), "hello");
        eventually("two look names up", || names() <= 5);
    }
    eventually("they are gone with their clients", || names() == 3);
    drop(runtime);
    eventually("all are gone", || names() == 0);
}

#[test]
fn who_is_at_fault_is_said_and_when_to_come_back() {
    let (_runtime, bulkhead, _) = build(1);
    let client = Client::builder().status_as_error(false).build(&bulkhead).unwrap();
    let of = |status: &str| {
        let url =
            Server::answering(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n")).url();
        client.call(move |agent, _| fault(&agent.get(url).call())).unwrap()
    };
    assert_eq!(of("200 OK"), None);
    assert_eq!(of("404 Not Found"), Some(Fault::Caller));
    assert_eq!(of("500 Oh"), Some(Fault::Failure));
    assert_eq!(of("429 Slow"), Some(Fault::Overload { retry_after: None }));
    let later = Some(Duration::from_secs(7));
    assert_eq!(of("503 No\r\nRetry-After: 7"), Some(Fault::Overload { retry_after: later }));
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = client.call(move |agent, _| fault(&agent.get(format!("http://{gone}/")).call()));
    assert_eq!(refused.unwrap(), Some(Fault::Failure));
}

#[test]
fn a_client_of_a_runtime_that_is_gone_refuses() {
    let (runtime, bulkhead, client) = build(1);
    drop(runtime);
    let error = get(&client, "http://127.0.0.1:1/".to_owned()).unwrap_err();
    assert_eq!(error.rejection(), Some(Rejection::ShuttingDown));
    let late = Client::builder().build(&bulkhead).unwrap();
    assert_eq!(
        get(&late, "http://127.0.0.1:1/".to_owned()).unwrap_err().rejection(),
        Some(Rejection::ShuttingDown),
    );
}

#[test]
fn a_refused_request_comes_back_as_it_was_given() {
    fn is_the_caller_s<F: FnOnce(&Agent, &Context<'_>) -> u8>(job: F) -> F {
        job
    }
    let (runtime, _bulkhead, client) = build(1);
    runtime.shutdown(Duration::ZERO).unwrap();
    let refused = client.submit(|_, _| 7).unwrap_err();
    assert_eq!(refused.reason(), Rejection::ShuttingDown);
    let _ = is_the_caller_s(refused.into_job());
}
