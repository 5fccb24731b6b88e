//! Whose each connection is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;

use super::process::Socket;
use super::{AuditedConnections, AuditedListener, RemoteAddress};
use crate::compartment::Connections;
use crate::sync::Arc;

/// Connections are counted by address and user: a bulkhead's index, or this.
const FOREIGN: usize = usize::MAX;

/// How many connections a bulkhead, by its index, has to one of these addresses.
type Claims = BTreeMap<(usize, Arc<[SocketAddr]>), usize>;

/// The connections that the process has opened: ours by the index of their bulkhead, then the foreign
/// ones, by remote address.
///
/// Ours are as they were `before` and `after` the system's were read.
pub(super) fn sort(
    bulkheads: &[&str],
    before: Vec<(usize, Connections)>,
    after: Vec<(usize, Connections)>,
    sockets: Option<&[Socket]>,
) -> Vec<AuditedConnections> {
    let unknown: Vec<_> = after.iter().map(|(index, one)| (*index, one.unknown)).collect();
    let mut claims = count(before);
    for (claim, number) in count(after) {
        let most = claims.entry(claim).or_default();
        *most = number.max(*most);
    }
    let mut left = sockets.map(outgoing);
    let mut found: BTreeMap<(usize, RemoteAddress), usize> = BTreeMap::new();
    // Those to a single address first: the others get what is left of theirs.
    for is_certain in [true, false] {
        let claims =
            claims.iter().filter(|((_, addresses), _)| (addresses.len() == 1) == is_certain);
        for ((index, addresses), number) in claims {
            for _ in 0..*number {
                if let Some(remote) = take(addresses, left.as_mut()) {
                    *found.entry((*index, remote)).or_default() += 1;
                }
            }
        }
    }
    for (remote, number) in left.into_iter().flatten().filter(|(_, number)| *number > 0) {
        found.insert((FOREIGN, remote), number);
    }
    let mut users: HashMap<RemoteAddress, usize> = HashMap::new();
    for (_, remote) in found.keys() {
        *users.entry(*remote).or_default() += 1;
    }
    for (index, number) in unknown.into_iter().filter(|(_, number)| *number > 0) {
        found.insert((index, RemoteAddress::Unknown), number);
    }
    let audited = |((index, remote), count): ((usize, RemoteAddress), usize)| AuditedConnections {
        bulkhead: bulkheads.get(index).map(|&name| name.to_owned()),
        remote,
        count,
        shared: users.get(&remote).is_some_and(|users| *users > 1),
    };
    found.into_iter().map(audited).collect()
}

fn count(connections: Vec<(usize, Connections)>) -> Claims {
    let mut claims = Claims::new();
    for (index, Connections { known, .. }) in connections {
        for addresses in known {
            *claims.entry((index, addresses)).or_default() += 1;
        }
    }
    claims
}

/// One of the connections that are `left`, to one of these addresses. One that is not among them has
/// been closed already, or is not open yet. Without knowledge of the system's, all are believed.
fn take(
    addresses: &[SocketAddr],
    left: Option<&mut BTreeMap<RemoteAddress, usize>>,
) -> Option<RemoteAddress> {
    let mut remotes = addresses.iter().map(|one| RemoteAddress::Tcp(plain(*one)));
    let Some(left) = left else { return remotes.next() };
    remotes.find(|remote| match left.get_mut(remote) {
        Some(number) if *number > 0 => {
            *number -= 1;
            true
        }
        _ => false,
    })
}

/// As the system shows it: without scope, and not mapped into IPv6.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn outgoing(sockets: &[Socket]) -> BTreeMap<RemoteAddress, usize> {
    let listeners = listening(sockets);
    let mut counts = BTreeMap::new();
    for socket in sockets {
        let is_open = !socket.is_listening && socket.remote.port() != 0;
        if is_open && accepted_by(&listeners, socket).is_none() {
            let remote = if socket.is_udp {
                RemoteAddress::Udp(socket.remote)
            } else {
                RemoteAddress::Tcp(socket.remote)
            };
            *counts.entry(remote).or_default() += 1;
        }
    }
    counts
}

/// The addresses that the process listens on, and how many connections to them are open.
pub(super) fn listeners(sockets: &[Socket]) -> Vec<AuditedListener> {
    let listeners = listening(sockets);
    let mut accepted: BTreeMap<SocketAddr, usize> = listeners.iter().map(|one| (*one, 0)).collect();
    for socket in sockets.iter().filter(|socket| !socket.is_listening) {
        if let Some(number) = accepted_by(&listeners, socket).and_then(|at| accepted.get_mut(&at)) {
            *number += 1;
        }
    }
    accepted.into_iter().map(|(local, accepted)| AuditedListener { local, accepted }).collect()
}

fn listening(sockets: &[Socket]) -> BTreeSet<SocketAddr> {
    sockets.iter().filter(|socket| socket.is_listening).map(|socket| socket.local).collect()
}

/// The address of the process's own through which a connection has come in, if it has.
fn accepted_by(listeners: &BTreeSet<SocketAddr>, socket: &Socket) -> Option<SocketAddr> {
    if socket.is_udp {
        return None;
    }
    let everywhere =
        |one: &&SocketAddr| one.ip().is_unspecified() && one.port() == socket.local.port();
    listeners.get(&socket.local).or_else(|| listeners.iter().find(everywhere)).copied()
}

