//! Looking names up: in bounded number and time, shared, and given up with the job.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use watertight::CallError;
use watertight::http::Client;

use super::{HELLO, Server, build, get, get_within};
use crate::support::{Gate, WATCHDOG, eventually, within};

/// A name server that the test holds: it counts who asks, and answers when the gate is open.
fn held_names(address: SocketAddr) -> (Gate, Arc<AtomicUsize>, watertight::http::ClientBuilder) {
    let (gate, asked) = (Gate::new(), Arc::new(AtomicUsize::new(0)));
    let (inner, count) = (gate.clone(), Arc::clone(&asked));
    let builder = Client::builder().look_up(move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        inner.pass();
        Ok(vec![address])
    });
    (gate, asked, builder)
}

#[test]
fn a_dead_name_server_holds_two_threads_and_neither_callers_nor_workers() {
    let server = Server::answering(HELLO);
    let (runtime, bulkhead, _) = build(4);
    let (gate, asked, builder) = held_names(server.0);
    let client = builder.build(&bulkhead).unwrap();
    let url = format!("http://shop.internal:{}/", server.0.port());
    let mut errors = Vec::new();
    for number in 0..20 {
        let url = format!("http://shop{number}.internal:{}/", server.0.port());
        let caller = client.clone();
        let error = within("a caller", move || {
            get_within(&caller, url, Duration::from_millis(50)).unwrap_err()
        });
        errors.push(error.to_string());
        eventually("its thread is free", || bulkhead.snapshot().running == 0);
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2, "at most two look-ups: {errors:#?}");
    // A literal address needs nobody.
    assert_eq!(get(&client, server.url()).unwrap(), "hello");
    gate.open();
    eventually("it works again", || get(&client, url.clone()).is_ok());
    drop(client);
    assert!(runtime.shutdown(WATCHDOG).unwrap().is_clean());
}

#[test]
fn look_ups_that_the_system_does_not_give_up_are_in_the_shutdown_s_report() {
    let (runtime, bulkhead, _) = build(1);
    let (gate, _, builder) = held_names("127.0.0.1:1".parse().unwrap());
    let client = builder.build(&bulkhead).unwrap();
    let url = "http://shop.internal/".to_owned();
    assert!(get_within(&client, url, Duration::from_secs(1)).is_err());
    gate.wait_for(1);
    let report = within("shutdown", move || runtime.shutdown(Duration::ZERO).unwrap());
    assert!(!report.is_clean());
    assert!(report.helpers[0].thread.starts_with("wt-http-"), "{report}");
    assert!(report.to_string().contains("resolving a name"), "{report}");
    gate.open();
}

#[test]
fn addresses_that_worked_are_used_while_the_name_server_is_dead() {
    let server = Server::answering(HELLO);
    let (_runtime, bulkhead, _) = build(1);
    let dead = Arc::new(Mutex::new(false));
    let (is_dead, address) = (Arc::clone(&dead), server.0);
    let client = Client::builder()
        .dns_age(Duration::ZERO)
        .look_up(move |_, _| {
            if *is_dead.lock().unwrap() {
                Err(std::io::Error::other("no answer"))
            } else {
                Ok(vec![address])
            }
        })
        .build(&bulkhead)
        .unwrap();
    let url = "http://shop.internal/".to_owned();
    assert_eq!(get(&client, url.clone()).unwrap(), "hello");
    *dead.lock().unwrap() = true;
    assert_eq!(get(&client, url).unwrap(), "hello");
    let unknown = get(&client, "http://elsewhere.internal/".to_owned()).unwrap_err();
    assert!(matches!(unknown, CallError::Failed(_)), "{unknown:?}");
}

#[test]
fn jobs_that_ask_for_one_name_at_once_share_its_look_up() {
    let server = Server::answering(HELLO);
    let (_runtime, bulkhead, _) = build(6);
    let (gate, asked, builder) = held_names(server.0);
    let client = builder.build(&bulkhead).unwrap();
    let get = |agent: &ureq::Agent, _: &watertight::Context<'_>| {
        agent.get("http://shop.internal/").call()?.body_mut().read_to_string()
    };
    let jobs: Vec<_> = (0..6).map(|_| client.submit(get).unwrap()).collect();
    gate.wait_for(1);
    eventually("all run", || {
        bulkhead.snapshot().totals.returned > 0 || bulkhead.snapshot().running == 6
    });
    gate.open();
    for job in jobs {
        assert_eq!(within("a job", move || job.join()).unwrap().unwrap(), "hello");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1, "more threads than look-ups, and one name");
}

#[test]
fn a_job_that_waits_for_a_name_ends_when_it_is_cancelled() {
    let (runtime, bulkhead, _) = build(1);
    let (gate, _, builder) = held_names("127.0.0.1:1".parse().unwrap());
    let client = builder.build(&bulkhead).unwrap();
    let get = |agent: &ureq::Agent, _: &watertight::Context<'_>| {
        agent.get("http://shop.internal/").call().map(drop)
    };
    // Without a deadline: nothing but the cancel ends it.
    let job = client.submit(get).unwrap();
    gate.wait_for(1);
    assert!(!job.cancel(), "it runs");
    let error = within("the cancelled job", move || job.join()).unwrap().unwrap_err();
    assert!(error.to_string().contains("cancelled"), "{error}");
    // Nor does a shutdown wait for the name server longer than it says.
    let job = client.submit(get).unwrap();
    eventually("it runs", || bulkhead.snapshot().running == 1);
    within("shutdown", move || runtime.shutdown(Duration::ZERO).unwrap());
    assert!(within("the aborted job", move || job.join()).unwrap().is_err());
    gate.open();
}

#[test]
fn a_name_server_that_hangs_costs_no_job_the_addresses_that_worked() {
    let server = Server::answering(HELLO);
    let (_runtime, bulkhead, _) = build(2);
    let (gate, asked) = (Gate::new(), Arc::new(AtomicUsize::new(0)));
    let (hung, count, address) = (gate.clone(), Arc::clone(&asked), server.0);
    let client = Client::builder()
        .dns_age(Duration::ZERO)
        .look_up(move |_, _| {
            if count.fetch_add(1, Ordering::SeqCst) > 0 {
                hung.pass();
            }
            Ok(vec![address])
        })
        .build(&bulkhead)
        .unwrap();
    let url = || "http://shop.internal/".to_owned();
    assert_eq!(get(&client, url()).unwrap(), "hello");
    for _ in 0..3 {
        // The first finds out that there is no answer, and still has time for its request.
        assert_eq!(get_within(&client, url(), WATCHDOG).unwrap(), "hello");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2, "and one look-up hangs");
    gate.open();
}
