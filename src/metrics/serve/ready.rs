//! [`Requirements`]: whether the service is ready, as far as its bulkheads say.

use std::fmt::Write as _;
use std::time::Duration;

use super::answer::Answer;
use crate::metrics::Metrics;
use crate::time::Age;

/// What has to be in order.
#[derive(Debug)]
pub(super) struct Requirements {
    /// The names of bulkheads.
    pub(super) required: Vec<String>,
    /// How long one may be full without a break.
    pub(super) saturated_limit: Duration,
}

impl Requirements {
    /// Looks at the required bulkheads, and at no other.
    pub(super) fn check(&self, metrics: &Metrics) -> Answer {
        let runtimes = metrics.bulkheads();
        let mut problems = String::new();
        for name in &self.required {
            let mut bulkheads = runtimes.iter().flat_map(|bulkheads| bulkheads.iter());
            let bulkhead = bulkheads.find(|bulkhead| bulkhead.name() == name);
            let problem = match bulkhead {
                None => Some("is not there".to_owned()),
                Some(bulkhead) if !bulkhead.compartment().is_open() => {
                    Some("is shutting down".to_owned())
                }
                Some(bulkhead) => {
                    let full = bulkhead.snapshot().saturated_for;
                    let full = full.filter(|full| *full >= self.saturated_limit);
                    full.map(|full| format!("has been full for {}", Age(full)))
                }
            };
            if let Some(problem) = problem {
                // Writing to a `String` cannot fail.
                let _ = writeln!(problems, "bulkhead `{name}` {problem}");
            }
        }
        if problems.is_empty() {
            Answer::plain(200, "ready\n")
        } else {
            Answer::plain(503, problems)
        }
    }
}
