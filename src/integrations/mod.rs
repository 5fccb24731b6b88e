//! What watertight knows about other crates: each in a module, behind the feature of its name.
//!
//! Floor 5.

mod around;
#[cfg(any(feature = "http", feature = "postgres"))]
mod fault;
mod helpers;
#[cfg_attr(not(any(feature = "http", feature = "postgres")), allow(dead_code))]
mod remotes;

#[cfg(any(feature = "http", feature = "postgres"))]
pub use self::fault::Fault;

#[cfg(feature = "http")]
#[cfg_attr(docsrs, doc(cfg(feature = "http")))]
pub mod http;
#[cfg(feature = "postgres")]
#[cfg_attr(docsrs, doc(cfg(feature = "postgres")))]
pub mod postgres;
#[cfg(feature = "r2d2")]
#[cfg_attr(docsrs, doc(cfg(feature = "r2d2")))]
pub mod r2d2;
