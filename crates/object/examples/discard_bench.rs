//! What it costs to discard a volume to which nobody has written much, as `mkfs` does: 2 GiB at a time, one after the other. VolumeRouter and shards on one
//! core, on simulated devices; what is printed is processor time, and what the log takes.
//!
//! `cargo run --release -p object --example discard_bench -- [GiB of the volume [blocks written before, spread over it]]`
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // a program of its own; the clock is only for the report
#![forbid(unsafe_code)]

use base::unit::{BLOCK_BYTES, COMPONENT_BYTES_MAX};
use base::{ClusterId, ComponentId, Duration, GroupId, ObjectId, Ownership, VolumeId, crc32c};
use object::{
    Backend, ComponentAt, Data, DataVec, GroupRoute, GroupSlot, IoDone, IoOp, IoRequest, LaneCores, LayoutView, Limits, Mirror,
    VolumeLayout, VolumeRef, VolumeRouter,
};
use rt::sim::{SimDeviceOptions, World};
use rt::{App, Buf, Progress, Rt};
use std::sync::Arc;
use std::time::Instant;
use store::{ComponentSpec, FormatSpec, Settings, Shard, format_group, open_group};

const SHARDS: u8 = 4;
const STEP: u64 = 2 << 30;

struct Idle;
impl App for Idle {
    fn poll(&mut self, _: &Rt) -> Progress {
        Progress::Idle
    }
}

async fn call(rt: &Rt, router: &mut VolumeRouter, op: IoOp) -> IoDone {
    router.submit(rt, IoRequest::new(1, VolumeRef(0), op));
    loop {
        router.poll(rt, |_| true);
        while let Some((_, msg)) = router.pop_msg() {
            router.on_msg(rt, msg);
        }
        if let Some(done) = router.pop() {
            done.result.as_ref().expect("healthy devices");
            return done;
        }
        rt.sleep(Duration::from_micros(10)).await;
    }
}

/// Batches, and bytes of the log that are not data.
fn logged(router: &VolumeRouter) -> (u64, u64) {
    let stats: Vec<_> = router.lanes().shards().map(|(_, _, shard)| shard.stats()).collect();
    (stats.iter().map(|s| s.batches).sum(), stats.iter().map(|s| s.log_overhead_bytes).sum())
}

fn main() {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<u64>().expect("a number"));
    let (bytes, blocks) = (args.next().unwrap_or(16 << 10) << 30, args.next().unwrap_or(0));
    let mut world = World::new(1);
    let devices = vec![world.device(4 << 30, SimDeviceOptions::default()), world.device(16 << 30, SimDeviceOptions::default())];
    let host = world.add_host(1, |_| Box::new(Idle));
    world.block_on(host, async |rt: Rt| {
        let (cluster, group_id) = (ClusterId::from_bytes([1; 16]), GroupId::from_bytes([2; 16]));
        let spec = FormatSpec { cluster, group: group_id, name: "g".into(), shards: SHARDS, created_unix_s: 1, force: false };
        format_group(&rt, spec, &devices[0], &devices[1..]).await.expect("formats");
        let group = open_group(&rt, None, &devices).await.expect("opens");
        let route = GroupRoute { shards: SHARDS, first_core: 0 };
        let mut mirrors = vec![];
        for i in 0..bytes.div_ceil(COMPONENT_BYTES_MAX) {
            let (id, object) = (ComponentId::from_bytes([i as u8 + 1; 16]), ObjectId::from_bytes([9; 16]));
            let spec = ComponentSpec { id, object, capacity_index: 0, bytes: COMPONENT_BYTES_MAX, reserve_chunks: 0, descriptor: vec![] };
            let at = ComponentAt { group: GroupSlot(0), no: group.create_component(&rt, spec).await.expect("creates") };
            mirrors.push(Mirror::of_one(at, LaneCores::of_group(route, rt.cores())));
        }
        let mut router = VolumeRouter::new(&rt);
        for no in 0..SHARDS {
            router.lanes_mut().add_shard(GroupSlot(0), no, Shard::open(&rt, &group, no, Settings::default()).await.expect("opens"));
        }
        router.set_route(GroupSlot(0), Some(route));
        let id = VolumeId::from_bytes([7; 16]);
        let volume = VolumeLayout {
            id,
            lanes: VolumeRef(0),
            bytes,
            read_only: false,
            checksum: true,
            limits: Arc::new(Limits::default()),
            ownership: Ownership::FIRST,
            mirrors,
            owner: None,
            revision: 0,
        };
        router.apply(&rt, Arc::new(LayoutView { volumes: vec![Some(Arc::new(volume))], ..LayoutView::default() }), |_| true);
        for i in 0..blocks {
            let buf = Buf::copy_of(&[7; BLOCK_BYTES]);
            let crcs = [crc32c(&buf)].into_iter().collect();
            let offset = (bytes / blocks * i) / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
            let data = DataVec::from_iter([Data { buf, crcs }]);
            call(&rt, &mut router, IoOp::Write { offset, data }).await;
        }
        let (before, began) = (logged(&router), Instant::now());
        for offset in (0..bytes).step_by(STEP as usize) {
            call(&rt, &mut router, IoOp::Trim { offset, len: STEP.min(bytes - offset) }).await;
        }
        let (took, after) = (began.elapsed(), logged(&router));
        println!(
            "{} GiB with {blocks} blocks written, {} discards: {:.3} s of processor, {} batches, {} bytes of log",
            bytes >> 30,
            bytes.div_ceil(STEP),
            took.as_secs_f64(),
            after.0 - before.0,
            after.1 - before.1
        );
    });
}
