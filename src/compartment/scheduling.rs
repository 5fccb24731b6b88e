//! How much of the processor the present thread gets when others want it too.

#[cfg(target_os = "linux")]
use std::io;

/// What became of a worker's request to stand back, by a niceness or as background. A refusal never
/// costs the thread: it runs like any other.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scheduling {
    /// Its bulkhead asks for none.
    NotAsked,
    /// It is scheduled as asked.
    Applied,
    /// The system said no, and why.
    Denied(String),
    /// On this system watertight cannot set it for a thread.
    Unsupported,
}

/// What a bulkhead asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Precedence {
    Niceness(i32),
    #[cfg(feature = "background")]
    Background,
}

/// The niceness that Linux knows: the lower, the more of the processor.
pub(crate) const NICENESS: std::ops::RangeInclusive<i32> = -20..=19;

/// Has the present thread scheduled as asked.
#[cfg(target_os = "linux")]
pub(crate) fn schedule(wanted: Precedence) -> Scheduling {
    let outcome = match wanted {
        Precedence::Niceness(niceness) => {
            // POSIX speaks of processes; on Linux each thread has a niceness of its own.
            let me = rustix::thread::gettid();
            rustix::process::setpriority_process(Some(me), niceness).map_err(io::Error::from)
        }
        #[cfg(feature = "background")]
        Precedence::Background => idle_class(),
    };
    outcome.map_or_else(|error| Scheduling::Denied(error.to_string()), |()| Scheduling::Applied)
}

#[cfg(all(target_os = "linux", feature = "background"))]
fn idle_class() -> io::Result<()> {
    use thread_priority::{
        Error, NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
        set_thread_priority_and_policy, thread_native_id, thread_schedule_policy,
    };
    let class = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    let outcome = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, class);
    // It also sets the niceness, to 0, which a service that was started nice may not do. Within this
    // class niceness means next to nothing: what counts is the class.
    let is_in_it = || thread_schedule_policy().is_ok_and(|present| present == class);
    match outcome {
        Ok(()) => Ok(()),
        Err(_) if is_in_it() => Ok(()),
        Err(Error::OS(code)) => Err(io::Error::from_raw_os_error(code)),
        Err(other) => Err(io::Error::other(other)),
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn schedule(_wanted: Precedence) -> Scheduling {
    Scheduling::Unsupported
}
