//! A group with one shard on simulated devices, and a program that serves it.

use crate::{
    ComponentNo, ComponentSpec, Crcs, FormatSpec, OpKind, Settings, Shard, ShardDone, ShardOp, StoreError, format_group, open_group,
};
use base::unit::BLOCK_BYTES;
use base::{BlockNo, ClusterId, ComponentId, Duration, Epoch, GroupId, ObjectId, Order, Seq, crc32c};
use core::cell::{Cell, RefCell};
use rt::sim::{HostId, SimDeviceOptions, World};
use rt::sync::Notify;
use rt::{App, Buf, Device, Progress, Rt};
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;

/// A shard that runs, for its clients.
#[derive(Clone)]
pub struct Running {
    pub shard: Rc<RefCell<Option<Shard>>>,
    done: Rc<RefCell<BTreeMap<u64, ShardDone>>>,
    ended: Notify,
    cookies: Rc<Cell<u64>>,
}

/// The program on the core: polls the shard.
struct Program(Running);

impl App for Program {
    fn poll(&mut self, rt: &Rt) -> Progress {
        let mut cell = self.0.shard.borrow_mut();
        let Some(shard) = cell.as_mut() else { return Progress::Idle };
        let mut busy = shard.poll(rt);
        while let Some(done) = shard.pop_done() {
            self.0.done.borrow_mut().insert(done.cookie, done);
            busy = true;
        }
        if busy {
            self.0.ended.notify_all();
        }
        if busy { Progress::Busy } else { Progress::Idle }
    }
}

/// The order of the next change of this test: one owner, over all lives.
pub fn next_order() -> Order {
    thread_local!(static LAST: Cell<u64> = const { Cell::new(0) });
    LAST.set(LAST.get() + 1);
    Order { epoch: Epoch(1), period_start: Epoch(1), seq: Seq { term: Epoch(1), counter: LAST.get() }, mark: Seq::default() }
}

impl Running {
    fn new() -> Self {
        Self { shard: Rc::default(), done: Rc::default(), ended: Notify::new(), cookies: Rc::new(Cell::new(1)) }
    }

    /// Submits an operation; its cookie.
    pub fn submit(&self, rt: &Rt, component: ComponentNo, block: u64, blocks: u32, kind: OpKind) -> u64 {
        self.submit_as(rt, next_order(), component, block, blocks, kind)
    }

    /// The same, as the owner says it.
    pub fn submit_as(&self, rt: &Rt, order: Order, component: ComponentNo, block: u64, blocks: u32, kind: OpKind) -> u64 {
        let cookie = self.cookies.get();
        self.cookies.set(cookie + 1);
        let op = ShardOp { cookie, component, block: BlockNo(block), blocks, order, kind };
        self.shard.borrow_mut().as_mut().expect("open").submit(rt, op);
        // Submitting from a task: the program polls in the next turn of the loop.
        rt.wake(rt.core());
        cookie
    }

    pub fn take_done(&self) -> Vec<ShardDone> {
        core::mem::take(&mut *self.done.borrow_mut()).into_values().collect()
    }

    pub async fn some_ended(&self) {
        self.ended.notified().await;
    }

    /// Submits and waits.
    pub async fn call(&self, rt: &Rt, component: ComponentNo, block: u64, blocks: u32, kind: OpKind) -> ShardDone {
        self.call_as(rt, next_order(), component, block, blocks, kind).await
    }

