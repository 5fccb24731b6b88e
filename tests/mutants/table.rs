//! The seeded bugs. Each is one that somebody could write, in one line or two.

/// A bug, and what must notice it.
pub(crate) struct Mutant {
    /// What is wrong, as a sentence.
    pub(crate) name: &'static str,
    pub(crate) edits: &'static [Edit],
    pub(crate) suite: Suite,
    /// Tests of the suite that must go red, the most telling first. Others may, too.
    pub(crate) caught_by: &'static [&'static str],
}

/// A replacement of a text that stands once in its file.
pub(crate) struct Edit {
    pub(crate) file: &'static str,
    pub(crate) old: &'static str,
    pub(crate) new: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suite {
    /// The loom models, with loom's `Arc`.
    Models,
    /// The unit tests, which hold the state machine against its reference: for what only the order
    /// of jobs shows.
    Units,
}

const fn models(
    name: &'static str,
    edits: &'static [Edit],
    caught_by: &'static [&'static str],
) -> Mutant {
    Mutant { name, edits, suite: Suite::Models, caught_by }
}

const fn units(
    name: &'static str,
    edits: &'static [Edit],
    caught_by: &'static [&'static str],
) -> Mutant {
    Mutant { name, edits, suite: Suite::Units, caught_by }
}

const fn edit(file: &'static str, old: &'static str, new: &'static str) -> Edit {
    Edit { file, old, new }
}

const COMPARTMENT: &str = "src/compartment/mod.rs";
const CLOSING: &str = "src/compartment/closing.rs";
const LEAVING: &str = "src/compartment/leaving.rs";
const DELIVERY: &str = "src/compartment/delivery.rs";
const WORKER: &str = "src/compartment/worker.rs";
const TIMEKEEPER: &str = "src/compartment/timekeeper.rs";
const SLOT: &str = "src/compartment/slot.rs";
const JOB: &str = "src/compartment/job.rs";
const ABORT: &str = "src/compartment/abort.rs";
const STATE: &str = "src/compartment/state/mod.rs";
const ADMISSION: &str = "src/compartment/state/admission.rs";
const NUMBERS: &str = "src/compartment/state/numbers.rs";
const SERVICE: &str = "src/compartment/state/service.rs";
const DEPARTURE: &str = "src/compartment/state/departure.rs";
const HANDLE: &str = "src/bulkhead/handle.rs";
const FUTURE: &str = "src/bulkhead/future.rs";
const RUNTIME: &str = "src/runtime/mod.rs";