#[cfg(all(test, not(any(watertight_loom, watertight_shuttle))))]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn to(remote: &str) -> Socket {
        let local = address("10.0.0.1:40000");
        Socket { is_udp: false, is_listening: false, local, remote: address(remote) }
    }

    fn claims(known: &[&[&str]]) -> Connections {
        let known = known.iter().map(|one| one.iter().map(|text| address(text)).collect());
        Connections { known: known.collect(), unknown: 0 }
    }

    /// As text: the bulkhead, how many, where to, and whether shared.
    fn sorted(own: &[(usize, Connections)], sockets: Option<&[Socket]>) -> Vec<String> {
        let sorted = sort(&["a", "b"], Vec::new(), own.to_vec(), sockets);
        let text = |one: AuditedConnections| {
            let (whose, mark) = (one.bulkhead, if one.shared { " shared" } else { "" });
            format!("{} {} {}{mark}", whose.as_deref().unwrap_or("-"), one.count, one.remote)
        };
        sorted.into_iter().map(text).collect()
    }

    #[test]
    fn what_no_bulkhead_claims_is_foreign_and_an_address_of_both_is_shared() {
        let own = [(0, claims(&[&["10.0.0.2:80"], &["10.0.0.2:80"]]))];
        let sockets = [to("10.0.0.2:80"), to("10.0.0.2:80"), to("10.0.0.2:80"), to("10.0.0.3:80")];
        let wanted =
            ["a 2 tcp 10.0.0.2:80 shared", "- 1 tcp 10.0.0.2:80 shared", "- 1 tcp 10.0.0.3:80"];
        assert_eq!(sorted(&own, Some(&sockets)), wanted);
        assert_eq!(sorted(&own, Some(&sockets[..2])), ["a 2 tcp 10.0.0.2:80"]);
    }

    #[test]
    fn two_bulkheads_at_one_address_share_it_and_two_ports_of_one_machine_are_two() {
        let own = [(0, claims(&[&["10.0.0.2:80"]])), (1, claims(&[&["10.0.0.2:80"]]))];
        let sockets = [to("10.0.0.2:80"), to("10.0.0.2:80")];
        let wanted = ["a 1 tcp 10.0.0.2:80 shared", "b 1 tcp 10.0.0.2:80 shared"];
        assert_eq!(sorted(&own, Some(&sockets)), wanted);
        let own = [(0, claims(&[&["10.0.0.2:80"]])), (1, claims(&[&["10.0.0.2:81"]]))];
        let sockets = [to("10.0.0.2:80"), to("10.0.0.2:81")];
        assert_eq!(sorted(&own, Some(&sockets)), ["a 1 tcp 10.0.0.2:80", "b 1 tcp 10.0.0.2:81"]);
    }

    #[test]
    fn which_of_a_name_s_addresses_a_connection_has_is_found_by_elimination() {
        let both: &[&str] = &["10.0.0.2:80", "10.0.0.3:80"];
        let own = [(0, claims(&[both])), (1, claims(&[&["10.0.0.2:80"]]))];
        let sockets = [to("10.0.0.2:80"), to("10.0.0.3:80")];
        assert_eq!(sorted(&own, Some(&sockets)), ["a 1 tcp 10.0.0.3:80", "b 1 tcp 10.0.0.2:80"]);
    }

    #[test]
    fn a_connection_that_the_system_does_not_show_is_not_there_unless_it_shows_none() {
        let own = [(0, claims(&[&["10.0.0.2:80"], &[]]))];
        assert_eq!(sorted(&own, Some(&[])), [""; 0]);
        assert_eq!(sorted(&own, None), ["a 1 tcp 10.0.0.2:80"]);
    }

    #[test]
    fn one_that_is_opened_or_closed_while_the_system_is_asked_is_claimed() {
        let one = || vec![(0, claims(&[&["10.0.0.2:80"]]))];
        for (before, after) in [(one(), Vec::new()), (Vec::new(), one()), (one(), one())] {
            let sorted = sort(&["a"], before, after, Some(&[to("10.0.0.2:80")]));
            assert_eq!(sorted.len(), 1);
            assert_eq!(sorted[0].bulkhead.as_deref(), Some("a"));
        }
    }

    #[test]
    fn addresses_are_compared_without_scope_and_mapping() {
        let own = [(0, claims(&[&["[::ffff:10.0.0.2]:80"], &["[fe80::1%3]:80"]]))];
        let sockets = [to("10.0.0.2:80"), to("[fe80::1]:80")];
        let wanted = ["a 1 tcp 10.0.0.2:80", "a 1 tcp [fe80::1]:80"];
        assert_eq!(sorted(&own, Some(&sockets)), wanted);
    }

    #[test]
    fn a_pool_that_only_its_manager_knows_is_named_and_shares_nothing() {
        let unknown = Connections { known: Vec::new(), unknown: 3 };
        let own = [(0, unknown.clone()), (1, unknown)];
        let text = "3 known to its pool's manager only";
        assert_eq!(sorted(&own, Some(&[])), [format!("a {text}"), format!("b {text}")]);
    }

    #[test]
    fn what_came_in_is_counted_at_its_listener() {
        let listener =
            |local| Socket { is_listening: true, local: address(local), ..to("0.0.0.0:0") };
        let from =
            |local: &str, is_udp| Socket { local: address(local), is_udp, ..to("10.0.0.9:50000") };
        let sockets = [
            listener("0.0.0.0:80"),
            listener("10.0.0.1:81"),
            from("10.0.0.1:80", false),
            from("10.0.0.1:80", false),
            from("10.0.0.1:81", false),
            from("10.0.0.7:81", false),
            from("10.0.0.1:81", true),
        ];
        let accepted: Vec<_> =
            listeners(&sockets).into_iter().map(|one| (one.local, one.accepted)).collect();
        assert_eq!(accepted, [(address("0.0.0.0:80"), 2), (address("10.0.0.1:81"), 1)]);
        let wanted = ["- 1 tcp 10.0.0.9:50000", "- 1 udp 10.0.0.9:50000"];
        assert_eq!(sorted(&[], Some(&sockets)), wanted);
    }
}
