//! Random operations, random deaths, and a model that knows for each block what it may hold.
//!
//! A block may hold the last value that was acknowledged, or one that was under way later and never acknowledged; once a read has
//! returned one of them, that is it. "Uncorrectable" is a value like others: [`LOST`], which a read returns by failing.

use super::harness::{Lab, Running, Setup, check_crcs, component_spec, read_op, values_of, write_op};
use crate::{ComponentNo, OpKind, Settings, StoreError};
use base::Duration;
use core::cell::RefCell;
use rt::Rt;
use rt::sim::{Rng, SimDeviceOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

type Key = (ComponentNo, u64);

/// The block was declared uncorrectable.
const LOST: u64 = u64::MAX;

/// What each block may hold.
#[derive(Default)]
struct Model {
    may: BTreeMap<Key, Vec<u64>>,
    next_value: u64,
    acknowledged: u64,
    verified: u64,
    no_space: u64,
}

impl Model {
    fn may(&mut self, key: Key) -> &mut Vec<u64> {
        self.may.entry(key).or_insert_with(|| vec![0])
    }
    fn saw(&mut self, key: Key, value: u64) {
        let may = self.may(key);
        assert!(may.contains(&value), "block {key:?} holds {value}, but may hold only {may:?}");
        *may = vec![value];
        self.verified += 1;
    }
}

struct Pending {
    component: ComponentNo,
    block: u64,
    /// What is written; empty for a read (and a flush, which has no blocks).
    values: Vec<u64>,
    blocks: u32,
}

struct Plan {
    rng: Rng,
    components: Vec<ComponentNo>,
    /// Blocks of each component that are used.
    span: u64,
    ops: u64,
    depth: usize,
    settings: Settings,
    verify_first: bool,
    shut_down: bool,
}

/// One life of the program, until it is through or killed.
async fn life(rt: Rt, running: Running, devices: Vec<rt::Device>, mut plan: Plan, model: Rc<RefCell<Model>>, over: Rc<RefCell<bool>>) {
    running.open(&rt, &devices, plan.settings).await.expect("a crash never makes a group unreadable");
    running.check();
    if plan.verify_first {
        verify_all(&rt, &running, &plan, &model).await;
    }
    let mut busy: BTreeSet<Key> = BTreeSet::new();
    let mut pending: BTreeMap<u64, Pending> = BTreeMap::new();
    let mut submitted = 0;
    while submitted < plan.ops || !pending.is_empty() {
        while submitted < plan.ops && pending.len() < plan.depth {
            submitted += 1;
            submit_one(&rt, &running, &mut plan, &model, &mut busy, &mut pending);
        }
        for done in running.take_done() {
            let op = pending.remove(&done.cookie).expect("submitted once, done once");
            settle(&mut model.borrow_mut(), &op, done, &mut busy);
        }
        if !pending.is_empty() {
            running.some_ended().await;
        }
        if plan.rng.one_in(50) {
            let nap = Duration::from_micros(plan.rng.below(30_000));
            rt.sleep(nap).await;
        }
    }
    running.check();
    if plan.shut_down {
        running.shut_down(&rt).await;
        running.check();
    }
    *over.borrow_mut() = true;
}

fn submit_one(
    rt: &Rt,
    running: &Running,
    plan: &mut Plan,
    model: &Rc<RefCell<Model>>,
    busy: &mut BTreeSet<Key>,
    pending: &mut BTreeMap<u64, Pending>,
) {
    let rng = &mut plan.rng;
    let component = plan.components[rng.below(plan.components.len() as u64) as usize];
    let mut blocks = match rng.below(20) {
        0 => 1 + rng.below(256),
        1..=4 => 1 + rng.below(40),
        5..=9 => 1 + rng.below(4),
        _ => 1,
    };
    let block = rng.below(plan.span);
    blocks = blocks.min(plan.span - block).min(256 - block % 256);
    let keys: Vec<Key> = (block..block + blocks).map(|b| (component, b)).collect();
    if keys.iter().any(|key| busy.contains(key)) {
        return;
    }
    let blocks = blocks as u32;
    let mut m = model.borrow_mut();
    let (kind, values) = match rng.below(100) {
        0..60 => {
            let values: Vec<u64> = keys
                .iter()
                .map(|_| {
                    m.next_value += 1;
                    m.next_value
                })
                .collect();
            (write_op(component, block, &values, !rng.one_in(8)), values)
        }
        60..85 => (read_op(blocks), Vec::new()),
        85..93 => (OpKind::Trim, vec![0; blocks as usize]),
        93..95 => (OpKind::Zero, vec![0; blocks as usize]),
        95..98 => (OpKind::Uncorrectable, vec![LOST; blocks as usize]),
        _ => {
            let cookie = running.submit(rt, component, 0, 0, OpKind::Flush);
            pending.insert(cookie, Pending { component, block: 0, values: Vec::new(), blocks: 0 });
            return;
        }
    };
    for (key, value) in keys.iter().zip(&values) {
        m.may(*key).push(*value);
    }
    drop(m);
    busy.extend(keys);
    let cookie = running.submit(rt, component, block, blocks, kind);
    pending.insert(cookie, Pending { component, block, values, blocks });
}

/// An operation has ended: what does that say?
fn settle(model: &mut Model, op: &Pending, done: crate::ShardDone, busy: &mut BTreeSet<Key>) {
    let keys = (op.block..op.block + u64::from(op.blocks)).map(|b| (op.component, b));
    for key in keys.clone() {
        busy.remove(&key);
    }
    match done.result {
        Ok(()) if op.values.is_empty() && op.blocks > 0 => {
            check_crcs(&done);
            let found = values_of(op.component, op.block, done.buf.as_ref().expect("a read has a buffer"));
            for (key, value) in keys.zip(found) {
                model.saw(key, value);
            }
        }
        Ok(()) => {
            model.acknowledged += 1;
            for (key, value) in keys.zip(&op.values) {
                *model.may(key) = vec![*value];
            }
        }
        // What lies before the first such block may not be: then the read would have named it.
        Err(StoreError::Uncorrectable { block }) if op.values.is_empty() => model.saw((op.component, block.0), LOST),
        Err(StoreError::NoSpace) => {
            model.no_space += 1;
            for (key, value) in keys.zip(&op.values) {
                let may = model.may(key);
                let at = may.iter().rposition(|v| v == value).expect("put there at submission");
                may.remove(at);
            }
        }
        Err(error) => panic!("{error} from healthy devices"),
    }
}

async fn verify_all(rt: &Rt, running: &Running, plan: &Plan, model: &Rc<RefCell<Model>>) {
    for component in &plan.components {
        let mut block = 0;
        while block < plan.span {
            let n = (plan.span - block).min(64 - block % 64); // within a piece
            match running.read(rt, *component, block, n as u32).await {
                Ok(found) => {
                    for (i, value) in found.into_iter().enumerate() {
                        model.borrow_mut().saw((*component, block + i as u64), value);
                    }
                    block += n;
                }
                // What comes before it is read alone, and then it is.
                Err(StoreError::Uncorrectable { block: bad }) if bad.0 > block => {
                    let before = running.read(rt, *component, block, (bad.0 - block) as u32).await.expect("readable before the first");
                    for (i, value) in before.into_iter().enumerate() {
                        model.borrow_mut().saw((*component, block + i as u64), value);
                    }
                    block = bad.0;
                }
                Err(StoreError::Uncorrectable { .. }) => {
                    model.borrow_mut().saw((*component, block), LOST);
                    block += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn device_options(rng: &mut Rng, slow: u64) -> SimDeviceOptions {
    SimDeviceOptions { volatile_cache: !rng.one_in(4), bytes_per_s: 3_000_000_000 / slow, ..SimDeviceOptions::default() }
}

/// One history; what it did.
fn history(seed: u64) -> (u64, u64, u64) {
    let mut rng = Rng::new(seed ^ 0x0057_0BE5);
    let slow = [1, 1, 10, 60][rng.below(4) as usize];
    let setup = Setup {
        cache_mib: 8 + rng.below(5),
        capacity_mib: vec![6 + rng.below(12), 6 + rng.below(12)],
        cache: device_options(&mut rng, 1),
        capacity: device_options(&mut rng, slow),
        components: vec![component_spec(1, 0, 0), component_spec(2, 1, rng.below(20)), component_spec(3, 0, 0)],
    };
    let span = [100, 600, 1500][rng.below(3) as usize];
    let mut lab = Lab::new(seed, &setup);
    let model = Rc::new(RefCell::new(Model::default()));
    let lives = 2 + rng.below(6);
    for n in 0..=lives {
        let last = n == lives;
        let over = Rc::new(RefCell::new(false));
        let low = rng.below(40) as f64 / 100.0;
        let plan = Plan {
            rng: Rng::new(rng.next_u64()),
            components: lab.components.clone(),
            span,
            ops: if last { 0 } else { 20 + rng.below(500) },
            depth: 1 + rng.below(24) as usize,
            settings: Settings {
                fill_low: low,
                fill_high: low + 0.3,
                idle_drain: Duration::from_millis(1 + rng.below(20)),
                scrub_bytes_per_s: 1 << 30,
                rules: crate::Rules::Smooth,
            },
            verify_first: last || rng.one_in(2),
            shut_down: rng.one_in(3),
        };
        let (running, devices) = (lab.running(), lab.devices.clone());
        let (m, o) = (Rc::clone(&model), Rc::clone(&over));
        lab.world.spawn(lab.host, 0, move |rt| life(rt, running, devices, plan, m, o));
        let scale = [2_000, 20_000, 400_000][rng.below(3) as usize];
        let limit = if last { 600_000_000 } else { 1 + rng.below(scale) };
        lab.world.run_until(Duration::from_micros(limit), || *over.borrow());
        if last {
            assert!(*over.borrow(), "seed {seed}: the last life did not come to its end");
            break;
        }
        if rng.one_in(3) {
            lab.world.kill_process(lab.host)
        } else {
            lab.world.kill(lab.host)
        }
        lab.world.start(lab.host);
    }
    let running = lab.running();
    if running.stats().log_bytes > 0 && !running.shard.borrow().as_ref().is_some_and(|shard| shard.is_quiet()) {
        scrub_clean(&mut lab, &running);
    }
    let m = model.borrow();
    (m.acknowledged, m.verified, m.no_space)
}

fn scrub_clean(lab: &mut Lab, running: &Running) {
    let running = running.clone();
    lab.world.block_on(lab.host, async |rt: Rt| {
        running.shard.borrow_mut().as_mut().expect("open").start_scrub(&rt);
        while running.stats().scrub_passes == 0 {
            rt.sleep(Duration::from_millis(5)).await;
        }
        let stats = running.stats();
        assert_eq!((stats.checksum_errors, stats.bad_blocks.len()), (0, 0), "scrub found bad blocks: {stats:?}");
    });
}

/// Seeds come from the environment when there are many to run by hand: STORE_SEEDS=first..last.
fn seeds() -> core::ops::Range<u64> {
    let text = std::env::var("STORE_SEEDS").unwrap_or_default();
    let mut parts = text.split("..").filter_map(|part| part.parse().ok());
    match (parts.next(), parts.next()) {
        (Some(first), Some(last)) => first..last,
        _ => 0..200,
    }
}

#[test]
fn whatever_dies_when_nothing_acknowledged_is_lost() {
    let mut total = (0, 0, 0);
    for seed in seeds() {
        let result = std::panic::catch_unwind(|| history(seed));
        let Ok((acknowledged, verified, no_space)) = result else {
            panic!("seed {seed} failed: STORE_SEEDS={seed}..{} shows it alone", seed + 1)
        };
        total = (total.0 + acknowledged, total.1 + verified, total.2 + no_space);
    }
    assert!(total.0 > 100 && total.1 > 1000, "the histories did nothing: {total:?}");
    println!("acknowledged {}, blocks verified {}, refused for space {}", total.0, total.1, total.2);
}

#[test]
fn a_seed_is_a_history_and_runs_the_same_again() {
    assert_eq!(history(4711), history(4711));
}
