//! What a directory of many records costs: 64 nodes with four disk groups each, 2,000 volumes, 10,000 components.
//!
//! `cargo run --release -p directory --example many_records -- [etcd|embedded] [NODES] [VOLUMES]`
//!
//! `etcd`: three members of the real server on this machine, their data on the disk below TMPDIR (or in memory, where it lies there), and as many
//! followers as there are nodes, each with a connection and a copy of its own. `embedded`: the directory of one node, in a file, with one follower.
//! One line of JSON says how much there is, and in milliseconds: the start of a node (open, snapshot, records, what to do), a change (until it is
//! durable), 8 writers at once (changes a second), until a change is at half of the followers and at all of them, and the processor time of one
//! node for a change (copy brought up to date, records, what to do).
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // a program of its own; it measures
#![forbid(unsafe_code)]

use base::{ClusterId, ComponentId, GroupId, NodeId, NodeSlot, ObjectId, VolumeId};
use cluster::{GroupSeen, Layout, MirrorSlots, Observed, Records, Slot, reconcile};
use directory::etcd::{Incarnation, Open};
use directory::record::{DeviceRecord, GroupRecord, NodeRecord, ObjectRecord, Stage, VolumeRecord};
use directory::{Directory, Embedded, EtcdDirectory, Kind, Transaction, Typed, View, records};
use etcd::Client;
use etcd::fixture::Members;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Disk groups of a node, and mirrors of a volume.
const GROUPS: usize = 4;
const MIRRORS: usize = 5;
/// Changes that are timed one after the other, and those of each of the writers at once.
const CHANGES: usize = 200;
const WRITERS: usize = 8;
const CHANGES_EACH: usize = 50;
/// Records that are made in one transaction, at most.
const AT_ONCE: usize = 32;
/// A change that has not come after so long never comes.
const LATE: Duration = Duration::from_secs(30);

fn id(kind: u8, n: usize) -> [u8; 16] {
    let mut bytes = [kind; 16];
    bytes[..8].copy_from_slice(&(n as u64 + 1).to_be_bytes());
    bytes
}
fn node_name(n: usize) -> String {
    format!("node-{n:02}")
}
fn group_of(node: usize, n: usize) -> GroupId {
    GroupId::from_bytes(id(1, node * GROUPS + n))
}
fn volume_id(n: usize) -> VolumeId {
    VolumeId::from_bytes(id(2, n))
}
fn object_id(n: usize) -> ObjectId {
    ObjectId::from_bytes(id(3, n))
}

fn node(n: usize) -> NodeRecord {
    let mut node = NodeRecord::new(node_name(n), format!("rack-{}", n / 8), 0);
    node.id = Some(NodeId::from_bytes(id(4, n)));
    node.slot = NodeSlot::new(n as u8);
    node.incarnation = 1;
    node.release = "1.2.3".into();
    node
}

fn group(node: usize, n: usize) -> GroupRecord {
    let device =
        |d: usize| DeviceRecord::Block { path: format!("/dev/disk/by-id/nvme-eui.0025385b{node:04x}{n:02x}{d:02x}"), bytes: 4 << 40 };
    GroupRecord {
        id: group_of(node, n),
        name: format!("group-{node}-{n}"),
        node: node_name(node),
        stage: Stage::Ready,
        cache: device(0),
        capacity: (1..5).map(device).collect(),
        changes: Default::default(),
        shards: 8,
        created_unix_s: 0,
    }
}

/// Volume `n` lies on one node, striped over its groups.
fn volume(n: usize, nodes: usize) -> (VolumeRecord, ObjectRecord) {
    let on = n % nodes;
    let mut volume = VolumeRecord::planned(volume_id(n), format!("volume-{n}"), 1 << 40, "default".into(), object_id(n), 0);
    volume.stage = Stage::Ready;
    let slot = |m: usize| Slot {
        node: node_name(on),
        group: group_of(on, m % GROUPS),
        capacity_index: (m % 4) as u8,
        bytes: 1 << 38,
        reserve_chunks: 0,
    };
    let layout = Layout { mirrors: (0..MIRRORS).map(|m| MirrorSlots { copies: vec![slot(m)] }).collect() };
    let component = |mirror: usize, _copy: usize| ComponentId::from_bytes(id(5, n * MIRRORS + mirror));
    let mut object = ObjectRecord::planned(object_id(n), volume_id(n), &layout, component);
    for (no, component) in object.components_mut().enumerate() {
        component.no = Some((n * MIRRORS + no) as u32);
    }
    (volume, object)
}

