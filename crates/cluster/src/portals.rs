//! Portals of other nodes: which of them a host hears of.
//!
//! Never: knows which nodes are up.

use crate::record::PortalRecord;
use std::net::IpAddr;

/// Whether two addresses lie in one network of so many bits.
fn same_network(a: IpAddr, b: IpAddr, bits: u8) -> bool {
    let wide = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => (u128::from(u32::from(ip)) << 96, 32),
        IpAddr::V6(ip) => (u128::from(ip), 128),
    };
    let ((a, of_a), (b, of_b)) = (wide(a), wide(b));
    let bits = u32::from(bits).min(of_a);
    of_a == of_b && (a ^ b).checked_shr(128 - bits).unwrap_or(0) == 0
}

/// Of the portals of another node, those for a host that reached this one at `reached`. A listener there that is on all addresses has one for each
/// network; a host is referred to that in the network by which it came, and to all where none is.
pub fn portals_near<'a>(portals: &[&'a PortalRecord], reached: Option<IpAddr>) -> Vec<&'a PortalRecord> {
    let near = |p: &PortalRecord| p.network_bits.zip(reached).is_some_and(|(bits, ip)| same_network(p.addr.ip(), ip, bits));
    let shown = |p: &&&'a PortalRecord| {
        let others_are_near = || portals.iter().any(|o| o.listener == p.listener && near(o));
        p.network_bits.is_none() || near(p) || !others_are_near()
    };
    portals.iter().filter(shown).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_end_at_their_bits() {
        let same = |a: &str, b: &str, bits| same_network(a.parse().unwrap(), b.parse().unwrap(), bits);
        assert!(same("10.1.2.3", "10.1.2.250", 24) && !same("10.1.2.3", "10.1.3.3", 24) && same("10.1.2.3", "10.1.3.3", 23));
        assert!(same("10.1.2.3", "10.1.2.3", 32) && !same("10.1.2.3", "10.1.2.2", 32) && same("10.1.2.3", "200.1.1.1", 0));
        assert!(same("2001:db8::1", "2001:db8::ffff", 64) && !same("2001:db8::1", "2001:db8:0:1::1", 64));
        assert!(!same("10.1.2.3", "::ffff:10.1.2.3", 0), "of two families");
    }
}
