//! Two administrators at once: whatever one does between a decision of the other and its commit, it is as if one had come after the other.

use super::between::Between;
use super::*;
use crate::fake::FakePlane;
use cluster::reservation::Command;
use directory::modelled::{Faults, Modelled};
use frontend::{ControlRequest, ControlRequestId, ControlVerb, Refused, RequestedBy};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001";
const OTHER: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000002";
const GIB: u64 = 1 << 30;

fn from<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a request")
}

/// What happens before the commit after so many others.
type Next = Arc<Mutex<Option<(u32, Box<dyn FnOnce() + Send>)>>>;

struct World {
    control: Arc<Control>,
    plane: Arc<FakePlane>,
    next: Next,
}

fn world() -> World {
    let next: Next = Arc::default();
    let armed = Arc::clone(&next);
    let before = move |_: &Modelled, _: &Transaction| {
        let mut armed = armed.lock().unwrap();
        match armed.take() {
            Some((0, happens)) => {
                drop(armed);
                happens();
            }
            other => *armed = other.map(|(commits, happens)| (commits - 1, happens)),
        }
    };
    let directory = Modelled::new(1, base::ClusterId::from_bytes([1; 16]), Faults::NONE);
    let identity = Identity { node: "h1".into(), fault_domain: "h1".into(), version: "0".into(), cores: 1 };
    let plane = Arc::new(FakePlane::default());
    let control = Control::new(Arc::new(Between::new(directory, before)), plane.clone(), identity, drive::Scanner::default());
    control.start().unwrap();
    let c = &control;
    let group = json!({"name": "g1", "cache": {"path": "memory:1GiB"}, "capacity": [{"path": "memory:8GiB"}]});
    c.create_group(&from(group)).unwrap();
    c.create_policy(&from(json!({"name": "gold"}))).unwrap();
    c.create_policy(&from(json!({"name": "spare"}))).unwrap();
    c.create_policy(&from(json!({"name": "thick", "space_reservation_percent": 100}))).unwrap();
    c.create_policy(&from(json!({"name": "full", "space_reservation_percent": 100}))).unwrap();
    c.create_subsystem(&from(json!({"name": "s1", "allow_any_host": false, "hosts": [HOST]}))).unwrap();
    c.add_host(&from(json!({"name": "kvm1", "nqn": HOST}))).unwrap();
    c.create_volume(&from(json!({"name": "v1", "bytes": GIB, "policy": "gold"}))).unwrap();
    c.create_volume(&from(json!({"name": "v2", "bytes": GIB, "detached": true}))).unwrap();
    c.create_volume(&from(json!({"name": "big", "bytes": 6 * GIB, "policy": "thick", "subsystem": "s1"}))).unwrap();
    let grant = json!({"policy": "gold", "namespaces_max": 8, "bytes_max": 16 * GIB});
    c.change_subsystem(DEFAULT_NAME, &from(json!({"namespace_grant": grant}))).unwrap();
    World { control: Arc::new(control), plane, next }
}

/// A host asks by an NVMe command at the default subsystem.
fn ask(control: &Control, what: ControlVerb) -> Result<(), Problem> {
    let by = RequestedBy {
        host: HOST.into(),
        host_id: [1; 16],
        export: cluster::default_nqn(DEFAULT_NAME),
        session: 7,
        ports: Default::default(),
    };
    let request = ControlRequest { id: ControlRequestId { core: 0, serial: 1 }, by, what };
    let code = |refused| if refused == Refused::Busy { crate::Code::Conflict } else { crate::Code::Refused };
    control.decide(&request).map(drop).map_err(|refused| Problem::new(code(refused), refused.to_string(), ""))
}

fn ask_about(control: &Control, volume: &str, what: impl FnOnce(base::VolumeId) -> ControlVerb) -> Result<(), Problem> {
    ask(control, what(control.volume_record(volume)?.id))
}

/// What administrators do. `devices`: it acts on devices, one at a time.
#[derive(Clone, Copy)]
struct Deed {
    what: &'static str,
    devices: bool,
    doing: fn(&Control) -> Result<(), Problem>,
}

fn records(what: &'static str, doing: fn(&Control) -> Result<(), Problem>) -> Deed {
    Deed { what, devices: false, doing }
}

fn devices(what: &'static str, doing: fn(&Control) -> Result<(), Problem>) -> Deed {
    Deed { what, devices: true, doing }
}

