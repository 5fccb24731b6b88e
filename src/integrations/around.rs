//! Jobs that are the user's closure with something of ours around it.

use crate::bulkhead::{Bulkhead, JobHandle};
use crate::compartment::Context;
use crate::error::Rejected;
use crate::sync::{Arc, Mutex};
use crate::time::Deadline;

/// Submits `job`, to be run by `run`. A refusal hands back the job itself, and not ours around it.
pub(super) fn submit_around<F, T>(
    bulkhead: &Bulkhead,
    deadline: Deadline,
    job: F,
    run: impl FnOnce(F, &Context<'_>) -> T + Send + 'static,
) -> Result<JobHandle<T>, Rejected<F>>
where
    F: Send + 'static,
    T: Send + 'static,
{
    let job = Arc::new(Mutex::new(Some(job)));
    let inside = Arc::clone(&job);
    let around = move |context: &Context<'_>| {
        let job = take(&inside);
        drop(inside);
        run(job, context)
    };
    bulkhead.submit_until(deadline, around).map_err(|refused| refused.with_job(take(&job)))
}

fn take<F>(job: &Mutex<Option<F>>) -> F {
    // PANIC: a job is either run or refused, so this is asked once.
    job.lock().take().expect("a job's closure is taken once")
}