/// All records, some at a time. How many bytes their values have.
fn fill(directory: &dyn Directory, nodes: usize, volumes: usize) -> u64 {
    let mut steps = Vec::new();
    for n in 0..nodes {
        let groups = (0..GROUPS).map(|g| group(n, g));
        steps.push(groups.fold(Transaction::new().create(&node(n)), |t, group| t.create(&group).take_name(Kind::Group, &group.name, "x")));
    }
    for first in (0..volumes).step_by(AT_ONCE) {
        let made = (first..volumes.min(first + AT_ONCE)).map(|n| volume(n, nodes));
        steps.push(made.fold(Transaction::new(), |t, (v, o)| t.create(&v).create(&o).take_name(Kind::Volume, &v.name, &v.id.to_string())));
    }
    for step in &steps {
        directory.commit(step).expect("commits");
    }
    directory.snapshot().expect("a snapshot").entries.iter().map(|e| e.value.len() as u64).sum()
}

/// What node 0 sees of itself: all of its groups open, with the components that it has.
fn observed(records: &Records) -> Observed {
    let mut observed = Observed { node: node_name(0), ..Observed::default() };
    for group in records.groups.iter().filter(|g| g.node == observed.node) {
        let has = records.objects.iter().flat_map(ObjectRecord::components).filter(|c| c.group == group.id);
        observed.groups.insert(group.id, GroupSeen::Open(has.filter_map(|c| Some((c.id, c.no?))).collect()));
    }
    observed
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
fn at(sorted: &mut [f64], share: f64) -> f64 {
    sorted.sort_by(f64::total_cmp);
    sorted.get(((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

/// Writes the volume's record as it is, which is a change like every other.
fn touch(directory: &dyn Directory, n: usize) {
    loop {
        let found = directory.find::<VolumeRecord>(&volume_id(n).to_string()).expect("reads").expect("it is there");
        match directory.commit(&Transaction::new().update(&found)) {
            Ok(_) => return,
            Err(directory::DirectoryError::Conflict { .. }) => {}
            Err(e) => panic!("{e}"),
        }
    }
}

/// Times the changes of one writer, in milliseconds.
fn changes_of_one(directory: &dyn Directory, volumes: usize) -> Vec<f64> {
    let one = |n: usize| {
        let found = directory.find::<VolumeRecord>(&volume_id(n % volumes).to_string()).expect("reads").expect("it is there");
        let began = Instant::now();
        directory.commit(&Transaction::new().update(&found)).expect("commits");
        ms(began.elapsed())
    };
    (0..CHANGES).map(one).collect()
}

/// Changes a second of several writers at once, on different volumes.
fn changes_of_many(writers: &[Arc<dyn Directory>], volumes: usize) -> f64 {
    let began = Instant::now();
    std::thread::scope(|scope| {
        for (w, directory) in writers.iter().enumerate() {
            scope.spawn(move || (0..CHANGES_EACH).for_each(|n| touch(&**directory, (w * CHANGES_EACH + n) % volumes)));
        }
    });
    (writers.len() * CHANGES_EACH) as f64 / began.elapsed().as_secs_f64()
}

/// What followers have seen: the highest revision of each.
struct Followers {
    seen: Vec<Arc<AtomicU64>>,
    ends: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Followers {
    fn start(directories: &[Arc<dyn Directory>]) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let (mut seen, mut threads) = (Vec::new(), Vec::new());
        for directory in directories {
            let (mine, over) = (Arc::new(AtomicU64::new(0)), ends.clone());
            seen.push(mine.clone());
            let mut watch = directory.watch(directory.revision().expect("a revision")).expect("a watch");
            threads.push(std::thread::spawn(move || {
                while !over.load(SeqCst) {
                    if let Some(changes) = watch.wait(Duration::from_millis(100)).expect("changes") {
                        mine.store(changes.revision.0, SeqCst);
                    }
                }
            }));
        }
        Self { seen, ends, threads }
    }
    /// Until a change is at half of them, and at all.
    fn time(&self, change: impl FnOnce() -> u64) -> (f64, f64) {
        let began = Instant::now();
        let revision = change();
        let mut half = None;
        loop {
            let have = self.seen.iter().filter(|s| s.load(SeqCst) >= revision).count();
            if have * 2 >= self.seen.len() && half.is_none() {
                half = Some(ms(began.elapsed()));
            }
            if let (Some(half), true) = (half, have == self.seen.len()) {
                return (half, ms(began.elapsed()));
            }
            assert!(began.elapsed() < LATE, "a change does not come");
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    fn end(self) {
        self.ends.store(true, SeqCst);
        self.threads.into_iter().for_each(|t| t.join().expect("a follower"));
    }
}

/// Processor time of this thread, in milliseconds.
fn processor_ms() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux with schedstat");
    text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).expect("nanoseconds") / 1e6
}

/// What a node spends on a change that somebody else has made: for its copy, for the records of it, and for what it has to do.
fn cost_of_a_change(directory: &dyn Directory, volumes: usize) -> (f64, f64, f64) {
    let snapshot = directory.snapshot().expect("a snapshot");
    let mut watch = directory.watch(snapshot.revision).expect("a watch");
    let mut view = View::new(snapshot);
    let observed = observed(&records(&view).expect("records"));
    let (mut copy, mut decode, mut decide) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..20 {
        touch(directory, n % volumes);
        let changes = std::iter::repeat_with(|| watch.wait(LATE).expect("changes")).flatten().next().expect("one");
        let began = processor_ms();
        view.apply(changes);
        let applied = processor_ms();
        let records = records(&view).expect("records");
        let decoded = processor_ms();
        std::hint::black_box(reconcile(&records, &observed));
        copy.push(applied - began);
        decode.push(decoded - applied);
        decide.push(processor_ms() - decoded);
    }
    (at(&mut copy, 0.5), at(&mut decode, 0.5), at(&mut decide, 0.5))
}

fn measure(kind: &str, open: &dyn Fn(usize) -> Arc<dyn Directory>, followers: usize, nodes: usize, volumes: usize) {
    let first = open(0);
    let bytes = fill(&*first, nodes, volumes);
    let began = Instant::now();
    let again = open(1);
    let opened = ms(began.elapsed());
    let snapshot = again.snapshot().expect("a snapshot");
    let read = ms(began.elapsed());
    let (entries, view) = (snapshot.entries.len(), View::new(snapshot));
    let all = records(&view).expect("records");
    let todo = reconcile(&all, &observed(&all)).len();
    let started = ms(began.elapsed());
    let mut changes = changes_of_one(&*first, volumes);
    let more: Vec<Arc<dyn Directory>> = if followers > 1 { (2..followers + 2).map(open).collect() } else { vec![first.clone()] };
    let writers: Vec<_> = (0..WRITERS).map(|w| more[w % more.len()].clone()).collect();
    let at_once = changes_of_many(&writers, volumes);
    let following = Followers::start(&more);
    let (mut half, mut whole) = (Vec::new(), Vec::new());
    for n in 0..CHANGES / 2 {
        let found = first.find::<VolumeRecord>(&volume_id(n % volumes).to_string()).expect("reads").expect("it is there");
        let (to_half, to_all) = following.time(|| first.commit(&Transaction::new().update(&found)).expect("commits").0);
        half.push(to_half);
        whole.push(to_all);
    }
    following.end();
    let (copy, decode, decide) = cost_of_a_change(&*again, volumes);
    let figures = serde_json::json!({
        "directory": kind, "nodes": nodes, "volumes": volumes, "components": all.objects.iter().flat_map(ObjectRecord::components).count(),
        "entries": entries, "value_bytes": bytes, "actions_at_the_start": todo,
        "open_ms": opened, "snapshot_ms": read - opened, "start_ms": started,
        "change_ms": at(&mut changes, 0.5), "change_p99_ms": at(&mut changes, 0.99), "changes_a_second_of_8_writers": at_once,
        "followers": more.len(), "watch_half_ms": at(&mut half, 0.5), "watch_all_ms": at(&mut whole, 0.5), "watch_all_p99_ms": at(&mut whole, 0.99),
        "node_copy_ms": copy, "node_records_ms": decode, "node_decisions_ms": decide,
    });
    println!("{figures}");
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, otherwise: usize| arguments.get(at).map_or(otherwise, |a| a.parse().expect("a number"));
    let (kind, nodes, volumes) = (arguments.first().map_or("etcd", |k| k.as_str()), number(1, 64), number(2, 2000));
    assert!((1..=64).contains(&nodes) && (CHANGES..=20_000).contains(&volumes), "1 to 64 nodes, {CHANGES} to 20000 volumes");
    let cluster = ClusterId::from_random([7; 16]);
    match kind {
        "embedded" => {
            let dir = tempfile::tempdir().expect("a folder");
            let directory: Arc<dyn Directory> = Arc::new(Embedded::open(dir.path(), cluster).expect("opens"));
            // A file has one owner: who opens it again has closed it before, so the time to open is not measured.
            measure(kind, &|_| directory.clone(), 1, nodes, volumes);
        }
        "etcd" => {
            let members = Members::start(3, &[]);
            let open = |n: usize| -> Arc<dyn Directory> {
                let open = Open { cluster, writer: format!("n{n}"), incarnation: Incarnation([n as u8 + 1; 16]), seen: None };
                let client = Client::new(members.options()).expect("a client");
                let opened = if n == 0 { EtcdDirectory::create(client, open) } else { EtcdDirectory::open(client, open) };
                Arc::new(opened.expect("opens"))
            };
            measure(kind, &open, nodes, nodes, volumes);
        }
        other => panic!("'{other}' is neither etcd nor embedded"),
    }
}