fn deeds() -> Vec<Deed> {
    vec![
        records("create policy p", |c| c.create_policy(&from(json!({"name": "p"}))).map(drop)),
        records("limit policy gold", |c| c.change_policy("gold", &from(json!({"iops_limit": 100}))).map(drop)),
        records("limit policy gold otherwise", |c| {
            c.change_policy("gold", &from(json!({"iops_limit": 200, "bandwidth_limit": GIB}))).map(drop)
        }),
        records("mirror policy gold", |c| c.change_policy("gold", &from(json!({"failures_to_tolerate": 1}))).map(drop)),
        records("mirror policy spare", |c| c.change_policy("spare", &from(json!({"failures_to_tolerate": 1}))).map(drop)),
        records("name host kvm2", |c| c.add_host(&from(json!({"name": "kvm2", "nqn": OTHER}))).map(drop)),
        records("name another kvm2", |c| c.add_host(&from(json!({"name": "KVM2", "nqn": format!("{OTHER}1")}))).map(drop)),
        records("forget host kvm1", |c| c.remove_host("kvm1")),
        records("make subsystem s2", |c| c.create_subsystem(&from(json!({"name": "s2", "allow_any_host": true}))).map(drop)),
        records("delete subsystem s1", |c| c.delete_subsystem("s1", true)),
        records("delete subsystem default", |c| c.delete_subsystem(DEFAULT_NAME, true)),
        records("open subsystem s1", |c| c.change_subsystem("s1", &from(json!({"allow_any_host": true}))).map(drop)),
        records("allow a host at s1", |c| c.allow_host("s1", OTHER).map(drop)),
        records("deny kvm1 at s1", |c| c.deny_host("s1", "kvm1").map(drop)),
        records("attach v1 to s1", |c| c.attach_volume("s1", "v1", &Default::default()).map(drop)),
        records("attach v2 to s1", |c| c.attach_volume("s1", "v2", &Default::default()).map(drop)),
        records("attach w to s1", |c| c.attach_volume("s1", "w", &Default::default()).map(drop)),
        records("detach big from s1", |c| c.detach_volume("s1", "big").map(drop)),
        records("call v1 w", |c| c.change_volume("v1", &from(json!({"name": "w"}))).map(drop)),
        records("call v2 w", |c| c.change_volume("v2", &from(json!({"name": "w"}))).map(drop)),
        records("call v1 V1", |c| c.change_volume("v1", &from(json!({"name": "V1"}))).map(drop)),
        records("protect v1", |c| c.change_volume("v1", &from(json!({"read_only": true}))).map(drop)),
        records("a host protects v1", |c| {
            ask_about(c, "v1", |volume| ControlVerb::WriteProtect { volume, state: WriteProtect::Permanent })
        }),
        records("a host registers with v1", |c| {
            let command = Command::Register { nrkey: 5, ptpl: None };
            ask_about(c, "v1", |volume| ControlVerb::Reservation { volume, command })
        }),
        records("clear the reservation of v1", |c| c.clear_reservation("v1").map(drop)),
        records("a host hides v1", |c| ask(c, ControlVerb::DetachUnit { unit: 1, hosts: vec![HOST.into()] })),
        records("take the grant away", |c| c.change_subsystem(DEFAULT_NAME, &from(json!({"no_namespace_grant": true}))).map(drop)),
        devices("a host makes a namespace", |c| ask(c, ControlVerb::CreateUnit { blocks: 1 << 18, lba_bytes: 4096, shared: true })),
        devices("a host deletes v1", |c| ask(c, ControlVerb::DeleteUnit { unit: Some(1) })),
        devices("a host formats v1", |c| ask(c, ControlVerb::Format { unit: 1, lba_bytes: 512 })),
        devices("create volume w", |c| c.create_volume(&from(json!({"name": "w", "bytes": GIB, "policy": "spare"}))).map(drop)),
        devices("create volume w at s1", |c| {
            c.create_volume(&from(json!({"name": "w", "bytes": GIB, "policy": "gold", "subsystem": "s1"}))).map(drop)
        }),
        devices("create a volume without room", |c| {
            c.create_volume(&from(json!({"name": "w", "bytes": 3 * GIB, "policy": "full"}))).map(drop)
        }),
        devices("delete volume v1", |c| c.delete_volume("v1", false)),
        devices("grow volume v1", |c| c.resize_volume("v1", &from(json!({"bytes": 2 * GIB}))).map(drop)),
        devices("shrink volume big", |c| c.resize_volume("big", &from(json!({"bytes": GIB, "force": true}))).map(drop)),
        devices("grow volume big too far", |c| c.resize_volume("big", &from(json!({"bytes": 9 * GIB}))).map(drop)),
        devices("give v1 policy spare", |c| c.change_volume("v1", &from(json!({"policy": "spare"}))).map(drop)),
        devices("give v2 policy full and call it w", |c| {
            c.change_volume("v2", &from(json!({"policy": "full", "name": "w", "read_only": true}))).map(drop)
        }),
        devices("reserve for gold", |c| {
            c.change_policy("gold", &from(json!({"space_reservation_percent": 50, "bandwidth_limit": 2 * GIB}))).map(drop)
        }),
        devices("thin policy thick", |c| c.change_policy("thick", &from(json!({"space_reservation_percent": 0}))).map(drop)),
        devices("delete policy spare", |c| c.delete_policy("spare")),
        devices("delete policy gold", |c| c.delete_policy("gold")),
        devices("remove group g1", |c| c.remove_group("g1", true)),
    ]
}

