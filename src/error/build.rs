//! What can be wrong with a runtime: when it is built, asked, and shut down.

use std::error::Error;
use std::fmt;
use std::io;

/// A runtime could not be built. Nothing of it is left: no thread, no name.
///
/// The message names the bulkhead, the setting and the value, and says what to do.
#[derive(Debug)]
pub struct BuildError {
    kind: BuildErrorKind,
    bulkhead: Option<String>,
    setting: &'static str,
    problem: String,
    source: Option<io::Error>,
}

/// The sort of thing that was wrong, for programs; people read the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BuildErrorKind {
    /// One setting is out of its bounds, or two contradict each other.
    InvalidSetting,
    /// Two bulkheads have one name.
    DuplicateName,
    /// Cores overlap, do not exist, or are not the process's to use.
    Cores,
    /// The system allows fewer threads than the runtime needs.
    ThreadLimit,
    /// The system allows fewer file descriptors than the runtime's connections need.
    DescriptorLimit,
    /// The system refused to start a thread.
    Spawn,
}

impl BuildError {
    pub(crate) fn new(
        kind: BuildErrorKind,
        bulkhead: Option<&str>,
        setting: &'static str,
        problem: impl Into<String>,
    ) -> Self {
        let bulkhead = bulkhead.map(str::to_owned);
        Self { kind, bulkhead, setting, problem: problem.into(), source: None }
    }

    pub(crate) fn caused_by(mut self, source: io::Error) -> Self {
        self.source = Some(source);
        self
    }

    /// What sort of thing was wrong.
    #[must_use]
    pub const fn kind(&self) -> BuildErrorKind {
        self.kind
    }

    /// The bulkhead concerned; `None` when it is the runtime as a whole.
    #[must_use]
    pub fn bulkhead(&self) -> Option<&str> {
        self.bulkhead.as_deref()
    }

    /// The setting concerned, by its name in the builder.
    #[must_use]
    pub const fn setting(&self) -> &'static str {
        self.setting
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (setting, problem) = (self.setting, &self.problem);
        match &self.bulkhead {
            // Quoted by `{:?}` because the name itself may be what is wrong.
            Some(name) => write!(f, "bulkhead {name:?}: `{setting}` {problem}"),
            None => write!(f, "runtime: `{setting}` {problem}"),
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|error| error as _)
    }
}

/// There is no bulkhead of that name. The message lists those that exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownBulkhead {
    pub(crate) asked: String,
    pub(crate) known: Vec<String>,
}

impl UnknownBulkhead {
    /// The name asked for.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.asked
    }

    /// The names that exist, in the order of the builder.
    pub fn known(&self) -> impl Iterator<Item = &str> {
        self.known.iter().map(String::as_str)
    }
}

impl fmt::Display for UnknownBulkhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no bulkhead {:?}", self.asked)?;
        if self.known.is_empty() {
            return f.write_str("; this runtime has none at all");
        }
        f.write_str("; there are ")?;
        for (index, name) in self.known.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{name:?}")?;
        }
        Ok(())
    }
}

impl Error for UnknownBulkhead {}

/// Why a shutdown could not be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShutdownError {
    /// It was asked for on one of the runtime's own threads, which would have waited for itself.
    /// The runtime has been told to shut down; nobody waits.
    OnOwnThread,
}

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnOwnThread => f.write_str(
                "shutdown was called on one of the runtime's own threads, which cannot wait for \
                 itself; the runtime stops accepting work, call shutdown from another thread to wait",
            ),
        }
    }
}

impl Error for ShutdownError {}