pub(crate) const MUTANTS: &[Mutant] = &[
    // ----- the answer and its caller -----
    models(
        "the answer is published and nobody is notified",
        &[edit(
            SLOT,
            "            other => other,\n        };\n        self.notify(state);",
            "            other => other,\n        };\n        drop(state);",
        )],
        &[
            "slot::a_future_is_woken_with_the_answer",
            "slot::a_join_that_times_out_loses_no_answer",
            "slot::a_joining_thread_is_woken_with_the_answer",
        ],
    ),
    models(
        "the caller is notified before the answer is there",
        &[edit(
            SLOT,
            "        let mut state = self.state.lock();\n        state.phase = match std::mem::replace(&mut state.phase, Phase::Spent) {\n            Phase::Settled(answer) => Phase::Done(answer),\n            other => other,\n        };\n        self.notify(state);",
            "        self.notify(self.state.lock());\n        let mut state = self.state.lock();\n        state.phase = match std::mem::replace(&mut state.phase, Phase::Spent) {\n            Phase::Settled(answer) => Phase::Done(answer),\n            other => other,\n        };",
        )],
        &[
            "work::a_caller_that_has_its_answer_can_submit_again",
            "door::two_blocked_callers_are_both_served",
            "slot::a_caller_leaves_or_receives_never_both",
        ],
    ),
    models(
        "a joining caller looks, unlocks, and then sleeps",
        &[edit(
            SLOT,
            "        state.blocked = true;\n",
            "        drop(state);\n        state = self.state.lock();\n        state.blocked = true;\n",
        )],
        &[
            "closing::closing_sends_waiting_callers_away",
            "door::a_displaced_job_s_caller_is_told",
            "door::two_blocked_callers_are_both_served",
        ],
    ),
    models(
        "a waker is stored after looking",
        &[edit(
            SLOT,
            "            other => {\n                state.phase = other;\n                Self::register(state, mine);",
            "            other => {\n                state.phase = other;\n                drop(state);\n                let state = self.state.lock();\n                Self::register(state, mine);",
        )],
        &["slot::a_future_is_woken_with_the_answer"],
    ),
    models(
        "a waker at the door is stored after looking",
        &[edit(
            SLOT,
            "            Phase::Pending if !state.granted => {\n                Self::register(state, mine);",
            "            Phase::Pending if !state.granted => {\n                drop(state);\n                let state = self.state.lock();\n                Self::register(state, mine);",
        )],
        &["door::a_thread_and_a_future_waiting_for_one_place_both_get_it"],
    ),
    models(
        "the answer of a caller who left is kept",
        &[edit(
            SLOT,
            "        if matches!(state.phase, Phase::Pending) {\n            state.phase = Phase::Settled(answer);",
            "        if true {\n            state.phase = Phase::Settled(answer);",
        )],
        &[
            "slot::a_caller_leaves_or_receives_never_both",
            "slot::a_detached_job_s_value_is_dropped_once",
            "timekeeper::an_overdue_job_keeps_its_slot",
        ],
    ),
    models(
        "a caller leaves while its answer is coming",
        &[edit(
            SLOT,
            "            if !matches!(state.phase, Phase::Settled(_)) {\n                return None;\n            }\n            (state, _) = self.sleep(state, None);",
            "            return None;",
        )],
        &["slot::a_caller_leaves_or_receives_never_both"],
    ),
    models(
        "the answer is seen before the slot is free",
        &[edit(WORKER, "        // FINISHING\n", "        job.publish();\n")],
        &[
            "work::a_caller_that_has_its_answer_can_submit_again",
            "work::a_panic_costs_neither_thread_nor_slot",
        ],
    ),
    models(
        "cancelling tells the caller before it has taken the job out",
        &[edit(
            HANDLE,
            "        let compartment = &self.bulkhead.compartment;\n        let unstarted =",
            "        let compartment = &self.bulkhead.compartment;\n        let _ = self.job().slot().finish(Err(self.bulkhead.timed_out()));\n        let unstarted =",
        )],
        &["work::a_cancelled_job_does_not_run_and_a_running_one_is_not_cancelled"],
    ),
    // ----- workers and their wake-ups -----
    models(
        "a job gets a slot and no sleeping worker is woken",
        &[edit(STATE, "            out.wake_workers += 1;", "")],
        &[
            "work::a_sleeping_worker_is_woken_for_a_job",
            "work::two_workers_share_two_jobs_and_both_leave",
            "door::two_blocked_callers_are_both_served",
        ],
    ),
    models(
        "a worker leaves a job behind that nobody else knows of",
        &[edit(
            SERVICE,
            "            if self.searching == 0 && !self.ready.is_empty() {",
            "            if false {",
        )],
        &["work::a_worker_that_leaves_a_job_behind_wakes_the_next"],
    ),
    models(
        "a wake-up is sent before it is counted",
        &[
            edit(DELIVERY, "        locked.wake_ups += mail.wake_workers;\n", ""),
            edit(
                DELIVERY,
                "        for _ in 0..mail.wake_workers {\n            self.work.notify_one();\n        }",
                "        for _ in 0..mail.wake_workers {\n            self.work.notify_one();\n        }\n        self.locked.lock().wake_ups += mail.wake_workers;",
            ),
        ],
        &[
            "closing::draining_runs_what_was_accepted",
            "closing::dropping_the_runtime_ends_its_threads",
            "door::two_blocked_callers_are_both_served",
        ],
    ),
    models(
        "a worker sleeps without being counted",
        &[edit(SERVICE, "        self.sleeping += 1;\n    }", "    }")],
        &[
            "work::a_sleeping_worker_is_woken_for_a_job",
            "work::two_workers_share_two_jobs_and_both_leave",
            "closing::draining_runs_what_was_accepted",
        ],
    ),
    models(
        "closing wakes one worker instead of all",
        &[edit(
            DEPARTURE,
            "        out.wake_workers += self.sleeping;",
            "        out.wake_workers += self.sleeping.min(1);",
        )],
        &["work::two_workers_share_two_jobs_and_both_leave"],
    ),
    models(
        "a wake-up is received twice",
        &[edit(WORKER, "            locked.wake_ups -= 1;", "")],
        &[
            "slot::a_caller_leaves_or_receives_never_both",
            "door::two_blocked_callers_are_both_served",
            "work::a_panic_costs_neither_thread_nor_slot",
        ],
    ),
    models(
        "a worker that wakes without a wake-up goes on",
        &[edit(
            WORKER,
            "            while locked.wake_ups == 0 {",
            "            if locked.wake_ups == 0 {",
        )],
        &["work::two_workers_share_two_jobs_and_both_leave"],
    ),
    models(
        "a worker leaves at closing before it has looked",
        &[edit(
            WORKER,
            "            let taken = locked.state.take(worker, searching, now, &mut mail);\n            searching = false;",
            "            let taken = if locked.state.may_leave() { None } else { locked.state.take(worker, searching, now, &mut mail) };\n            searching = false;",
        )],
        &["closing::draining_runs_what_was_accepted"],
    ),
    models(
        "a slot is free while its closure runs",
        &[
            edit(
                SERVICE,
                "            self.running[worker] = Some(Running { entry, started: now });",
                "            self.running[worker] = Some(Running { entry, started: now });\n            self.taken -= 1;",
            ),
            edit(SERVICE, "        self.taken -= 1;\n        let ran", "        let ran"),
            edit(
                NUMBERS,
                "(self.taken - self.ready.len(), self",
                "(self.taken.saturating_sub(self.ready.len()), self",
            ),
        ],
        &[
            "door::a_future_dropped_in_line_passes_its_turn_on",
            "door::a_newcomer_never_overtakes_a_waiter",
            "door::a_waiter_that_times_out_passes_its_turn_on",
        ],
    ),
    models(
        "a freed slot is not handed on",
        &[edit(
            SERVICE,
            "        self.expire(now, out);\n        self.fill(now, out);\n        self.note_levels(now, out);\n        self.note_end(out);\n        ran",
            "        self.expire(now, out);\n        self.note_levels(now, out);\n        self.note_end(out);\n        ran",
        )],
        &[
            "closing::draining_runs_what_was_accepted",
            "door::a_future_dropped_in_line_passes_its_turn_on",
            "door::a_newcomer_never_overtakes_a_waiter",
        ],
    ),
    models(
        "a panic keeps its slot",
        &[edit(
            SERVICE,
            "        self.taken -= 1;\n        let ran =",
            "        if outcome == Outcome::Returned {\n            self.taken -= 1;\n        }\n        let ran =",
        )],
        &["work::a_panic_costs_neither_thread_nor_slot"],
    ),
    models(
        "a panic takes its worker along",
        &[edit(
            JOB,
            "        match catch_unwind(AssertUnwindSafe(move || body(context))) {",
            "        match Ok::<T, Box<dyn std::any::Any + Send>>(body(context)) {",
        )],
        &["work::a_panic_costs_neither_thread_nor_slot"],
    ),
    // ----- the door -----
    models(
        "the word at the door is trusted under the lock",
        &[edit(ADMISSION, "        if self.has_vacancy() {\n", "        if true {\n")],
        &[
            "closing::closing_sends_waiting_callers_away",
            "door::a_displaced_job_s_caller_is_told",
            "door::a_future_dropped_in_line_passes_its_turn_on",
        ],
    ),
    models(
        "one job too many is let in",
        &[edit(
            ADMISSION,
            "self.lane.queue.len() < self.lane.capacity;",
            "self.lane.queue.len() <= self.lane.capacity;",
        )],
        &[
            "closing::closing_sends_waiting_callers_away",
            "door::a_displaced_job_s_caller_is_told",
            "door::a_future_dropped_in_line_passes_its_turn_on",
        ],
    ),
    models(
        "a job is let in after closing",
        &[edit(
            ADMISSION,
            "        if self.phase != Phase::Open {\n            return Admission",
            "        if false && self.phase != Phase::Open {\n            return Admission",
        )],
        &[
            "closing::a_submit_racing_close_is_refused_or_ended",
            "closing::closing_sends_waiting_callers_away",
        ],
    ),
    models(
        "a waiter is woken to compete for its place",
        &[edit(
            STATE,
            "            out.news.push(News::Granted(waiter.job.clone()));\n            self.accept(waiter, now, out);",
            "            out.news.push(News::Granted(waiter.job.clone()));\n            let _ = (waiter, now);",
        )],
        &[
            "door::a_newcomer_never_overtakes_a_waiter",
            "door::a_waiter_that_times_out_passes_its_turn_on",
            "door::two_blocked_callers_are_both_served",
        ],
    ),
    models(
        "a waiter gets a place and is not told",
        &[edit(
            DELIVERY,
            "                News::Granted(job) => job.grant(),",
            "                News::Granted(_) => {}",
        )],
        &[
            "door::a_cancelled_job_s_place_goes_to_the_waiter",
            "timekeeper::an_expired_job_s_place_goes_to_the_waiter",
            "door::a_newcomer_never_overtakes_a_waiter",
        ],
    ),
    models(
        "a newcomer takes the place before the waiter",
        &[
            edit(
                SERVICE,
                "        self.expire(now, out);\n        self.fill(now, out);\n        self.note_levels(now, out);\n        self.note_end(out);\n        ran",
                "        self.expire(now, out);\n        self.note_levels(now, out);\n        self.note_end(out);\n        ran",
            ),
            edit(
                SERVICE,
                "        self.expire(now, out);\n        while let",
                "        self.expire(now, out);\n        self.fill(now, out);\n        while let",
            ),
            edit(
                ADMISSION,
                "        debug_assert!(!room || self.lane.waiters.is_empty(), \"room, and somebody waits for it\");\n",
                "",
            ),
        ],
        &[
            "door::a_newcomer_never_overtakes_a_waiter",
            "door::a_waiter_that_times_out_passes_its_turn_on",
            "door::a_future_dropped_in_line_passes_its_turn_on",
        ],
    ),
    models(
        "a waiter whose limit passed stays in line",
        &[edit(
            DEPARTURE,
            "            if let Some(mut waiter) = self.lane.waiters.remove(seq) {\n                let why",
            "            if let Some(mut waiter) = None::<super::Entry<J>> {\n                let why",
        )],
        &[
            "door::a_waiter_that_times_out_passes_its_turn_on",
            "drops::when_its_wait_for_a_place_ends",
        ],
    ),
    models(
        "a waiter is taken out of line and not told",
        &[edit(
            DEPARTURE,
            "                out.news.push(News::Refused(waiter.job, why));",
            "                let _ = why;",
        )],
        &["door::a_waiter_that_times_out_passes_its_turn_on"],
    ),
    models(
        "a place is handed to a waiter that has left",
        &[edit(
            DEPARTURE,
            "        let withdrawn = if let Some(mut waiter) = self.lane.waiters.remove(seq) {\n            self.set_alarm(&mut waiter, None, out);\n            Withdrawn::Waiting(waiter.job)\n        } else",
            "        let withdrawn = if let Some(waiter) = self.lane.waiters.get(seq) {\n            Withdrawn::Waiting(waiter.job.clone())\n        } else",
        )],
        &["door::a_future_dropped_in_line_passes_its_turn_on"],
    ),
    models(
        "a dropped future stays in line",
        &[edit(
            FUTURE,
            "        match self.bulkhead.compartment.withdraw(*seq, Rejection::Cancelled) {",
            "        match Withdrawn::<()>::Gone {",
        )],
        &["door::a_future_dropped_in_line_passes_its_turn_on"],
    ),
    models(
        "closing forgets the callers at the door",
        &[edit(
            DEPARTURE,
            "        while let Some(mut waiter) = self.lane.waiters.pop_front() {",
            "        while let Some(mut waiter) = None::<super::Entry<J>> {",
        )],
        &["closing::closing_sends_waiting_callers_away"],
    ),
    // ----- leaving early -----
    models(
        "a cancelled job keeps its place",
        &[edit(
            DEPARTURE,
            "        self.fill(now, out);\n        self.note_levels(now, out);\n        self.note_end(out);\n        withdrawn",
            "        self.note_levels(now, out);\n        self.note_end(out);\n        withdrawn",
        )],
        &[
            "door::a_cancelled_job_s_place_goes_to_the_waiter",
            "door::a_thread_and_a_future_waiting_for_one_place_both_get_it",
            "door::a_future_dropped_in_line_passes_its_turn_on",
        ],
    ),
    models(
        "an expired job keeps its place",
        &[edit(
            DEPARTURE,
            "        if freed {\n            self.fill(now, out);",
            "        if freed {",
        )],
        &[
            "timekeeper::an_expired_job_s_place_goes_to_the_waiter",
            "door::a_waiter_that_times_out_passes_its_turn_on",
        ],
    ),
    models(
        "a displaced job's caller is not told",
        &[edit(
            ADMISSION,
            "                    self.end(oldest, Rejection::Displaced, now, out);",
            "                    let _ = oldest;",
        )],
        &["door::a_displaced_job_s_caller_is_told"],
    ),
    models(
        "a displaced job's place is given twice",
        &[edit(
            ADMISSION,
            "                    self.end(oldest, Rejection::Displaced, now, out);",
            "                    self.end(oldest, Rejection::Displaced, now, out);\n                    self.lane.capacity += 1;",
        )],
        &["door::a_displaced_job_s_caller_is_told"],
    ),
    models(
        "the slot of an overdue job is free",
        &[edit(
            DEPARTURE,
            "        out.news.push(News::Overdue(",
            "        self.taken -= 1;\n        out.news.push(News::Overdue(",
        )],
        &[
            "timekeeper::an_overdue_job_keeps_its_slot",
            "timekeeper::a_limit_racing_the_start_has_one_outcome",
        ],
    ),
    models(
        "a worker joins a job queued behind itself",
        &[edit(HANDLE, "            self.bulkhead.compartment.break_ring(self.seq);", "")],
        &["work::a_job_that_joins_one_queued_behind_it_is_told"],
    ),
    models(
        "an abort acts when its guard is gone",
        &[edit(
            ABORT,
            "        while *phase == Phase::Acting {\n            phase = self.acted.wait(phase);\n        }\n",
            "",
        )],
        &["work::an_abort_never_acts_when_its_guard_is_gone"],
    ),
    models(
        "an abort does not tell the job that waits for it",
        &[edit(ABORT, "        self.acted.notify_one();\n", "")],
        &["work::an_abort_never_acts_when_its_guard_is_gone"],
    ),
    // ----- the timekeeper -----
    models(
        "the timekeeper is not woken by the last end",
        &[edit(STATE, "        out.wake_timekeeper |= self.is_drained();", "        let _ = out;")],
        &["closing::the_timekeeper_leaves_with_the_last_job"],
    ),
    models(
        "a caller takes a job that has just ended for one that runs",
        &[edit(
            LEAVING,
            "                Withdrawn::Gone if state.is_running(seq) => AfterWait::Leave,",
            "                Withdrawn::Gone => AfterWait::Leave,",
        )],
        &["timekeeper::a_caller_whose_queued_job_ends_at_its_limit_hears_that_it_never_started"],
    ),
    models(
        "a new limit does not wake the timekeeper",
        &[edit(
            STATE,
            "                self.timekeeper_until = Some(new);\n                out.wake_timekeeper = true;",
            "                self.timekeeper_until = Some(new);",
        )],
        &["timekeeper::a_new_limit_wakes_the_timekeeper"],
    ),
    models(
        "a request to look at the clock is lost to a tick under way",
        &[
            edit(
                TIMEKEEPER,
                "        while !std::mem::take(&mut locked.tick) {",
                "        while !locked.tick {",
            ),
            edit(
                TIMEKEEPER,
                "            locked.state.sweep(now, &mut mail);\n",
                "            locked.tick = false;\n            locked.state.sweep(now, &mut mail);\n",
            ),
        ],
        &["timekeeper::a_clock_that_moves_during_a_tick_is_looked_at_again"],
    ),
    // ----- user code under a lock, on every way out -----
    models(
        "a refused job is dropped under the lock",
        &[edit(
            COMPARTMENT,
            "            let admission = locked.state.admit(offer, now, &mut mail);\n",
            "            let admission = locked.state.admit(offer, now, &mut mail);\n            if let Admission::Refused(job, _) = &admission {\n                job.discard();\n            }\n",
        )],
        &[
            "closing::a_submit_racing_close_is_refused_or_ended",
            "closing::closing_sends_waiting_callers_away",
            "door::a_newcomer_never_overtakes_a_waiter",
        ],
    ),
    models(
        "a job whose wait ends is dropped under the lock",
        &[edit(
            DELIVERY,
            "            let result = act(&mut locked.state, &mut mail);\n",
            "            let result = act(&mut locked.state, &mut mail);\n            for news in &mail.news {\n                if let super::state::News::Refused(job, _) = news {\n                    job.discard();\n                }\n            }\n",
        )],
        &[
            "closing::closing_sends_waiting_callers_away",
            "door::a_waiter_that_times_out_passes_its_turn_on",
            "drops::when_its_wait_for_a_place_ends",
        ],
    ),
    models(
        "a cancelled job is dropped under the lock",
        &[edit(
            DELIVERY,
            "            let result = act(&mut locked.state, &mut mail);\n",
            "            let result = act(&mut locked.state, &mut mail);\n            for (job, _, _) in mail.ended() {\n                job.discard();\n            }\n",
        )],
        &["drops::when_it_is_cancelled"],
    ),
    models(
        "a displaced job is dropped under the lock",
        &[edit(
            COMPARTMENT,
            "            let admission = locked.state.admit(offer, now, &mut mail);\n",
            "            let admission = locked.state.admit(offer, now, &mut mail);\n            for (job, _, _) in mail.ended() {\n                job.discard();\n            }\n",
        )],
        &["drops::when_it_is_displaced"],
    ),
    models(
        "an expired job is dropped under the lock",
        &[edit(
            TIMEKEEPER,
            "            locked.state.sweep(now, &mut mail);\n",
            "            locked.state.sweep(now, &mut mail);\n            for (job, _, _) in mail.ended() {\n                job.discard();\n            }\n",
        )],
        &["drops::when_it_expires"],
    ),
    models(
        "a job ended by shutting down is dropped under the lock",
        &[edit(
            CLOSING,
            "            locked.state.end_unstarted(Rejection::ShuttingDown, now, &mut mail);\n",
            "            locked.state.end_unstarted(Rejection::ShuttingDown, now, &mut mail);\n            for (job, _, _) in mail.ended() {\n                job.discard();\n            }\n",
        )],
        &["drops::when_the_runtime_shuts_down"],
    ),
    models(
        "a job runs, and its captures are dropped, under the lock",
        &[edit(
            WORKER,
            "            let _running = here::enter(Arc::clone(&job));\n",
            "            let _running = here::enter(Arc::clone(&job));\n            let _held = self.locked.lock();\n",
        )],
        &[
            "slot::a_detached_job_s_value_is_dropped_once",
            "drops::when_it_has_run",
            "slot::a_caller_leaves_or_receives_never_both",
        ],
    ),
    // ----- between bulkheads, and the end of them all -----
    models(
        "two bulkheads share the word at the door",
        &[
            edit(
                DELIVERY,
                "            self.door.store(packed, Ordering::Release);",
                "            self.door.store(packed, Ordering::Release);\n            super::SHARED.store(packed, Ordering::SeqCst);",
            ),
            edit(
                COMPARTMENT,
                "        let door = Door::unpack(self.door.load(Ordering::Acquire));\n        if door.closed {",
                "        let door = Door::unpack(SHARED.load(Ordering::SeqCst));\n        if door.closed {",
            ),
            edit(
                COMPARTMENT,
                "/// What a compartment is made of.\n",
                "static SHARED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);\n\n/// What a compartment is made of.\n",
            ),
        ],
        &[
            "work::a_full_bulkhead_neither_takes_from_its_neighbour_nor_lends_to_it",
            "work::two_submitters_never_share_one_place",
            "work::two_workers_share_two_jobs_and_both_leave",
        ],
    ),
    models(
        "a bulkhead borrows a slot that its neighbour does not use",
        &[
            edit(
                ADMISSION,
                "        let slot_free = self.taken < self.limit;\n",
                "        if self.taken == self.limit {\n            self.limit += 1;\n        }\n        let slot_free = self.taken < self.limit;\n",
            ),
            edit(
                "src/compartment/state/numbers.rs",
                "            full: !self.has_vacancy() && ",
                "            full: false && ",
            ),
        ],
        &[
            "work::a_full_bulkhead_neither_takes_from_its_neighbour_nor_lends_to_it",
            "closing::closing_sends_waiting_callers_away",
            "door::a_displaced_job_s_caller_is_told",
        ],
    ),
    models(
        "dropping the runtime does not close it",
        &[edit(RUNTIME, "        shutdown::close_now(&self.bulkheads);\n", "")],
        &["closing::dropping_the_runtime_ends_its_threads"],
    ),
    // ----- order, which only the reference sees -----
    units(
        "the newest job with a slot starts first",
        &[edit(
            SERVICE,
            "        while let Some(entry) = self.ready.pop_front() {",
            "        while let Some(entry) = self.ready.pop_back() {",
        )],
        &["compartment::reference::the_state_machine_does_what_the_reference_does"],
    ),
    units(
        "equal limits are reported as the queue's",
        &[edit(
            DEPARTURE,
            "alarm.is_none_or(|alarm| call <= alarm)",
            "alarm.is_none_or(|alarm| call < alarm)",
        )],
        &["compartment::reference::the_state_machine_does_what_the_reference_does"],
    ),
    units(
        "a waiter with a passed limit keeps its alarm",
        &[edit(
            DEPARTURE,
            "            let why = late_reason(waiter.patience, waiter.alarm, Rejection::WaitLimit);\n                self.set_alarm(&mut waiter, None, out);",
            "            let why = late_reason(waiter.patience, waiter.alarm, Rejection::WaitLimit);",
        )],
        &["compartment::reference::the_state_machine_does_what_the_reference_does"],
    ),
];