impl World {
    /// What the directory says, by names: ids and times differ each time.
    fn summary(&self) -> String {
        let d = &*self.control.directory;
        let volumes = d.all::<VolumeRecord>().unwrap();
        let name = |id| volumes.iter().find(|v| v.id == id).map_or("nothing", |v| v.name.as_str());
        let mut lines = Vec::new();
        for v in &volumes {
            let under_way = (v.stage, v.resize_to, v.format_to);
            lines.push(format!("volume {} {} {} {} {:?} {under_way:?}", v.name, v.bytes, v.lba_bytes, v.policy, v.write_protect));
        }
        for o in d.all::<ObjectRecord>().unwrap() {
            let sizes: Vec<_> = o.components().map(|c| (c.bytes, c.reserve_chunks)).collect();
            lines.push(format!("object of {} {sizes:?}", name(o.volume)));
        }
        for r in d.all::<ReservationRecord>().unwrap() {
            lines.push(format!("reservation of {} {:?}", name(r.volume), r.state));
        }
        for p in d.all::<PolicyRecord>().unwrap() {
            lines.push(format!("policy {} {:?}", p.name, p.policy));
        }
        for s in d.all::<SubsystemRecord>().unwrap() {
            // Which number a namespace got depends on who came first.
            let mut shown: Vec<_> = s.namespaces.values().map(|n| (name(n.volume), &n.hosts)).collect();
            shown.sort_by_key(|(name, _)| *name);
            lines.push(format!("subsystem {} {} {:?} {shown:?} {:?}", s.name, s.allow_any_host, s.hosts, s.namespace_grant));
        }
        for h in d.all::<HostEntryRecord>().unwrap() {
            lines.push(format!("host {} {}", h.name, h.nqn));
        }
        for g in d.all::<GroupRecord>().unwrap() {
            lines.push(format!("group {} {:?}", g.name, g.stage));
        }
        lines.sort();
        lines.join("\n")
    }

    /// Nothing is half done.
    fn check(&self, after: &str) {
        let d = &*self.control.directory;
        check_served(&self.control, &self.plane, after);
        assert!(!self.control.work().unwrap(), "{after}: something is left to do");
        assert_eq!(self.control.tasks().unwrap(), [], "{after}");
        let volumes = d.all::<VolumeRecord>().unwrap();
        for s in d.all::<SubsystemRecord>().unwrap() {
            assert!(s.namespaces.values().all(|n| volumes.iter().any(|v| v.id == n.volume)), "{after}: {} shows what is gone", s.name);
        }
        for v in &volumes {
            assert_eq!(v.stage, Stage::Ready, "{after}");
            assert!(d.find::<PolicyRecord>(&v.policy).unwrap().is_some(), "{after}: {} has policy {}, which is gone", v.name, v.policy);
            assert_eq!(d.named(Kind::Volume, &v.name).unwrap(), Some(v.id()), "{after}");
        }
        let names = volumes.len()
            + [Kind::Node, Kind::Subsystem, Kind::HostEntry, Kind::Group].iter().map(|kind| d.list(*kind).unwrap().len()).sum::<usize>();
        assert_eq!(d.list(Kind::Name).unwrap().len(), names, "{after}: a name is held by nobody");
        let recorded: usize = d.all::<ObjectRecord>().unwrap().iter().map(|o| o.components().count()).sum();
        assert_eq!(self.plane.components().len(), recorded, "{after}: components");
    }

