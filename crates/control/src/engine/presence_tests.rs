use super::*;
use crate::cluster_client::Sending;
use crate::fake::FakePlane;
use base::WriteProtect;
use directory::modelled::{Faults, Modelled};
use frontend::{ControlRequest, ControlRequestId, ControlVerb, Refused, RequestedBy};
use serde_json::json;

/// The way to one other node, which may be cut.
struct Wire {
    other: Arc<Control>,
    cut: Arc<AtomicBool>,
}

impl SendToNode for Wire {
    fn send(&self, node: &str, request: NodeRequest) -> Sending {
        let (other, cut, node) = (self.other.clone(), self.cut.load(Relaxed), node.to_owned());
        Box::pin(async move {
            if cut {
                return Err(SendError::NotSent { node, why: "cut".into() });
            }
            let at = request.path.rsplit('/').next().and_then(|at| at.parse().ok()).expect("only revisions are asked for");
            let served = other.serve_for_others(at).expect("served");
            Ok(NodeAnswer { status: 200, content_type: None, body: serde_json::to_vec(&served).unwrap() })
        })
    }
}

fn engine(directory: &Modelled, name: &str) -> Control {
    let identity = Identity { node: name.into(), fault_domain: name.into(), version: "1".into(), cores: 1 };
    Control::new(Arc::new(directory.clone()), Arc::new(FakePlane::default()), identity, drive::Scanner::default())
}

/// A host of `h2` protects a volume that `h1` owns.
#[test]
fn who_may_change_a_volume_is_answered_when_its_owner_serves_it() {
    let directory = Modelled::new(1, base::ClusterId::from_bytes([1; 16]), Faults::NONE);
    let h1 = Arc::new(engine(&directory, "h1"));
    h1.start().unwrap();
    let group = json!({"name": "g1", "cache": {"path": "memory:1GiB"}, "capacity": [{"path": "memory:8GiB"}]});
    h1.create_group(&serde_json::from_value(group).unwrap()).unwrap();
    h1.create_volume(&serde_json::from_value(json!({"name": "v1", "bytes": 1u64 << 30})).unwrap()).unwrap();

    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let cut = Arc::new(AtomicBool::new(true));
    let wire = Arc::new(Wire { other: h1.clone(), cut: cut.clone() });
    let h2 = engine(&directory, "h2").with_cluster(wire, runtime.handle().clone());
    h2.start().unwrap();
    let volume = h2.volume_record("v1").unwrap().id;
    let protect = |state| {
        let by = RequestedBy { host: "nqn.2014-08.org.example:h".into(), host_id: [1; 16], export: String::new(), session: 7 };
        let what = ControlVerb::WriteProtect { volume, state };
        h2.decide(&ControlRequest { id: ControlRequestId { core: 0, serial: 1 }, by, what }).map(drop)
    };
    let served = || h1.live().served;
    let before = served();
    assert_eq!(protect(WriteProtect::Protected), Err(Refused::Unserved), "its owner may still let others write");
    assert_eq!(served(), before);
    cut.store(false, Relaxed);
    protect(WriteProtect::Protected).unwrap();
    let written = directory.all::<VolumeRecord>().unwrap()[0].revision;
    assert!(served() >= written, "the owner serves it");
    // What its owner changes by itself needs nobody.
    cut.store(true, Relaxed);
    h1.change_volume("v1", &serde_json::from_value(json!({"read_only": false})).unwrap()).unwrap();
    drop(runtime);
}

fn said(free: u64) -> PresenceRecord {
    let device = DeviceReport { index: 0, bytes: 1000, free_bytes: free, used_bytes: 1000 - free };
    let group =
        GroupReport { id: GroupId::from_bytes([1; 16]), offline: None, devices: vec![device], buffer_bytes: 9, buffer_used_bytes: free };
    PresenceRecord {
        node: "h1".into(),
        incarnation: 1,
        release: "1".into(),
        cores: 2,
        started_unix_s: 0,
        groups: vec![group],
        checks: Vec::new(),
        reported_unix_s: free,
    }
}

#[test]
fn a_node_says_anew_what_others_act_on_and_not_every_byte() {
    let old = said(500);
    assert!(!is_worth_saying(&old, &old) && !is_worth_saying(&old, &said(505)));
    assert!(is_worth_saying(&old, &said(480)), "placement looks at it");
    let changed: [fn(&mut PresenceRecord); 5] = [
        |p| p.groups[0].offline = Some("gone".into()),
        |p| p.groups.clear(),
        |p| p.incarnation = 2,
        |p| p.groups[0].devices.clear(),
        |p| {
            let check = CheckReport {
                id: "x".into(),
                health: ReportHealth::Error,
                subject: "y".into(),
                message: String::new(),
                action: String::new(),
            };
            p.checks.push(check);
        },
    ];
    for (n, change) in changed.into_iter().enumerate() {
        let mut new = old.clone();
        change(&mut new);
        assert!(is_worth_saying(&old, &new), "{n}");
    }
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_are_noticed() {
    use base::hooks::{SeededFault, notices};
    notices(SeededFault::OwnerNotAwaited, who_may_change_a_volume_is_answered_when_its_owner_serves_it);
}
