//! Links that open, and what goes over them.

use super::rig::{BLOCK, PORT, Rig, data, tls};
use crate::LinkSecurity;
use base::Duration;
use object::{ForwardOutcome, IoOp};
use std::net::SocketAddr;

fn both() -> [LinkSecurity; 2] {
    [tls(), LinkSecurity::Plain]
}

/// Writes and reads from a core of each node; what is read is what was written, with the checksums that it came with.
fn works(rig: &mut Rig, core: usize) {
    for (n, bytes) in [(0, BLOCK), (1, BLOCK), (0, 128 << 10), (1, 512 << 10)] {
        let (written, offset) = (data(bytes, bytes as u8 ^ core as u8), (core << 24 | n << 20) as u64);
        let (bytes_in, crcs) = (written[0].buf.to_vec(), written[0].crcs.clone());
        let outcome = rig.forward(n, core, IoOp::Write { offset, data: written });
        assert!(matches!(outcome, Some(ForwardOutcome::Answered(Ok(_)))), "{outcome:?}");
        let outcome = rig.forward(n, core, IoOp::Read { offset, len: bytes as u32 });
        let Some(ForwardOutcome::Answered(Ok(data))) = outcome else { panic!("{outcome:?}") };
        assert!(data[0].buf[..] == bytes_in && data[0].crcs == crcs, "{bytes} bytes from node {n}");
    }
}

#[test]
fn what_is_written_over_a_link_is_read_over_it_with_tls_and_plain_on_every_core() {
    for (seed, security) in both().into_iter().enumerate() {
        for cores in [[1, 1], [3, 2], [2, 3], [1, 4]] {
            let mut rig = Rig::started(seed as u64 + 1, cores, security.clone());
            let lanes = cores[0].min(cores[1]);
            rig.open(lanes);
            (0..lanes).for_each(|core| works(&mut rig, core));
            let handshakes = if security == LinkSecurity::Plain { 0 } else { lanes as u64 + 1 };
            assert_eq!([0, 1].map(|n| rig.stat(n, |s| s.tls_handshakes)), [handshakes; 2]);
            assert_eq!([0, 1].map(|n| rig.stat(n, |s| s.refused_connections)), [0, 0]);
        }
    }
}

#[test]
fn what_came_over_tls_is_not_verified_again_and_what_came_plain_is() {
    for security in both() {
        let mut rig = Rig::started(3, [1, 1], security.clone());
        rig.open(1);
        let mut wrong = data(BLOCK, 1);
        wrong[0].crcs[0] ^= 1;
        let sum = wrong[0].crcs[0];
        let outcome = rig.forward(0, 0, IoOp::Write { offset: 0, data: wrong });
        if security == LinkSecurity::Plain {
            assert!(rig.has(1).is_empty() && rig.stat(1, |s| s.links_closed) == 1, "the link is at fault: {outcome:?}");
        } else {
            assert!(matches!(outcome, Some(ForwardOutcome::Answered(Ok(_)))), "{outcome:?}");
            assert_eq!(rig.has(1)[&0].1, sum, "neither compared nor computed anew");
        }
    }
}

#[test]
fn a_cut_at_any_moment_of_the_handshake_costs_that_connection_only() {
    for security in both() {
        for step in 0..40 {
            let mut rig = Rig::started(step + 10, [1, 1], security.clone());
            rig.world.run_for(Duration::from_micros(step * 20));
            rig.world.reset_connections(rig.hosts[0], rig.hosts[1]);
            rig.world.run_for(Duration::from_millis(1));
            rig.open(1);
            works(&mut rig, 0);
            rig.world.run_for(Duration::from_secs(3));
            assert_eq!([rig.conns(0), rig.conns(1)], [(0, 1); 2], "step {step}: one connection is left");
        }
    }
}

#[test]
fn a_handshake_that_stands_still_ends_in_time_at_both_nodes() {
    for step in 0..20 {
        let mut rig = Rig::started(step + 60, [1, 1], tls());
        rig.world.run_for(Duration::from_micros(100 + step * 25));
        let (from, to) = (rig.hosts[step as usize % 2], rig.hosts[1 - step as usize % 2]);
        rig.world.cut(from, to);
        rig.world.run_for(Duration::from_millis(2300));
        let (closed, opened) = (rig.stat(0, |s| s.links_closed), rig.stat(0, |s| s.links_opened));
        assert!(closed >= 1 || opened == 0, "step {step}");
        assert!(rig.conns(1).0 == 0, "step {step}: nobody waits for it");
        rig.world.heal(from, to);
        rig.open(1);
        works(&mut rig, 0);
    }
}

#[test]
fn what_takes_connections_and_says_nothing_is_given_up_in_time_and_tried_again() {
    for security in both() {
        let mut rig = Rig::new(6, [1, 1], security);
        let silent = SocketAddr::new(rig.world.addr(rig.nobody), PORT);
        let rt = rig.world.rt(rig.nobody, 0);
        let queue = rt.queue();
        rt.listen(&queue, 0, silent).unwrap();
        rig.said[0].addrs[1] = silent;
        rig.apply();
        rig.world.run_for(Duration::from_secs(9));
        assert!((3..6).contains(&rig.stat(0, |s| s.links_closed)), "{}", rig.stat(0, |s| s.links_closed));
        assert!(rig.conns(0).1 <= 1, "{:?}", rig.conns(0));
    }
}

#[test]
fn what_protects_the_links_can_be_changed() {
    let mut rig = Rig::started(5, [2, 2], LinkSecurity::Plain);
    rig.open(2);
    for security in [tls(), LinkSecurity::Plain, LinkSecurity::default(), tls()] {
        rig.said.iter_mut().for_each(|s| s.security = security.clone());
        rig.apply();
        if security == LinkSecurity::default() {
            rig.world.run_for(Duration::from_secs(3));
            assert_eq!([rig.conns(0), rig.conns(1)], [(0, 0); 2], "without a secret there are no links");
            continue;
        }
        rig.open(2);
        works(&mut rig, 1);
    }
    assert_eq!(rig.stat(0, |s| s.tls_handshakes), 6, "two links for requests and a control link, twice");
}
