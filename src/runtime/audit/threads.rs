//! Whose each thread is.

use std::collections::HashMap;

use super::AuditedThread;
use super::process::Task;
use crate::compartment::Thread;

/// The threads of the process: ours by the index of their bulkhead, then the foreign ones by name.
///
/// Ours are as they were `before` and `after` the system's were read.
pub(super) fn sort(
    bulkheads: &[&str],
    before: Vec<(usize, Thread)>,
    after: Vec<(usize, Thread)>,
    tasks: Option<Vec<Task>>,
) -> Vec<AuditedThread> {
    let mut found: Vec<(usize, AuditedThread)> = if let Some(tasks) = tasks {
        let known: Vec<_> = before.into_iter().chain(after).collect();
        attribute(bulkheads, &known, tasks)
    } else {
        let alive = after.into_iter().filter(|(_, thread)| !thread.gone);
        alive.map(|(index, thread)| (index, own(bulkheads, index, &thread))).collect()
    };
    found.sort_by(|(left, one), (right, other)| {
        let key = |index, one: &AuditedThread| (index, one.kind);
        let by_place = key(*left, one).cmp(&key(*right, other));
        by_place.then_with(|| (&one.name, one.tid).cmp(&(&other.name, other.tid)))
    });
    found.into_iter().map(|(_, thread)| thread).collect()
}

const FOREIGN: usize = usize::MAX;

fn own(bulkheads: &[&str], index: usize, thread: &Thread) -> AuditedThread {
    AuditedThread {
        bulkhead: Some(bulkheads[index].to_owned()),
        kind: Some(thread.kind),
        name: thread.name.clone(),
        tid: thread.tid,
        started_by: None,
    }
}

fn attribute(
    bulkheads: &[&str],
    known: &[(usize, Thread)],
    tasks: Vec<Task>,
) -> Vec<(usize, AuditedThread)> {
    let mut by_tid: HashMap<u32, &(usize, Thread)> = HashMap::new();
    // The living replace the dead: a number may have passed from one thread of ours to the next. And
    // what was seen later replaces what was seen before, so that who has gone meanwhile is gone.
    for is_gone in [true, false] {
        for one in known.iter().filter(|(_, thread)| thread.gone == is_gone) {
            by_tid.extend(one.1.tid.map(|tid| (tid, one)));
        }
    }
    let by_name: HashMap<&str, usize> =
        known.iter().map(|(index, thread)| (thread.name.as_str(), *index)).collect();
    let mut found = Vec::with_capacity(tasks.len());
    for Task { tid, name } in tasks {
        match by_tid.get(&tid) {
            Some((index, thread)) if !thread.gone => {
                found.push((*index, AuditedThread { name, ..own(bulkheads, *index, thread) }));
            }
            // On its way out.
            Some((_, thread)) if thread.name == name => {}
            _ => {
                let started_by = by_name.get(name.as_str());
                let started_by = started_by.map(|index| bulkheads[*index].to_owned());
                let (bulkhead, kind, tid) = (None, None, Some(tid));
                found.push((FOREIGN, AuditedThread { bulkhead, kind, name, tid, started_by }));
            }
        }
    }
    found
}

#[cfg(all(test, not(any(watertight_loom, watertight_shuttle))))]
mod tests {
    use super::*;
    use crate::compartment::{Pinning, ThreadKind};

    fn thread(name: &str, kind: ThreadKind, tid: u32, gone: bool) -> Thread {
        Thread { name: name.into(), kind, tid: Some(tid), pinning: Pinning::NotAsked, gone }
    }

    fn task(tid: u32, name: &str) -> Task {
        Task { tid, name: name.into() }
    }

    #[test]
    fn ours_come_by_bulkhead_and_kind_and_strangers_last_by_name() {
        let known = vec![
            (0, thread("wt-a-0", ThreadKind::Worker(0), 1, false)),
            (0, thread("wt-a-t", ThreadKind::Timekeeper, 2, false)),
            (1, thread("wt-b-10", ThreadKind::Worker(10), 3, false)),
            (1, thread("wt-b-9", ThreadKind::Worker(9), 4, false)),
            (1, thread("wt-b-c", ThreadKind::Helper, 5, false)),
        ];
        let tasks = [(9, "main"), (5, "wt-b-c"), (3, "wt-b-10"), (2, "wt-a-t"), (4, "wt-b-9")];
        let tasks: Vec<_> = tasks.into_iter().chain([(1, "wt-a-0"), (8, "io")]).collect();
        let tasks = tasks.into_iter().map(|(tid, name)| task(tid, name)).collect();
        let sorted = sort(&["a", "b"], Vec::new(), known, Some(tasks));
        let names: Vec<_> = sorted.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["wt-a-0", "wt-a-t", "wt-b-9", "wt-b-10", "wt-b-c", "io", "main"]);
        let foreign: Vec<_> = sorted.iter().map(|one| one.bulkhead.is_none()).collect();
        assert_eq!(foreign, [false, false, false, false, false, true, true]);
    }

    #[test]
    fn a_thread_that_goes_meanwhile_is_no_stranger_and_its_number_may_be_one_s() {
        let here = vec![(0, thread("wt-a-d", ThreadKind::Helper, 7, false))];
        let gone = vec![(0, thread("wt-a-d", ThreadKind::Helper, 7, true))];
        let of = |name: &str, before: &[_], after: &[_]| {
            sort(&["a"], before.to_vec(), after.to_vec(), Some(vec![task(7, name)]))
        };
        assert_eq!(of("wt-a-d", &gone, &gone), []);
        let stranger = of("tokio", &gone, &gone);
        assert_eq!((stranger[0].bulkhead.as_deref(), stranger[0].tid), (None, Some(7)));
        // Not there any more when its number was read for the second time.
        assert_eq!(of("wt-a-d", &here, &gone).len(), 1);
        assert_eq!(of("wt-a-d", &here, &here)[0].bulkhead.as_deref(), Some("a"));
    }

    #[test]
    fn a_stranger_with_the_name_of_ours_was_started_by_it() {
        let known = vec![(0, thread("wt-a-0", ThreadKind::Worker(0), 1, false))];
        let tasks = vec![task(1, "wt-a-0"), task(2, "wt-a-0"), task(3, "main")];
        let sorted = sort(&["a"], Vec::new(), known, Some(tasks));
        let started_by: Vec<_> = sorted.iter().map(|one| one.started_by.as_deref()).collect();
        assert_eq!(started_by, [None, None, Some("a")]);
        assert_eq!(sorted[2].bulkhead, None);
    }

    #[test]
    fn where_the_system_says_nothing_ours_are_there_all_the_same() {
        let known = vec![
            (0, thread("wt-a-0", ThreadKind::Worker(0), 1, false)),
            (0, thread("wt-a-1", ThreadKind::Worker(1), 2, true)),
        ];
        let sorted = sort(&["a"], Vec::new(), known, None);
        assert_eq!(sorted.len(), 1);
        assert_eq!(sorted[0].name, "wt-a-0");
    }
}