    /// The same, as the owner says it.
    pub async fn call_as(&self, rt: &Rt, order: Order, component: ComponentNo, block: u64, blocks: u32, kind: OpKind) -> ShardDone {
        let cookie = self.submit_as(rt, order, component, block, blocks, kind);
        loop {
            if let Some(done) = self.done.borrow_mut().remove(&cookie) {
                return done;
            }
            self.ended.notified().await;
        }
    }
    pub async fn write(&self, rt: &Rt, component: ComponentNo, block: u64, values: &[u64]) -> Result<(), StoreError> {
        self.call(rt, component, block, values.len() as u32, write_op(component, block, values, true)).await.result
    }
    pub async fn trim(&self, rt: &Rt, component: ComponentNo, block: u64, blocks: u32) -> Result<(), StoreError> {
        self.call(rt, component, block, blocks, OpKind::Trim).await.result
    }
    /// The values that the blocks hold.
    pub async fn read(&self, rt: &Rt, component: ComponentNo, block: u64, blocks: u32) -> Result<Vec<u64>, StoreError> {
        let done = self.call(rt, component, block, blocks, read_op(blocks)).await;
        done.result?;
        check_crcs(&done);
        Ok(values_of(component, block, done.buf.as_ref().expect("a read has a buffer")))
    }
    /// Chunks in use.
    pub fn allocated(&self) -> u64 {
        self.shard.borrow().as_ref().expect("open").state().borrow().space.table().allocated()
    }
    pub fn stats(&self) -> crate::ShardStats {
        self.shard.borrow().as_ref().expect("open").stats()
    }
    /// Everything that must hold between operations.
    pub fn check(&self) {
        self.shard.borrow().as_ref().expect("open").check();
    }
    pub async fn shut_down(&self, rt: &Rt) {
        self.shard.borrow_mut().as_mut().expect("open").begin_shutdown(rt);
        while !self.shard.borrow().as_ref().expect("open").is_quiet() {
            rt.sleep(Duration::from_millis(1)).await;
        }
    }
    pub async fn open(&self, rt: &Rt, devices: &[Device], settings: Settings) -> Result<crate::Group, crate::GroupError> {
        let group = open_group(rt, None, devices).await?;
        let shard = Shard::open(rt, &group, 0, settings).await?;
        *self.shard.borrow_mut() = Some(shard);
        Ok(group)
    }
    /// Waits until everything is on capacity and the log is empty.
    pub async fn drained(&self, rt: &Rt) {
        for _ in 0..100_000 {
            let stats = self.stats();
            if stats.log_live_bytes == 0 && stats.log_used_bytes <= stats.log_bytes / 6 {
                return;
            }
            rt.sleep(Duration::from_millis(5)).await;
        }
        panic!("the log is not drained: {:?}", self.stats());
    }
}

pub fn read_op(blocks: u32) -> OpKind {
    let mut buf = Buf::alloc(blocks as usize * BLOCK_BYTES);
    buf.fill(0xEE);
    OpKind::Read { buf }
}

pub fn write_op(component: ComponentNo, block: u64, values: &[u64], checksum: bool) -> OpKind {
    let mut buf = Buf::alloc(values.len() * BLOCK_BYTES);
    for (i, (bytes, value)) in buf.chunks_exact_mut(BLOCK_BYTES).zip(values).enumerate() {
        fill(bytes, component, block + i as u64, *value);
    }
    let crcs: Crcs = buf.chunks_exact(BLOCK_BYTES).map(crc32c).collect();
    OpKind::Write { buf, crcs, checksum }
}

/// The content that stands for `value` (0: zeroes) at that block.
fn fill(bytes: &mut [u8], component: ComponentNo, block: u64, value: u64) {
    bytes.fill(0);
    if value == 0 {
        return;
    }
    let seed = value.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ block << 20 ^ u64::from(component.0);
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    for (i, word) in bytes[8..].chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&(seed.rotate_left(i as u32 % 63) ^ i as u64).to_le_bytes());
    }
}

/// What a buffer holds; panics when a block is not wholly one value's content.
pub fn values_of(component: ComponentNo, block: u64, buf: &[u8]) -> Vec<u64> {
    let mut expected = vec![0; BLOCK_BYTES];
    let one = |(i, bytes): (usize, &[u8])| {
        let value = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        fill(&mut expected, component, block + i as u64, value);
        assert!(bytes == expected, "block {} of {component} holds neither zeroes nor anything that was written to it", block + i as u64);
        value
    };
    buf.chunks_exact(BLOCK_BYTES).enumerate().map(one).collect()
}

