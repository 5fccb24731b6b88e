//! HTTP servers that hang, behind a real network or by themselves: callers have their errors, threads and
//! sockets come back, and so does the service when the server does.
//!
//! What is left behind is counted in a process of its own.
#![cfg(target_os = "linux")]

use std::io::BufRead;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use watertight::http::Client;
use watertight::{Bulkhead, Runtime};

use super::{HELLO, Server, build, get_within};
use crate::outage::{
    FAULTS, Fault, FullBacklog, Proxy, endure, holdings, nothing_is_left, recovers, signal,
};
use crate::support::{WATCHDOG, child, ends, part};

/// Runs `body` in a child process.
fn alone(test: &str, body: impl FnOnce()) {
    if part().is_some() {
        return body();
    }
    let done = ends(test, child(&format!("http::hung::{test}"), "alone"));
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    println!("{said}");
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}/")
}

/// Through a fault and out of it again.
fn stands(what: &str, bulkhead: &Bulkhead, client: &Client, at: SocketAddr) {
    let caller = client.clone();
    endure(what, bulkhead, move |deadline| {
        caller
            .call_until(deadline, move |agent, _| {
                agent.get(url(at)).call()?.body_mut().read_to_string()
            })
            .map_err(|error| error.to_string())?
            .map_err(|error: ureq::Error| error.to_string())
    });
}

fn works_again(what: &str, client: &Client, at: SocketAddr) {
    recovers(what, || get_within(client, url(at), WATCHDOG));
}

fn ends_clean(what: &str, runtime: &Runtime) {
    let report = runtime.shutdown(WATCHDOG).unwrap();
    assert!(report.is_clean(), "{what}: {report}");
}

#[test]
fn a_network_that_fails_in_any_way_costs_no_more_than_the_call_s_time() {
    alone("a_network_that_fails_in_any_way_costs_no_more_than_the_call_s_time", || {
        let server = Server::answering(HELLO);
        let proxy = Proxy::new(server.0);
        let before = holdings();
        for fault in FAULTS {
            for warm in [false, true] {
                let kept = if warm { "on a kept connection" } else { "at first" };
                let what = format!("{fault:?}, {kept}");
                let (runtime, bulkhead, client) = build(2);
                if warm {
                    works_again(&what, &client, proxy.address);
                }
                proxy.set(fault);
                stands(&what, &bulkhead, &client, proxy.address);
                stands(&what, &bulkhead, &client, proxy.address);
                proxy.set(Fault::None);
                works_again(&what, &client, proxy.address);
                ends_clean(&what, &runtime);
                drop(client);
                nothing_is_left(&what, before);
            }
        }
        let full = FullBacklog::new();
        let (runtime, bulkhead, client) = build(2);
        let at = full.address;
        stands("a full backlog", &bulkhead, &client, at);
        let _proxy = full.relieve(server.0);
        works_again("a full backlog", &client, at);
        ends_clean("a full backlog", &runtime);
    });
}

#[test]
fn a_server_process_that_is_stopped_costs_the_call_s_time_and_serves_again_when_it_goes_on() {
    const TEST: &str =
        "a_server_process_that_is_stopped_costs_the_call_s_time_and_serves_again_when_it_goes_on";
    if part().is_some() {
        let server = Server::answering(HELLO);
        println!("at {}", server.0);
        // Until the test has no more use for it.
        let _ = std::io::stdin().read_line(&mut String::new());
        return;
    }
    let mut command = child(&format!("http::hung::{TEST}"), "server");
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = std::io::BufReader::new(process.stdout.take().unwrap()).lines();
    let at = said.find_map(|line| line.unwrap().rsplit_once("at ").map(|(_, at)| at.parse()));
    let at: SocketAddr = at.unwrap().unwrap();
    let (runtime, bulkhead, client) = build(2);
    for warm in [false, true] {
        let what = if warm { "stopped in between" } else { "stopped" };
        signal("-STOP", &[process.id()]);
        stands(what, &bulkhead, &client, at);
        stands(what, &bulkhead, &client, at);
        signal("-CONT", &[process.id()]);
        works_again(what, &client, at);
    }
    ends_clean("stopped", &runtime);
    drop(process.stdin.take());
    assert!(process.wait().unwrap().success());
}

#[test]
fn a_port_where_nobody_listens_is_an_error_long_before_the_deadline() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = gone.local_addr().unwrap();
    drop(gone);
    let (_runtime, bulkhead, client) = build(1);
    endure("nobody listens", &bulkhead, move |_| {
        get_within(&client, url(at), Duration::from_secs(60)).map_err(|error| error.to_string())
    });
}
