//! [`Fifo`]: a queue from whose middle entries can leave.

use std::collections::VecDeque;

/// First in, first out, and anybody may leave early.
///
/// Every entry has a sequence number, and numbers only grow towards the back; so an entry is found
/// by binary search, and leaving is O(log n). Who leaves from the middle leaves a hole; holes at the
/// front are cut off at once, and the others swept out when they outnumber the entries, so that the
/// memory stays in proportion to the entries and the cost of a removal, amortised, to log n.
#[derive(Debug)]
pub(crate) struct Fifo<T> {
    /// INVARIANT: sequence numbers ascend; the first slot is not a hole.
    slots: VecDeque<(u64, Option<T>)>,
    live: usize,
}

impl<T> Fifo<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: VecDeque::new(), live: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.live
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.live == 0
    }

    pub(crate) fn push_back(&mut self, seq: u64, entry: T) {
        debug_assert!(
            self.slots.back().is_none_or(|(last, _)| *last < seq),
            "an entry overtook another: {seq} arrived behind a later one",
        );
        self.slots.push_back((seq, Some(entry)));
        self.live += 1;
    }

    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let (_, entry) = self.slots.pop_front()?;
        debug_assert!(entry.is_some(), "the first slot is not a hole");
        self.live -= 1;
        self.cut_front();
        entry
    }

    pub(crate) fn front(&self) -> Option<&T> {
        self.slots.front()?.1.as_ref()
    }

    pub(crate) fn get(&self, seq: u64) -> Option<&T> {
        self.slots[self.find(seq)?].1.as_ref()
    }

    pub(crate) fn remove(&mut self, seq: u64) -> Option<T> {
        let index = self.find(seq)?;
        let entry = self.slots[index].1.take()?;
        self.live -= 1;
        self.cut_front();
        // The constant keeps short queues from being swept at every turn.
        if self.slots.len() > 2 * self.live + 16 {
            self.slots.retain(|(_, entry)| entry.is_some());
        }
        Some(entry)
    }

    fn find(&self, seq: u64) -> Option<usize> {
        self.slots.binary_search_by_key(&seq, |(seq, _)| *seq).ok()
    }

    fn cut_front(&mut self) {
        while self.slots.front().is_some_and(|(_, entry)| entry.is_none()) {
            self.slots.pop_front();
        }
    }
}

#[cfg(all(test, not(any(watertight_loom, watertight_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn order_survives_departures_from_the_middle() {
        let mut fifo = Fifo::new();
        for seq in 0..6 {
            fifo.push_back(seq, seq);
        }
        assert_eq!(fifo.remove(0), Some(0));
        assert_eq!(fifo.remove(3), Some(3));
        assert_eq!(fifo.remove(3), None);
        assert_eq!(fifo.get(4), Some(&4));
        assert_eq!(fifo.front(), Some(&1));
        let rest: Vec<_> = std::iter::from_fn(|| fifo.pop_front()).collect();
        assert_eq!(rest, [1, 2, 4, 5]);
        assert!(fifo.is_empty());
    }

    #[test]
    fn holes_do_not_pile_up_behind_a_first_entry_that_stays() {
        let mut fifo = Fifo::new();
        fifo.push_back(0, ());
        for seq in 1..100_000 {
            fifo.push_back(seq, ());
            assert!(fifo.remove(seq).is_some());
        }
        assert_eq!(fifo.len(), 1);
        assert!(fifo.slots.len() <= 18, "{} slots for one entry", fifo.slots.len());
    }
}
