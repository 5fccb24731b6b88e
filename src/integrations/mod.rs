//! What watertight knows about other crates: each in a module, behind the feature of its name.
//!
//! Floor 5.

mod helpers;

#[cfg(feature = "http")]
#[cfg_attr(docsrs, doc(cfg(feature = "http")))]
pub mod http;
#[cfg(feature = "r2d2")]
#[cfg_attr(docsrs, doc(cfg(feature = "r2d2")))]
pub mod r2d2;
