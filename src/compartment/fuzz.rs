//! The state machine against its reference again, with histories made of bytes: what a fuzzer can
//! steer. Run as a plain test it tries random ones for about a second.

use std::time::Duration;

use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};

use super::policy::RejectionPolicy;
use super::reference::{Op, Real, Reference};

/// What one step's bytes mean in this state, if it can be done.
fn op([kind, one, other]: [u8; 3], reference: &Reference) -> Option<Op> {
    let worker = usize::from(one) % reference.threads();
    let op = match kind % 24 {
        0..8 => Op::Submit {
            may_wait: one & 1 == 0,
            covered: one & 2 == 0,
            limit: (one & 4 == 0).then_some(u64::from(other) % 30),
        },
        8..13 => Op::Take(worker),
        13..17 => Op::Finish(worker),
        17..19 => Op::Cancel(u32::from(other) % reference.jobs().max(1)),
        19..22 => Op::Advance(u64::from(other) % 15),
        22 => Op::EndUnstarted,
        _ if one < 32 => Op::Drain,
        _ => return None,
    };
    Reference::preconditions(reference, &op).then_some(op)
}

fn history(head: [u8; 4], steps: &[[u8; 3]]) {
    let [threads, queue, policy, limit] = head;
    let policy = match policy % 3 {
        0 => RejectionPolicy::Reject,
        1 => RejectionPolicy::DropOldest,
        _ => RejectionPolicy::Wait {
            at_most: Duration::from_millis(u64::from(policy) % 19 + 1),
            submitters: usize::from(policy) % 3 + 1,
        },
    };
    let queue_limit = (limit & 1 == 0).then_some(u64::from(limit) % 20);
    let threads = usize::from(threads) % 3 + 1;
    let mut reference = Reference::new(threads, usize::from(queue) % 4, policy, queue_limit);
    let mut real = Real::init_test(&reference);
    for step in steps {
        let Some(op) = op(*step, &reference) else { continue };
        reference = <Reference as ReferenceStateMachine>::apply(reference, &op);
        real = <Real as StateMachineTest>::apply(real, &reference, op);
        Real::check_invariants(&real, &reference);
    }
}

#[test]
fn no_history_of_bytes_tells_the_state_machine_from_its_reference() {
    bolero::check!()
        .with_type::<([u8; 4], Vec<[u8; 3]>)>()
        .for_each(|(head, steps)| history(*head, steps));
}
