//! Connections that have not proved or said who they are: how many there may be, and who makes room.
//!
//! Owns: their order of coming, and how many each network has.
//! Invariant: a flood from one network takes only that network's places; beyond, the oldest of those who have the most makes room, so who
//! connects as it should always gets in.
//! Never: closes anything; the caller does.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Where a connection comes from, as far as unauthenticated peers are distinguished: an IPv4 address, or an IPv6 network of /64, which one machine has for
/// itself.
pub fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() >> 64 << 64).into()),
        v4 => v4,
    }
}

/// Those of one core.
#[derive(Debug)]
pub struct Unauthenticated {
    max: usize,
    /// By token, which grows with time.
    order: BTreeMap<u64, IpAddr>,
    by_network: BTreeMap<IpAddr, u32>,
}

impl Unauthenticated {
    /// At most so many of them.
    pub fn new(max: usize) -> Self {
        Unauthenticated { max, order: BTreeMap::new(), by_network: BTreeMap::new() }
    }
    /// One came. Gives who must make room for it, if somebody must.
    pub fn enter(&mut self, token: u64, ip: IpAddr, network_max: u32) -> Option<u64> {
        let of = network(ip);
        self.order.insert(token, of);
        let count = self.by_network.entry(of).or_default();
        *count += 1;
        let from = if *count > network_max {
            of
        } else if self.order.len() > self.max {
            *self.by_network.iter().max_by_key(|(_, n)| **n)?.0
        } else {
            return None;
        };
        self.order.iter().find(|(_, ip)| **ip == from).map(|(token, _)| *token)
    }
    /// One is known now, or gone.
    pub fn leave(&mut self, token: u64) {
        let Some(ip) = self.order.remove(&token) else { return };
        if let Some(count) = self.by_network.get_mut(&ip) {
            *count -= 1;
            if *count == 0 {
                self.by_network.remove(&ip);
            }
        }
    }
    /// Who came first.
    pub fn oldest(&self) -> Option<u64> {
        self.tokens().next()
    }
    /// All of them, in their order of coming.
    pub fn tokens(&self) -> impl Iterator<Item = u64> {
        self.order.keys().copied()
    }
    /// How many there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDSHAKES_MAX: usize = 1024;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_that_floods_makes_room_for_itself() {
        let mut s = Unauthenticated::new(HANDSHAKES_MAX);
        s.enter(1, ip("10.0.0.9"), 4);
        for token in 2..6 {
            assert_eq!(s.enter(token, ip("10.0.0.1"), 4), None);
        }
        assert_eq!(s.enter(6, ip("10.0.0.1"), 4), Some(2), "not the older one of another");
        s.leave(2);
        s.leave(3);
        assert_eq!(s.enter(7, ip("10.0.0.1"), 4), None);
        s.leave(1);
        assert_eq!((s.len(), s.oldest()), (4, Some(4)));
    }

    #[test]
    fn many_networks_make_room_together_and_the_largest_first() {
        let mut s = Unauthenticated::new(HANDSHAKES_MAX);
        let count = HANDSHAKES_MAX as u64;
        for token in 1..=count - 3 {
            assert_eq!(s.enter(token, ip(&format!("10.1.{}.{}", token / 200, token % 200)), 4), None);
        }
        for token in count - 2..=count {
            assert_eq!(s.enter(token, ip("10.0.0.1"), 4), None);
        }
        assert_eq!(s.enter(count + 1, ip("10.0.0.2"), 4), Some(count - 2));
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one() {
        assert_eq!(network(ip("2001:db8:1:2:3:4:5:6")), network(ip("2001:db8:1:2:ffff::1")));
        assert_ne!(network(ip("2001:db8:1:2::")), network(ip("2001:db8:1:3::")));
        assert_eq!(network(ip("::ffff:10.0.0.1")), ip("10.0.0.1"));
    }
}
