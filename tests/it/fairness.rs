//! Fairness, shown: who waits is served in the order of arrival, and nobody twice before another once.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use watertight::{Bulkhead, Context, RejectionPolicy, Runtime};

use crate::support::{block_on, eventually, within};

const SUBMITTERS: usize = 16;
const LAPS: usize = 40;

/// Eight threads and eight futures take turns at one thread. Each job waits until everybody else
/// stands in line, so there is always load, and arrivals come one at a time and can be written down.
#[test]
fn between_two_services_of_one_waiter_every_other_is_served_exactly_once() {
    let runtime = Runtime::builder()
        .bulkhead(
            Bulkhead::builder("turns")
                .threads(1)
                .queue(0)
                .rejection(RejectionPolicy::Wait { at_most: Duration::MAX, submitters: SUBMITTERS })
                .no_deadline(),
        )
        .build()
        .unwrap();
    let bulkhead = runtime.bulkhead("turns").unwrap();
    let arrived = Arc::new(Mutex::new(Vec::new()));
    let served = Arc::new(Mutex::new(Vec::new()));
    let over = Arc::new(AtomicBool::new(false));

    // The first one is held until the other fifteen have come, one after the other.
    let submitters: Vec<_> = (0..SUBMITTERS)
        .map(|number| {
            let (caller, arrived) = (bulkhead.clone(), Arc::clone(&arrived));
            let (served, over) = (Arc::clone(&served), Arc::clone(&over));
            let submitter = thread::spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    let (bulkhead, served) = (caller.clone(), Arc::clone(&served));
                    let over = Arc::clone(&over);
                    let job = move |_: &Context<'_>| {
                        let mut served = served.lock().unwrap();
                        served.push(number);
                        if served.len() == SUBMITTERS * LAPS {
                            over.store(true, Ordering::SeqCst);
                        }
                        drop(served);
                        eventually("all others stand in line", || {
                            over.load(Ordering::SeqCst)
                                || bulkhead.snapshot().waiting == SUBMITTERS - 1
                        });
                    };
                    arrived.lock().unwrap().push(number);
                    if number % 2 == 0 {
                        caller.call(job).unwrap();
                    } else {
                        block_on(caller.call_async(job)).unwrap();
                    }
                }
            });
            eventually("it has come", || {
                let now = bulkhead.snapshot();
                now.running + now.queued + now.waiting == number + 1
            });
            submitter
        })
        .collect();
    for submitter in submitters {
        within("a submitter", move || submitter.join().unwrap());
    }

    let (arrived, served) = (arrived.lock().unwrap(), served.lock().unwrap());
    let full = SUBMITTERS * LAPS;
    assert_eq!(arrived[..full], served[..full], "first come, first served");
    for (start, turn) in served[..full].windows(SUBMITTERS).enumerate() {
        let different: BTreeSet<_> = turn.iter().collect();
        assert_eq!(different.len(), SUBMITTERS, "from service {start} on: {turn:?}");
    }
}
