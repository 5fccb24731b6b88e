//! [`Door`]: what a newcomer can know without the lock.

/// What a newcomer can know without the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Door {
    pub(crate) full: bool,
    pub(crate) crowded: bool,
    pub(crate) closed: bool,
    pub(crate) queued: usize,
    pub(crate) waiting: usize,
}

const FULL: u64 = 1;
const CROWDED: u64 = 2;
const CLOSED: u64 = 4;
/// Bits for each of the two lengths; longer lines read as this long.
const LENGTH: u32 = 30;
const LONGEST: u64 = (1 << LENGTH) - 1;

impl Door {
    /// The whole of it in one word, so that it can be read at once.
    pub(crate) fn pack(self) -> u64 {
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        let length = |n: usize| u64::try_from(n).map_or(LONGEST, |n| n.min(LONGEST));
        flag(self.full, FULL)
            | flag(self.crowded, CROWDED)
            | flag(self.closed, CLOSED)
            | length(self.queued) << 3
            | length(self.waiting) << (3 + LENGTH)
    }

    pub(crate) fn unpack(word: u64) -> Self {
        let length = |shift: u32| usize::try_from(word >> shift & LONGEST).unwrap_or(usize::MAX);
        Self {
            full: word & FULL != 0,
            crowded: word & CROWDED != 0,
            closed: word & CLOSED != 0,
            queued: length(3),
            waiting: length(3 + LENGTH),
        }
    }
}
