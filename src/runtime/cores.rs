//! Which cores belong to which bulkhead: a pure function of what was asked for and what there is.

use crate::bulkhead::CoreRequest;
use crate::compartment::HIGHEST_CORE;
use crate::error::{BuildError, BuildErrorKind};

/// Deals the `allowed` cores out; the answer has the cores of each request, in order.
///
/// Named cores go first. Requests for a number then take what nobody named, in ascending order, so
/// that the outcome depends on nothing but the description.
pub(super) fn assign(
    requests: &[(&str, Option<&CoreRequest>)],
    allowed: &[usize],
) -> Result<Vec<Option<Vec<usize>>>, BuildError> {
    let mut owners: Vec<(usize, &str)> = Vec::new();
    for (name, request) in requests {
        let Some(CoreRequest::These(cores)) = request else {
            continue;
        };
        if cores.is_empty() {
            return Err(wrong(
                name,
                "cores",
                "is empty; name at least one core, or leave it unset",
            ));
        }
        for core in cores {
            claim(name, *core, allowed, &mut owners)?;
        }
    }
    let mut free = allowed.iter().copied().filter(|core| !owners.iter().any(|(id, _)| id == core));
    let mut assigned = Vec::with_capacity(requests.len());
    for (name, request) in requests {
        assigned.push(match request {
            None => None,
            Some(CoreRequest::These(cores)) => {
                let mut cores = cores.clone();
                cores.sort_unstable();
                Some(cores)
            }
            Some(CoreRequest::Any(0)) => {
                return Err(wrong(name, "core_count", "is 0; ask for at least one core"));
            }
            Some(CoreRequest::Any(count)) => {
                let cores: Vec<usize> = free.by_ref().take(*count).collect();
                if cores.len() < *count {
                    let left = cores.len();
                    let problem = format!(
                        "is {count}, but only {left} of the process's cores {allowed:?} are left; ask \
                         for fewer"
                    );
                    return Err(wrong(name, "core_count", problem));
                }
                Some(cores)
            }
        });
    }
    Ok(assigned)
}

fn claim<'a>(
    name: &'a str,
    core: usize,
    allowed: &[usize],
    owners: &mut Vec<(usize, &'a str)>,
) -> Result<(), BuildError> {
    if core > HIGHEST_CORE {
        let problem =
            format!("names core {core}; the highest id that can be named is {HIGHEST_CORE}");
        return Err(wrong(name, "cores", problem));
    }
    if !allowed.contains(&core) {
        let problem = format!("names core {core}, but this process may only use {allowed:?}");
        return Err(wrong(name, "cores", problem));
    }
    if let Some((_, owner)) = owners.iter().find(|(id, _)| *id == core) {
        let problem = if *owner == name {
            format!("names core {core} twice; name it once")
        } else {
            format!("names core {core}, which bulkhead {owner:?} has; cores are not shared")
        };
        return Err(wrong(name, "cores", problem));
    }
    owners.push((core, name));
    Ok(())
}

fn wrong(name: &str, setting: &'static str, problem: impl Into<String>) -> BuildError {
    BuildError::new(BuildErrorKind::Cores, Some(name), setting, problem)
}

#[cfg(all(test, not(any(watertight_loom, watertight_shuttle))))]
mod tests {
    use super::*;
    use CoreRequest::{Any, These};

    fn assign_all(
        requests: &[(&str, Option<CoreRequest>)],
        allowed: &[usize],
    ) -> Result<Vec<Option<Vec<usize>>>, String> {
        let requests: Vec<_> = requests.iter().map(|(name, r)| (*name, r.as_ref())).collect();
        assign(&requests, allowed).map_err(|error| error.to_string())
    }

    #[test]
    fn numbers_take_what_nobody_named_whatever_the_order() {
        let assigned = assign_all(
            &[
                ("a", Some(Any(1))),
                ("b", Some(These(vec![4, 2]))),
                ("c", None),
                ("d", Some(Any(2))),
            ],
            &[0, 2, 4, 6, 8],
        );
        assert_eq!(assigned, Ok(vec![Some(vec![0]), Some(vec![2, 4]), None, Some(vec![6, 8])]));
    }

    #[test]
    fn what_cannot_be_had_is_an_error_that_names_core_and_mask() {
        let one = |request| assign_all(&[("a", Some(request))], &[2, 4]).unwrap_err();
        assert!(one(These(vec![0])).contains("names core 0, but this process may only use [2, 4]"));
        assert!(one(These(vec![4096])).contains("names core 4096"));
        assert!(one(These(vec![1024])).contains("is 1023"));
        assert!(one(These(vec![2, 2])).contains("twice"));
        assert!(one(These(vec![])).contains("empty"));
        assert!(one(Any(3)).contains("only 2"));
        assert!(one(Any(0)).contains("at least one"));
        let overlap =
            assign_all(&[("a", Some(These(vec![2]))), ("b", Some(These(vec![2])))], &[2, 4]);
        assert!(overlap.unwrap_err().contains("which bulkhead \"a\" has"));
    }
}