pub fn check_crcs(done: &ShardDone) {
    let buf = done.buf.as_ref().expect("a read has a buffer");
    let crcs: Vec<u32> = buf.chunks_exact(BLOCK_BYTES).map(crc32c).collect();
    assert_eq!(crcs, done.crcs.to_vec(), "the checksums of a read are those of its data");
}

/// Sizes and speeds.
#[derive(Clone)]
pub struct Setup {
    pub cache_mib: u64,
    pub capacity_mib: Vec<u64>,
    pub cache: SimDeviceOptions,
    pub capacity: SimDeviceOptions,
    pub components: Vec<ComponentSpec>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            cache_mib: 9,
            capacity_mib: vec![16],
            cache: SimDeviceOptions::default(),
            capacity: SimDeviceOptions::default(),
            components: vec![component_spec(1, 0, 0)],
        }
    }
}

pub fn component_spec(id: u8, capacity_index: u8, reserve_chunks: u64) -> ComponentSpec {
    ComponentSpec {
        id: ComponentId::from_bytes([id; 16]),
        object: ObjectId::from_bytes([id; 16]),
        capacity_index,
        bytes: 1 << 30,
        reserve_chunks,
        descriptor: Vec::new(),
    }
}

/// A world with a formatted group on its devices.
pub struct Lab {
    pub world: World,
    pub host: HostId,
    pub devices: Vec<Device>,
    pub components: Vec<ComponentNo>,
    pub current: Rc<RefCell<Running>>,
}

impl Lab {
    pub fn new(seed: u64, setup: &Setup) -> Lab {
        let mut world = World::new(seed);
        let mut devices = vec![world.device(setup.cache_mib << 20, setup.cache.clone())];
        for mib in &setup.capacity_mib {
            devices.push(world.device(mib << 20, setup.capacity.clone()));
        }
        let current = Rc::new(RefCell::new(Running::new()));
        let shared = Rc::clone(&current);
        let host = world.add_host(1, move |_| {
            let running = Running::new();
            *shared.borrow_mut() = running.clone();
            Box::new(Program(running))
        });
        let (all, specs) = (devices.clone(), setup.components.clone());
        let components = world.block_on(host, async |rt| {
            let spec = FormatSpec {
                cluster: ClusterId::from_bytes([1; 16]),
                group: GroupId::from_bytes([2; 16]),
                name: "g".into(),
                shards: 1,
                created_unix_s: 1,
                force: false,
            };
            format_group(&rt, spec, &all[0], &all[1..]).await.expect("formats");
            let group = open_group(&rt, None, &all).await.expect("opens");
            let mut components = Vec::new();
            for spec in specs {
                components.push(group.create_component(&rt, spec).await.expect("creates"));
            }
            components
        });
        Lab { world, host, devices, components, current }
    }

    /// The shard's handle of this life of the host.
    pub fn running(&self) -> Running {
        self.current.borrow().clone()
    }

    /// Opens the shard, runs `f`, and leaves the shard open.
    pub fn with<T, F: Future<Output = T>>(&mut self, settings: Settings, f: impl FnOnce(Rt, Running) -> F) -> T {
        let running = self.running();
        let devices = self.devices.clone();
        self.world.block_on(self.host, async |rt: Rt| {
            if running.shard.borrow().is_none() {
                running.open(&rt, &devices, settings).await.expect("opens");
            }
            f(rt, running.clone()).await
        })
    }

    /// Power off and on again; the shard must be opened again.
    pub fn power_cycle(&mut self) {
        self.world.kill(self.host);
        self.world.start(self.host);
    }
}

pub fn quick() -> Settings {
    Settings { idle_drain: Duration::from_millis(20), ..Settings::default() }
}
