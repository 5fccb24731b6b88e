//! What a person reads: the numbers of a bulkhead, and the report of a shutdown.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use watertight::{Bulkhead, Clock, Deadline, ManualClock, RejectionPolicy, Runtime};

use crate::support::{Gate, eventually, hold};

#[test]
fn a_person_can_read_the_numbers_of_a_bulkhead() {
    let clock = Arc::new(ManualClock::new());
    let runtime = Runtime::builder()
        .clock(Arc::clone(&clock))
        .bulkhead(Bulkhead::builder("reviews").threads(2).queue(1))
        .build()
        .unwrap();
    let reviews = runtime.bulkhead("reviews").unwrap();
    let idle = "reviews: 0 of 2 threads running, 0 of 1 queued; 0 arrived, 0 accepted, 0 refused";
    assert_eq!(reviews.snapshot().to_string(), idle);
    assert!(format!("{:#}", reviews.snapshot()).contains("waits    none yet"));

    let gate = Gate::new();
    let late = {
        let (gate, soon) = (gate.clone(), Deadline::at(clock.now() + Duration::from_secs(1)));
        reviews.submit_until(soon, move |_| gate.pass()).unwrap()
    };
    let held = hold(&reviews, &gate, 1);
    gate.wait_for(2);
    clock.advance(Duration::from_secs(125));
    assert!(late.join().is_err());
    let queued = reviews.submit(|_| ()).unwrap();
    for _ in 0..3 {
        assert!(reviews.submit(|_| ()).is_err());
    }
    clock.advance(Duration::from_millis(1_250));
    assert_eq!(
        reviews.snapshot().to_string(),
        "reviews: full for 1.2s, 2 of 2 threads running, 1 overdue, oldest runs for 2m 06s, \
         1 of 1 queued, oldest queued for 1.2s; 6 arrived, 3 accepted, 3 refused (queue_full 3)"
    );
    gate.open();
    for job in held {
        job.join().unwrap();
    }
    queued.join().unwrap();
    eventually("at rest", || reviews.snapshot().totals.ended() == 3);
    assert_eq!(
        format!("{:#}", reviews.snapshot()),
        "reviews\n  \
         now      0 of 2 threads running, 0 of 1 queued\n  \
         peaks    2 running, 1 queued, 0 waiting, lately\n  \
         arrived  6: 3 accepted, 3 refused (queue_full 3)\n  \
         ended    3 (returned 3); 1 after its caller had left\n  \
         waits    half within 100us, 99 % within 2.5s, 3 in all\n  \
         runs     half up to more than 30.0s, 99 % up to more than 30.0s, 3 in all\n  \
         in all   busy for 4m 12s, full for 1.2s"
    );
}

#[test]
fn a_person_can_read_the_report_of_a_shutdown() {
    let clock = Arc::new(ManualClock::new());
    let runtime = Runtime::builder()
        .clock(Arc::clone(&clock))
        .bulkhead(Bulkhead::builder("db").threads(1).queue(2))
        .bulkhead(Bulkhead::builder("mail").threads(1))
        .build()
        .unwrap();
    let (db, gate) = (runtime.bulkhead("db").unwrap(), Gate::new());
    let held = hold(&db, &gate, 1);
    gate.wait_for(1);
    let queued = [db.submit(|_| ()).unwrap(), db.submit(|_| ()).unwrap()];
    clock.advance(Duration::from_secs(192));
    let report = runtime.shutdown(Duration::ZERO).unwrap();
    assert_eq!(
        report.to_string(),
        "0 jobs finished, 2 ended unstarted, 1 thread is stuck:\n  \
         wt-db-0 of bulkhead `db`: its job has been running for 3m 12s\n  \
         unstarted in bulkhead `db`: 2, which had waited up to 3m 12s"
    );
    drop(queued);
    gate.open();
    for job in held {
        job.join().unwrap();
    }
    let clean = runtime.shutdown(Duration::from_secs(30)).unwrap();
    assert_eq!(clean.to_string(), "0 jobs finished, 0 ended unstarted, every thread is gone");
}

#[test]
fn an_error_says_the_value_of_the_limit_that_fired() {
    let clock = Arc::new(ManualClock::new());
    let patient = RejectionPolicy::Wait { at_most: Duration::from_millis(30), submitters: 1 };
    let stock = Bulkhead::builder("stock").threads(1).queue(1).rejection(patient);
    let runtime = Runtime::builder()
        .clock(Arc::clone(&clock))
        .bulkhead(
            stock.queue_limit(Duration::from_millis(50)).call_limit(Duration::from_millis(70)),
        )
        .build()
        .unwrap();
    let stock = runtime.bulkhead("stock").unwrap();
    let gate = Gate::new();
    let called = {
        let (stock, gate) = (stock.clone(), gate.clone());
        thread::spawn(move || stock.call(move |_| gate.pass()).unwrap_err().to_string())
    };
    gate.wait_for(1);
    let queued = stock.submit(|_| ()).unwrap();
    let waiter = {
        let stock = stock.clone();
        thread::spawn(move || stock.submit(|_| ()).unwrap_err().to_string())
    };
    eventually("somebody waits", || stock.snapshot().waiting == 1);
    clock.advance(Duration::from_millis(40));
    assert_eq!(
        waiter.join().unwrap(),
        "bulkhead `stock` refused the job: no place came free within 30ms, `at_most` of its \
         rejection policy; shed the call, or give it more `threads`"
    );
    clock.advance(Duration::from_millis(20));
    assert_eq!(
        queued.join().unwrap_err().to_string(),
        "bulkhead `stock` never started the job: it was not started within its `queue_limit` of \
         50ms (it was queued for 60.0ms)"
    );
    clock.advance(Duration::from_millis(20));
    assert_eq!(
        called.join().unwrap(),
        "the call limit passed while the job was running in bulkhead `stock` (its `call_limit` is \
         70ms, for calls that bring no deadline); its thread stays taken until the job returns"
    );
    gate.open();
}
