//! Portals: the addresses where hosts reach a node, as other nodes tell them.
//!
//! Owns: which portals the listeners of a node have, the addresses of this machine.
//! Invariant: an address that only this machine can reach is no portal of a listener on all addresses.
//! Never: changes a record.

use base::{ListenerKind, Security};
use directory::record::PortalRecord;
use nvmf::ListenerSpec;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// The most addresses of this machine that are used: more is no server, but something that makes addresses.
pub const ADDRESSES_MAX: usize = 64;

/// An address of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnAddress {
    /// The address.
    pub ip: IpAddr,
    /// Bits of its network.
    pub bits: u8,
}

/// The portals of a node with these listeners, in their order. One on all addresses has a portal at each of `own` of its family, or families.
pub fn portals(listeners: &[ListenerSpec], own: &[OwnAddress]) -> Vec<PortalRecord> {
    let mut all = Vec::new();
    for (listener, spec) in listeners.iter().enumerate() {
        let mut at = spec.advertise.unwrap_or(spec.addr);
        if at.port() == 0 {
            at.set_port(spec.addr.port());
        }
        let mut add = |ip, network_bits| {
            let mut addr = at;
            addr.set_ip(ip);
            all.push(PortalRecord { addr, kind: spec.kind, security: spec.security, listener: listener as u16, network_bits });
        };
        if !at.ip().is_unspecified() {
            add(at.ip(), None);
            continue;
        }
        // Who listens on all addresses of IPv6 has those of IPv4 too.
        let reached = own.iter().filter(|a| a.ip.is_ipv4() || at.is_ipv6());
        reached.for_each(|a| add(a.ip, Some(a.bits)));
    }
    all
}

/// The portals of a node with these listeners for iSCSI, in their order.
pub fn iscsi_portals(listeners: &[iscsi::ListenerSpec], own: &[OwnAddress]) -> Vec<PortalRecord> {
    let spec = |l: &iscsi::ListenerSpec| {
        let (kind, security) = (ListenerKind::Io, Security::Plain);
        ListenerSpec { addr: l.addr, kind, advertise: l.advertise, security }
    };
    portals(&listeners.iter().map(spec).collect::<Vec<_>>(), own)
}

/// The addresses by which others may reach this machine; none where that cannot be found out.
pub fn own_addresses() -> Vec<OwnAddress> {
    let read = |path: &str| std::fs::read_to_string(Path::new("/proc/net").join(path)).unwrap_or_default();
    let mut all = ipv4(&read("fib_trie"), &read("route"));
    all.extend(ipv6(&read("if_inet6")));
    all.into_iter().take(ADDRESSES_MAX).collect()
}

/// From `/proc/net/fib_trie` (which addresses are local) and `/proc/net/route` (the networks of the interfaces).
fn ipv4(fib_trie: &str, route: &str) -> BTreeSet<OwnAddress> {
    let number = |hex: &str| u32::from_str_radix(hex, 16).ok().map(u32::from_be);
    // Destination, gateway and mask, in the byte order of the machine, which is that of all machines Basalt runs on.
    let network = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (to, via, mask) = (number(fields.get(1)?)?, number(fields.get(2)?)?, number(fields.get(7)?)?);
        (via == 0 && mask != 0).then_some((to, mask))
    };
    let networks: Vec<(u32, u32)> = route.lines().skip(1).filter_map(network).collect();
    let mut last = None;
    let mut all = BTreeSet::new();
    for line in fib_trie.lines().map(str::trim) {
        if let Some(leaf) = line.strip_prefix("|-- ") {
            last = leaf.parse::<Ipv4Addr>().ok();
        } else if line == "/32 host LOCAL"
            && let Some(ip) = last.filter(|ip| !ip.is_loopback() && !ip.is_link_local())
        {
            let of = networks.iter().filter(|(to, mask)| u32::from(ip) & mask == *to).map(|(_, mask)| mask.count_ones()).max();
            all.insert(OwnAddress { ip: ip.into(), bits: of.unwrap_or(32) as u8 });
        }
    }
    all
}

/// From `/proc/net/if_inet6`: those of global scope.
fn ipv6(if_inet6: &str) -> BTreeSet<OwnAddress> {
    const SCOPE_GLOBAL: &str = "00";
    let address = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let ip = u128::from_str_radix(fields.first()?, 16).ok()?;
        let bits = u8::from_str_radix(fields.get(2)?, 16).ok()?;
        (*fields.get(3)? == SCOPE_GLOBAL).then_some(OwnAddress { ip: Ipv6Addr::from(ip).into(), bits })
    };
    if_inet6.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIB_TRIE: &str = "Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.1.2.0/24 2 0 2
        |-- 10.1.2.0
           /24 link UNICAST
        |-- 10.1.2.7
           /32 host LOCAL
        |-- 10.1.2.255
           /32 link BROADCAST
     |-- 127.0.0.1
        /32 host LOCAL
     |-- 192.168.7.1
        /32 host LOCAL
";
    const ROUTE: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0102010A\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t0002010A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
";
    const IF_INET6: &str = "00000000000000000000000000000001 01 80 10 80       lo
fe80000000000000021632fffe3e9a21 02 40 20 80     eth0
20010db8000000000000000000000007 02 40 00 80     eth0
";

    fn spec(addr: &str, kind: ListenerKind, advertise: Option<&str>) -> ListenerSpec {
        ListenerSpec { addr: addr.parse().unwrap(), kind, advertise: advertise.map(|a| a.parse().unwrap()), security: Security::Encrypted }
    }
    fn own() -> Vec<OwnAddress> {
        ipv4(FIB_TRIE, ROUTE).into_iter().chain(ipv6(IF_INET6)).collect()
    }

    #[test]
    fn what_the_kernel_says_of_addresses_is_read() {
        let address = |ip: &str, bits| OwnAddress { ip: ip.parse().unwrap(), bits };
        assert_eq!(own(), [address("10.1.2.7", 24), address("192.168.7.1", 32), address("2001:db8::7", 64)]);
        assert_eq!((ipv4("", "").len(), ipv6("x y\n").len()), (0, 0));
        assert!(own_addresses().iter().all(|a| !a.ip.is_loopback() && !a.ip.is_unspecified()), "of this machine too");
    }

    #[test]
    fn a_listener_on_all_addresses_has_a_portal_in_each_network_and_one_that_is_configured_has_that() {
        let listeners = [
            spec("0.0.0.0:4420", ListenerKind::Io, None),
            spec("10.9.9.9:4421", ListenerKind::Io, None),
            spec("[::]:8009", ListenerKind::Discovery, None),
            spec("0.0.0.0:4422", ListenerKind::Io, Some("198.51.100.7:0")),
        ];
        let all = portals(&listeners, &own());
        let said: Vec<_> = all.iter().map(|p| (p.addr.to_string(), p.listener, p.network_bits)).collect();
        let said: Vec<_> = said.iter().map(|(a, n, b)| (a.as_str(), *n, *b)).collect();
        let wanted = [
            ("10.1.2.7:4420", 0, Some(24)),
            ("192.168.7.1:4420", 0, Some(32)),
            ("10.9.9.9:4421", 1, None),
            ("10.1.2.7:8009", 2, Some(24)),
            ("192.168.7.1:8009", 2, Some(32)),
            ("[2001:db8::7]:8009", 2, Some(64)),
            ("198.51.100.7:4422", 3, None),
        ];
        assert_eq!(said, wanted);
        assert!(all.iter().all(|p| p.security == Security::Encrypted && (p.kind == ListenerKind::Discovery) == (p.listener == 2)));
    }
}