    fn one_after_the_other(first: Deed, second: Deed) -> (bool, bool, String) {
        let w = world();
        let done = ((first.doing)(&w.control).is_ok(), (second.doing)(&w.control).is_ok());
        w.check(&format!("{}, then {}", first.what, second.what));
        (done.0, done.1, w.summary())
    }
}

/// Does `first`, and `second` just before the commit of `first` that comes after so many others. `None`: there is no such commit.
fn at_once(first: Deed, second: Deed, commits: u32) -> Option<(bool, bool, String)> {
    let w = world();
    let outcome: Arc<Mutex<Option<Result<(), Problem>>>> = Arc::default();
    let (control, set) = (Arc::clone(&w.control), Arc::clone(&outcome));
    let happens = move || {
        let done = (second.doing)(&control);
        *set.lock().unwrap() = Some(done);
    };
    *w.next.lock().unwrap() = Some((commits, Box::new(happens)));
    let done = (first.doing)(&w.control);
    w.next.lock().unwrap().take();
    let other = outcome.lock().unwrap().take()?;
    let after = format!("{}, and {} before commit {commits} of it", first.what, second.what);
    for problem in [&done, &other].into_iter().filter_map(|d| d.as_ref().err()) {
        assert!(!matches!(problem.code, crate::Code::Conflict | crate::Code::Internal), "{after}: {problem:?}");
    }
    w.check(&after);
    Some((done.is_ok(), other.is_ok(), w.summary()))
}

/// What is in one outcome and not in each of the others, and the other way round.
fn differences(both: &(bool, bool, String), serial: &[(bool, bool, String)]) -> String {
    let mut words = format!("{:?}", (both.0, both.1));
    for one in serial {
        let (here, there): (Vec<_>, Vec<_>) = (both.2.lines().collect(), one.2.lines().collect());
        let only_here: Vec<_> = here.iter().filter(|l| !there.contains(l)).collect();
        let only_there: Vec<_> = there.iter().filter(|l| !here.contains(l)).collect();
        words += &format!("\n  not {:?}: {only_here:#?} for {only_there:#?}", (one.0, one.1));
    }
    words
}

#[test]
fn two_administrators_at_once_are_as_one_after_the_other() {
    let (all, mut wrong, mut serial) = (deeds(), Vec::new(), BTreeMap::new());
    for (n, first) in all.iter().enumerate() {
        // Who acts on devices waits for the other one.
        for (m, second) in all.iter().enumerate().filter(|(_, s)| !(first.devices && s.devices)) {
            for (a, b) in [(n, m), (m, n)] {
                serial.entry((a, b)).or_insert_with(|| World::one_after_the_other(all[a], all[b]));
            }
            let (second_done, first_done, summary) = &serial[&(m, n)];
            let serial = [serial[&(n, m)].clone(), (*first_done, *second_done, summary.clone())];
            for commits in 0.. {
                let Some(both) = at_once(*first, *second, commits) else { break };
                if !serial.contains(&both) {
                    let after = format!("{}, and {} before commit {commits} of it", first.what, second.what);
                    wrong.push(format!("{after}: {}", differences(&both, &serial)));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
}

/// Who loses decides again in turn: nobody hears that the others were faster.
#[test]
fn many_administrators_at_once_all_get_what_they_ask_for() {
    let w = world();
    let nqn = |n: usize| format!("{OTHER}{n}");
    std::thread::scope(|threads| {
        for n in 0..24 {
            let (control, nqn) = (&w.control, nqn(n));
            threads.spawn(move || {
                control.allow_host("s1", &nqn).unwrap();
                control.add_host(&from(json!({"name": format!("h{n}"), "nqn": nqn}))).unwrap();
            });
        }
    });
    let hosts = w.control.subsystem("s1").unwrap().hosts;
    assert!((0..24).all(|n| hosts.contains(&nqn(n))), "{hosts:?}");
    w.check("many at once");
}

/// A disk group that is being made, say, holds up what is on devices, and no change of records.
#[test]
fn changes_of_records_do_not_wait_for_devices() {
    let w = world();
    let working = w.control.devices();
    let (done, waiting) = std::sync::mpsc::channel();
    let control = Arc::clone(&w.control);
    let all = std::thread::spawn(move || {
        for deed in deeds().iter().filter(|d| !d.devices) {
            // Some cannot be done after those before them.
            drop((deed.doing)(&control));
        }
        done.send(()).unwrap();
    });
    let in_time = waiting.recv_timeout(Duration::from_secs(60));
    drop(working);
    all.join().unwrap();
    assert!(in_time.is_ok(), "one of them waited");
    w.check("all of them");
}
