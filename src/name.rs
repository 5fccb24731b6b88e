//! [`Name`]: what a bulkhead is called, in the API, in logs, on threads and in metrics.

use std::fmt;

use crate::sync::Arc;

/// A bulkhead's name, checked once.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name(Arc<str>);

impl Name {
    /// The longest name, in bytes. It is a label of every metric and part of every error message.
    pub(crate) const MAX_BYTES: usize = 1_024;

    /// Says what is wrong with `name`, in a sentence that continues "the name …".
    pub(crate) fn new(name: &str) -> Result<Self, String> {
        if name.is_empty() {
            return Err("is empty; give it the name of the dependency".into());
        }
        if name.len() > Self::MAX_BYTES {
            let (bytes, most) = (name.len(), Self::MAX_BYTES);
            return Err(format!("is {bytes} bytes long; at most {most} are allowed"));
        }
        if let Some(bad) = name.chars().find(|c| c.is_control()) {
            return Err(format!(
                "contains the control character {bad:?}, which can stand neither in a thread's name \
                 nor in a log line"
            ));
        }
        if name.trim() != name {
            return Err("begins or ends with white space, which nobody can see in a log".into());
        }
        Ok(Self(name.into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(all(test, not(any(watertight_loom, watertight_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_thread_or_log_line_can_carry_are_refused() {
        for bad in ["", " db", "db ", "a\0b", "a\nb", "a\tb", &"x".repeat(1_025)] {
            assert!(Name::new(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn long_names_quotes_and_emoji_are_fine() {
        for good in ["db", "per\"son", "back\\slash", "🦀🦀🦀", "a b", &"x".repeat(300)] {
            assert!(Name::new(good).is_ok(), "{good:?} was refused");
        }
    }
}
