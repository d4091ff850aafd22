use super::*;
use crate::modelled::{Faults, Modelled};
use base::ClusterId;
use std::collections::BTreeMap;

fn record(node: &str, incarnation: u64) -> PresenceRecord {
    PresenceRecord {
        node: node.into(),
        incarnation,
        release: "0.1.0".into(),
        cores: 2,
        started_unix_s: 0,
        groups: Vec::new(),
        checks: Vec::new(),
        resyncs: Default::default(),
        resync_seconds: Default::default(),
        slow_copies: Default::default(),
        failed_copies: Default::default(),
        moves: Default::default(),
        reported_unix_s: 0,
    }
}
fn modelled(seed: u64, faults: Faults) -> Modelled {
    Modelled::new(seed, ClusterId::from_bytes([1; 16]), faults)
}
fn leader(directory: &Modelled) -> Option<String> {
    directory.find::<LeaderRecord>(LeaderRecord::ID).unwrap().map(|l| l.value.node)
}
fn present(directory: &Modelled) -> Vec<String> {
    directory.all::<PresenceRecord>().unwrap().into_iter().map(|p| p.value.node).collect()
}
fn at(s: f64) -> Duration {
    Duration::from_secs_f64(s)
}

/// A node with a clock of its own.
struct Node {
    presence: Presence,
    mine: PresenceRecord,
    nonces: u64,
}

impl Node {
    fn new(name: &str) -> Node {
        Node { presence: Presence::default(), mine: record(name, 1), nonces: name.bytes().map(u64::from).sum::<u64>() << 32 }
    }
    fn tick(&mut self, directory: &Modelled, now: Duration) -> Result<(), DirectoryError> {
        let nonces = &mut self.nonces;
        let nonce = || {
            *nonces += 1;
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&nonces.to_le_bytes());
            Nonce(bytes)
        };
        self.presence.tick(directory, now, &self.mine, nonce)
    }
}

#[test]
fn who_is_up_is_seen_and_one_leads() {
    let directory = modelled(1, Faults::NONE);
    let (mut a, mut b) = (Node::new("a"), Node::new("b"));
    a.tick(&directory, at(0.0)).unwrap();
    b.tick(&directory, at(0.0)).unwrap();
    assert_eq!((present(&directory), leader(&directory)), (vec!["a".into(), "b".into()], Some("a".into())));
    assert!(a.presence.leads(at(0.0)) && !b.presence.leads(at(0.0)));
    // What is said of it is brought up to date.
    b.mine.cores = 7;
    b.tick(&directory, at(1.0)).unwrap();
    assert_eq!(directory.find::<PresenceRecord>("b").unwrap().unwrap().value.cores, 7);
    // It goes in order: another one leads at once.
    a.presence.leave(&directory).unwrap();
    assert_eq!((present(&directory), leader(&directory)), (vec!["b".into()], None));
    b.tick(&directory, at(1.5)).unwrap();
    assert!(b.presence.leads(at(1.5)) && !a.presence.leads(at(1.5)));
}

#[test]
fn a_node_that_dies_is_gone_after_its_sessions_life_and_another_leads() {
    let directory = modelled(1, Faults::NONE);
    let (mut a, mut b) = (Node::new("a"), Node::new("b"));
    a.tick(&directory, at(0.0)).unwrap();
    let mut led = None;
    for tenth in 0..100 {
        let now = at(f64::from(tenth) / 10.0);
        directory.advance(now);
        b.tick(&directory, now).unwrap();
        assert!(!(a.presence.leads(now) && b.presence.leads(now)), "two lead at {now:?}");
        if b.presence.leads(now) && led.is_none() {
            led = Some(now);
        }
    }
    assert!(led.is_some_and(|t| t >= PRESENCE_TTL && t <= PRESENCE_TTL + Duration::from_secs(1)), "{led:?}");
    assert_eq!(present(&directory), ["b"]);
}

#[test]
fn a_restarted_node_takes_the_place_of_its_older_life() {
    let directory = modelled(1, Faults::NONE);
    let (mut old, mut new) = (Node::new("a"), Node::new("a"));
    old.tick(&directory, at(0.0)).unwrap();
    new.mine.incarnation = 2;
    new.nonces += 1 << 20;
    new.tick(&directory, at(0.1)).unwrap();
    assert_eq!(directory.find::<PresenceRecord>("a").unwrap().unwrap().value.incarnation, 2);
    assert!(!new.presence.leads(at(0.1)), "the older life leads until its session ends");
    // A pause of the old one, which then goes on: it does not write over the new one.
    old.mine.cores = 3;
    old.tick(&directory, at(0.2)).unwrap();
    assert_eq!(directory.find::<PresenceRecord>("a").unwrap().unwrap().value.incarnation, 2);
}

#[test]
fn a_node_that_hears_nothing_does_not_take_itself_for_the_leader() {
    let directory = modelled(1, Faults::NONE);
    let mut a = Node::new("a");
    a.tick(&directory, at(0.0)).unwrap();
    (0..3).for_each(|member| directory.set_up(member, false));
    for s in 1..10 {
        assert!(a.tick(&directory, at(f64::from(s))).is_err());
        assert_eq!(a.presence.leads(at(f64::from(s))), Duration::from_secs(s as u64) < PRESENCE_TTL, "after {s} s");
    }
}

#[test]
fn at_most_one_leads_and_one_does_again_after_any_trouble() {
    for seed in 0..60 {
        let directory = modelled(seed, Faults::MANY);
        let mut nodes: BTreeMap<usize, Node> = ["a", "b", "c"].iter().map(|n| Node::new(n)).enumerate().collect();
        let mut away = seed as usize % 3;
        for step in 0..600u32 {
            let now = at(f64::from(step) / 5.0);
            directory.advance(now);
            if step % 150 == 100 {
                away = (away + 1) % 3;
            }
            if step % 200 == 120 {
                directory.expire_sessions();
            }
            for (n, node) in &mut nodes {
                // One at a time is paused for ten seconds.
                if *n != away || step % 150 < 50 {
                    let _ = node.tick(&directory, now);
                }
            }
            let leading = nodes.values().filter(|n| n.presence.leads(now)).count();
            // Sessions that the model lets expire early are against what a node can know.
            assert!(leading <= 1 || step % 200 >= 120, "seed {seed}: {leading} lead at {now:?}");
        }
        directory.set_faults(Faults::NONE);
        for step in 600..660u32 {
            let now = at(f64::from(step) / 5.0);
            directory.advance(now);
            nodes.values_mut().for_each(|n| drop(n.tick(&directory, now)));
        }
        let now = at(660.0 / 5.0 - 0.2);
        assert_eq!(nodes.values().filter(|n| n.presence.leads(now)).count(), 1, "seed {seed}");
        assert_eq!(present(&directory).len(), 3, "seed {seed}");
    }
}
