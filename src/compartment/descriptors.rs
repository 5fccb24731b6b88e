//! [`Descriptors`]: how many file descriptors the pools of a runtime have planned for.
#![cfg_attr(not(any(feature = "http", feature = "r2d2")), allow(dead_code))]

use super::Compartment;
use crate::error::{BuildError, BuildErrorKind};
use crate::sync::{Arc, Mutex};

/// What is left for all else: standard streams, listeners, files, and a few of the service's own.
const RESERVE: u64 = 32;

/// The sum over all bulkheads of a runtime.
#[derive(Debug, Default)]
pub(crate) struct Descriptors(Mutex<u64>);

/// The part of one client or pool, until it is dropped.
#[derive(Debug)]
pub(crate) struct PlannedDescriptors {
    of: Arc<Descriptors>,
    number: u64,
}

impl Drop for PlannedDescriptors {
    fn drop(&mut self) {
        *self.of.0.lock() -= self.number;
    }
}

impl Compartment {
    /// Plans for `connections` that take `each` descriptors, unless the process may not have them all
    /// open at once. `setting` is what their number depends on.
    pub(crate) fn plan_descriptors(
        &self,
        setting: &'static str,
        connections: usize,
        each: u64,
    ) -> Result<PlannedDescriptors, BuildError> {
        let number = each.saturating_mul(connections as u64);
        let limit = limit();
        let mut planned = self.descriptors.0.lock();
        let total = planned.saturating_add(number);
        match limit {
            Some(limit) if total.saturating_add(RESERVE) > limit => {
                let problem = format!(
                    "makes for {connections} connections, of {each} file descriptors each; with the \
                     runtime's other pools that is {total}, and {RESERVE} more are left to the rest \
                     of the process, but RLIMIT_NOFILE allows {limit}; lower it, or raise the limit \
                     (`ulimit -n`, or `LimitNOFILE=` of a systemd unit)"
                );
                let kind = BuildErrorKind::DescriptorLimit;
                Err(BuildError::new(kind, Some(self.name()), setting, problem))
            }
            _ => {
                *planned = total;
                Ok(PlannedDescriptors { of: Arc::clone(&self.descriptors), number })
            }
        }
    }
}

/// How many descriptors the process may have; `None` without a limit, or where it is not known.
fn limit() -> Option<u64> {
    #[cfg(target_os = "linux")]
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    #[cfg(not(target_os = "linux"))]
    let limit = None;
    limit
}
