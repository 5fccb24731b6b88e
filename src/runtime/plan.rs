//! [`Plan`]: what was decided before the first thread was started.

use std::collections::{HashMap, HashSet};

use crate::compartment::{Pinning, Scheduling};

/// What a runtime was built as: threads, their names, cores, and the system's limits that it was
/// checked against. See [`Runtime::plan`](crate::Runtime::plan).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Plan {
    /// Each bulkhead's part, in the order of the builder.
    pub bulkheads: Vec<BulkheadPlan>,
    /// The cores that the process may use; `None` where the system does not say.
    pub allowed_cores: Option<Vec<usize>>,
    /// The container's CPU quota, in cores; `None` without one.
    pub cpu_quota: Option<f64>,
    /// How many threads the system lets the process start; `None` where it does not say.
    pub thread_limit: Option<u64>,
    /// All threads of the runtime, timekeepers included.
    pub threads: usize,
    /// What is allowed but unlikely to be meant, one sentence each.
    pub warnings: Vec<String>,
}

/// One bulkhead's part of a [`Plan`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BulkheadPlan {
    /// The bulkhead's name.
    pub bulkhead: String,
    /// The names of its worker threads as the system shows them, then its timekeeper's.
    pub threads: Vec<String>,
    /// The cores that it has to itself; `None` if it asked for none.
    pub cores: Option<Vec<usize>>,
    /// What became of each worker's pinning.
    pub pinning: Vec<Pinning>,
    /// What became of each worker's niceness or background class.
    pub scheduling: Vec<Scheduling>,
}

/// What Linux shows of a thread's name.
const NAME_BYTES: usize = 15;

/// A short form of each bulkhead's name, such that `wt-<label>-<n>` fits what the system shows, for
/// the highest `n` of its threads, and no two bulkheads share one.
pub(super) fn labels(bulkheads: &[(&str, usize)]) -> Vec<String> {
    let mut labels: Vec<String> = Vec::with_capacity(bulkheads.len());
    let mut given = HashSet::with_capacity(bulkheads.len());
    // Where to go on for a label that was wanted before, or thousands of like names would take for
    // ever.
    let mut next_twins: HashMap<(&str, usize), usize> = HashMap::new();
    for (name, threads) in bulkheads {
        let digits = threads.saturating_sub(1).to_string().len();
        let room = NAME_BYTES.saturating_sub("wt--".len() + digits);
        let mut label = cut(name, room).to_owned();
        let twin = next_twins.entry((cut(name, room), room)).or_insert(2);
        while !given.insert(label.clone()) {
            let mark = format!("~{twin}");
            label = format!("{}{mark}", cut(name, room.saturating_sub(mark.len())));
            *twin += 1;
        }
        labels.push(label);
    }
    labels
}

fn cut(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(all(test, not(any(watertight_loom, watertight_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn labels_of_very_many_like_names_stay_apart_and_are_made_in_no_time() {
        let names: Vec<_> = (0..20_000).map(|tenant| format!("tenant-db-{tenant}")).collect();
        let wanted: Vec<_> = names.iter().map(|name| (&**name, 1)).collect();
        let labels = labels(&wanted);
        let different: HashSet<_> = labels.iter().collect();
        assert_eq!(different.len(), names.len());
        assert!(labels.iter().all(|label| format!("wt-{label}-0").len() <= NAME_BYTES));
    }

    #[test]
    fn labels_fit_keep_the_index_and_stay_apart() {
        let long = "recommendations-eu";
        let labels =
            labels(&[("db", 1), (long, 200), ("recommendations-us", 200), ("🦀🦀🦀🦀", 8)]);
        assert_eq!(labels, ["db", "recommen", "recomm~2", "🦀🦀"]);
        for label in &labels {
            assert!(format!("wt-{label}-199").len() <= NAME_BYTES);
        }
    }
}
