//! Two nodes change names.
//!
//! Owns: [`World::swapped`].
//! Invariant: swapped twice is the same; what can happen to a world can happen to the swapped one, swapped.
//! Never: changes anything but names.

use super::state::{Mask, Message, NodeNo, Record, Role, World};

fn node(n: &mut NodeNo, a: u8, b: u8) {
    *n = if *n == a {
        b
    } else if *n == b {
        a
    } else {
        *n
    };
}
fn mask(m: &mut Mask, a: u8, b: u8) {
    let (is_a, is_b) = (*m >> a & 1, *m >> b & 1);
    *m = *m & !(1 << a | 1 << b) | is_a << b | is_b << a;
}
fn record(r: &mut Record, a: u8, b: u8) {
    node(&mut r.owner, a, b);
    r.copies.swap(a.into(), b.into());
    r.synced_to.swap(a.into(), b.into());
}

impl World {
    /// The same world with the names of two nodes changed.
    pub fn swapped(&self, a: NodeNo, b: NodeNo) -> World {
        let mut world = self.clone();
        let (i, j) = (usize::from(a), usize::from(b));
        record(&mut world.record, a, b);
        for cas in &mut world.cas {
            node(&mut cas.from, a, b);
            record(&mut cas.new, a, b);
        }
        world.cas.sort_unstable();
        world.nodes.swap(i, j);
        for n in &mut world.nodes {
            n.cas.iter_mut().for_each(|cas| record(cas, a, b));
            if let Role::Owner(owner) = &mut n.role {
                record(&mut owner.record, a, b);
                mask(&mut owner.fenced, a, b);
                for op in &mut owner.ops {
                    mask(&mut op.targets, a, b);
                    mask(&mut op.acked, a, b);
                }
                owner.resync.iter_mut().for_each(|r| node(&mut r.copy, a, b));
            }
        }
        world.copies.swap(i, j);
        world.copies.iter_mut().for_each(|copy| node(&mut copy.by, a, b));
        for message in &mut world.messages {
            match message {
                Message::Fence { from, to, .. }
                | Message::Fenced { from, to, .. }
                | Message::Change { from, to, .. }
                | Message::Ack { from, to, .. }
                | Message::Release { from, to, .. } => {
                    node(from, a, b);
                    node(to, a, b);
                }
            }
        }
        world.messages.sort_unstable();
        world.heard.swap(i, j);
        world.grants.swap(i, j);
        world.grants.iter_mut().for_each(|of| of.swap(i, j));
        world.monitor.swap(i, j);
        world
    }
}
