//! Pinning the present thread to cores, and reading which cores there are.

use std::io;

use crate::sync::Arc;

/// What became of a thread's request for cores. A refusal never costs the thread: it runs unpinned.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pinning {
    /// Its bulkhead asks for no cores.
    NotAsked,
    /// It runs on these cores only. Off Linux it is one core of the bulkhead's.
    Applied(Arc<[usize]>),
    /// The system said no, and why.
    Denied(String),
    /// This system cannot pin threads.
    Unsupported,
}

/// The highest core id that Linux's fixed-size mask holds, and so the highest that may be named.
pub(crate) const HIGHEST_CORE: usize = 1023;

/// The cores that the process may use, in ascending order; `None` where the system cannot say.
///
/// On Linux this is the mask of the process's main thread, not of the calling one: a runtime that is
/// built on a pinned thread still sees what the process has.
#[cfg(target_os = "linux")]
pub(crate) fn allowed_cores() -> io::Result<Option<Vec<usize>>> {
    let set = rustix::thread::sched_getaffinity(Some(rustix::process::getpid()))?;
    Ok(Some((0..=HIGHEST_CORE).filter(|core| set.is_set(*core)).collect()))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn allowed_cores() -> io::Result<Option<Vec<usize>>> {
    Ok(core_affinity::get_core_ids().map(|ids| {
        let mut cores: Vec<usize> = ids.into_iter().map(|core| core.id).collect();
        cores.sort_unstable();
        cores
    }))
}

/// Gives the present thread, the `worker`-th of its bulkhead, all the cores of the bulkhead.
#[cfg(target_os = "linux")]
pub(crate) fn pin(cores: &Arc<[usize]>, _worker: usize) -> Pinning {
    let mut set = rustix::thread::CpuSet::new();
    for core in cores.iter() {
        set.set(*core);
    }
    match rustix::thread::sched_setaffinity(None, &set) {
        Ok(()) => Pinning::Applied(Arc::clone(cores)),
        Err(errno) => Pinning::Denied(io::Error::from(errno).to_string()),
    }
}

/// Gives the present thread one of the bulkhead's cores, in turn: these systems know no sets.
#[cfg(not(target_os = "linux"))]
pub(crate) fn pin(cores: &Arc<[usize]>, worker: usize) -> Pinning {
    let Some(&id) = cores.get(worker % cores.len().max(1)) else {
        return Pinning::NotAsked;
    };
    if core_affinity::set_for_current(core_affinity::CoreId { id }) {
        Pinning::Applied([id].into())
    } else if cfg!(any(target_os = "macos", windows, target_os = "freebsd")) {
        Pinning::Denied(format!("the system refused core {id}"))
    } else {
        Pinning::Unsupported
    }
}
