//! Whatever a builder is given, it answers with a runtime or with an error that names what is wrong:
//! no panic, no hang, nothing left behind. Run as a plain test it tries random input for about a second.
//! The fuzz target of the state machine stands beside its reference, in src/compartment/fuzz.rs.
#![cfg(not(any(watertight_loom, watertight_shuttle)))]

use std::time::Duration;

use bolero::TypeGenerator;
use watertight::{Bulkhead, RejectionPolicy, Runtime};

/// The numbers on which arithmetic breaks, or a small one.
#[derive(Debug, Clone, Copy, TypeGenerator)]
enum Number {
    Small(u8),
    Edge(u8),
    Any(u64),
}

impl Number {
    fn size(self) -> usize {
        usize::try_from(self.wide()).unwrap_or(usize::MAX)
    }

    /// Threads are really started, so that either few are asked for or too many.
    fn threads(self) -> usize {
        match self {
            Self::Small(n) => usize::from(n % 4),
            other => other.size().max(usize::MAX / 2),
        }
    }

    fn wide(self) -> u64 {
        const EDGES: [u64; 8] = [
            0,
            1,
            (1 << 30) - 1,
            1 << 30,
            (1 << 30) + 1,
            u32::MAX as u64 + 1,
            i64::MAX as u64,
            u64::MAX,
        ];
        match self {
            Self::Small(n) => u64::from(n),
            Self::Edge(n) => EDGES[usize::from(n) % EDGES.len()],
            Self::Any(n) => n,
        }
    }

    fn duration(self) -> Duration {
        match self {
            Self::Small(n) => Duration::from_millis(u64::from(n)),
            Self::Edge(n) if n % 3 == 0 => Duration::MAX,
            other => Duration::from_secs(other.wide()),
        }
    }
}

#[derive(Debug, Clone, Copy, TypeGenerator)]
enum Policy {
    Default,
    DropOldest,
    Wait(Number, Number),
}

#[derive(Debug, TypeGenerator)]
struct Description {
    name: String,
    threads: Number,
    queue: Option<Number>,
    policy: Policy,
    queue_limit: Option<Number>,
    call_limit: Option<Number>,
    cores: Option<Vec<Number>>,
    core_count: Option<Number>,
    refuse_late: bool,
}

#[test]
fn a_builder_answers_with_a_runtime_or_an_error_that_names_the_setting() {
    bolero::check!().with_type::<Vec<Description>>().for_each(|descriptions| {
        let mut builder = Runtime::builder().drop_wait(Duration::ZERO);
        for one in descriptions.iter().take(3) {
            let mut bulkhead = Bulkhead::builder(one.name.as_str())
                .threads(one.threads.threads())
                .refuse_late(one.refuse_late);
            if let Some(queue) = one.queue {
                bulkhead = bulkhead.queue(queue.size());
            }
            bulkhead = match one.policy {
                Policy::Default => bulkhead,
                Policy::DropOldest => bulkhead.rejection(RejectionPolicy::DropOldest),
                Policy::Wait(at_most, submitters) => bulkhead.rejection(RejectionPolicy::Wait {
                    at_most: at_most.duration(),
                    submitters: submitters.size(),
                }),
            };
            if let Some(limit) = one.queue_limit {
                bulkhead = bulkhead.queue_limit(limit.duration());
            }
            if let Some(limit) = one.call_limit {
                bulkhead = bulkhead.call_limit(limit.duration());
            }
            if let Some(cores) = &one.cores {
                bulkhead = bulkhead.cores(cores.iter().map(|core| core.size()));
            }
            if let Some(count) = one.core_count {
                bulkhead = bulkhead.core_count(count.size());
            }
            builder = builder.bulkhead(bulkhead);
        }
        match builder.build() {
            Ok(runtime) => {
                for bulkhead in runtime.bulkheads() {
                    let _ = bulkhead.footprint();
                    let job = bulkhead.submit(|_| 7).map_err(|refused| refused.reason());
                    // A queue limit of zero may end it; nothing else can.
                    if let Ok(job) = job {
                        let _ = job.join();
                    }
                }
            }
            Err(error) => {
                let said = error.to_string();
                assert!(said.contains(error.setting()), "{said}");
            }
        }
    });
}
