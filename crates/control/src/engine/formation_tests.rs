//! What forming a cluster needs of the engine, and nodes as administrators change them.

use super::between::Between;
use super::*;
use crate::Code;
use crate::api::types::{NewGroup, NodeChange, PolicyChange};
use crate::fake::FakePlane;
use directory::modelled::{Faults, Modelled};
use serde_json::json;

fn directory() -> Modelled {
    Modelled::new(1, base::ClusterId::from_bytes([1; 16]), Faults::NONE)
}

/// A node that has started.
fn node(directory: impl Directory + 'static, name: &str) -> Arc<Control> {
    let identity = Identity { node: name.into(), fault_domain: name.into(), version: "1.0.0".into(), cores: 1 };
    let control = Control::new(Arc::new(directory), Arc::new(FakePlane::default()), identity, drive::Scanner::default());
    control.start().unwrap();
    Arc::new(control)
}

fn policy(name: &str) -> PolicyChange {
    PolicyChange { name: Some(name.into()), ..PolicyChange::default() }
}
fn renamed(to: &str) -> NodeChange {
    NodeChange { name: Some(to.into()), fault_domain: None }
}
fn group(control: &Control, name: &str) {
    let memory = |bytes: &str| json!({ "path": format!("memory:{bytes}") });
    let new: NewGroup =
        serde_json::from_value(json!({ "name": name, "cache": memory("1GiB"), "capacity": [memory("4GiB")], "shards": 1 })).unwrap();
    control.create_group(&new).unwrap();
}
fn names(control: &Control) -> Vec<String> {
    control.nodes().unwrap().into_iter().map(|n| n.name).collect()
}

#[test]
fn while_changes_are_held_none_is_taken_and_afterwards_they_are_unless_that_was_for_ever() {
    let d = directory();
    let control = node(d.clone(), "a");
    let held = control.hold_changes();
    let before = d.revision().unwrap();
    assert_eq!(control.create_policy(&policy("p")).unwrap_err().code, Code::Unavailable);
    assert_eq!(control.change_node("a", &renamed("b")).unwrap_err().code, Code::Unavailable);
    assert_eq!(d.revision().unwrap(), before);
    drop(held);
    control.create_policy(&policy("p")).unwrap();
    control.hold_changes().for_ever();
    assert_eq!(control.create_policy(&policy("q")).unwrap_err().code, Code::Unavailable);
    control.shutdown().unwrap();
}

#[test]
fn a_change_that_is_under_way_is_done_before_changes_are_held() {
    let d = directory();
    let (enters, entered) = std::sync::mpsc::channel();
    let (go, goes) = std::sync::mpsc::channel::<()>();
    let goes = Mutex::new(Some(goes));
    let armed = Arc::new(AtomicBool::new(false));
    let slow = Between::new(d.clone(), {
        let armed = armed.clone();
        move |_: &Modelled, _: &Transaction| {
            if armed.swap(false, Relaxed)
                && let Some(goes) = goes.lock().unwrap().take()
            {
                enters.send(()).unwrap();
                goes.recv().unwrap();
            }
        }
    });
    let control = node(slow, "a");
    armed.store(true, Relaxed);
    let changing = std::thread::spawn({
        let control = control.clone();
        move || control.create_policy(&policy("p")).map(drop)
    });
    entered.recv().unwrap();
    let holding = std::thread::spawn({
        let (control, d) = (control.clone(), d.clone());
        move || {
            let _held = control.hold_changes();
            d.all::<PolicyRecord>().unwrap().len()
        }
    });
    std::thread::sleep(Duration::from_millis(50));
    assert!(!holding.is_finished(), "it waits for what is under way");
    go.send(()).unwrap();
    changing.join().unwrap().unwrap();
    assert_eq!(holding.join().unwrap(), 2, "the default and the new one");
}

#[test]
fn only_what_is_shown_changes_with_the_name_of_a_node() {
    let d = directory();
    let control = node(d.clone(), "first");
    group(&control, "g");
    control.change_node("first", &renamed("rack4")).unwrap();
    assert_eq!((names(&control), control.groups().unwrap()[0].node.clone()), (vec!["rack4".to_owned()], "rack4".to_owned()));
    assert_eq!(control.status().unwrap().node, "rack4");
    let record = d.all::<GroupRecord>().unwrap();
    assert_eq!(record[0].node, "first", "records name it as before");
    // It is found by its name, by how records name it, and by its id, until another node has that name.
    let id = control.node("rack4").unwrap().id.unwrap();
    assert_eq!((control.node("first").unwrap().name, control.node(&id).unwrap().name), ("rack4".into(), "rack4".into()));
    // A restart takes the same record, and its groups are its own.
    drop(control);
    let again = node(d.clone(), "first");
    assert_eq!((names(&again), d.all::<NodeRecord>().unwrap().len()), (vec!["rack4".to_owned()], 1));
    again.change_node("rack4", &renamed("RACK4")).unwrap();
    assert_eq!(names(&again), ["RACK4"]);
    assert!(again.change_node("RACK4", &renamed("no name")).is_err());
    let changed = again.change_node("RACK4", &NodeChange { name: None, fault_domain: Some("row1".into()) }).unwrap();
    assert_eq!((changed.name.as_str(), changed.fault_domain.as_str()), ("RACK4", "row1"));
}

#[test]
fn two_nodes_do_not_get_one_name() {
    let d = directory();
    let (a, b) = (node(d.clone(), "a"), node(d.clone(), "b"));
    assert_eq!(a.change_node("b", &renamed("A")).unwrap_err().code, Code::Exists);
    a.change_node("a", &renamed("c")).unwrap();
    assert_eq!(b.change_node("b", &renamed("C")).unwrap_err().code, Code::Exists);
    // The old one is free, though records name the other node so.
    b.change_node("b", &renamed("a")).unwrap();
    assert_eq!((names(&a), a.node("a").unwrap().id), (vec!["a".to_owned(), "c".into()], b.own_record().unwrap().id.map(|i| i.to_string())));

    // At once: one decides while the other commits.
    let d = directory();
    let other = node(d.clone(), "b");
    let happens = Mutex::new(None::<Arc<Control>>);
    let happens = Arc::new(happens);
    let slow = Between::new(d.clone(), {
        let happens = happens.clone();
        move |_: &Modelled, _: &Transaction| {
            if let Some(other) = happens.lock().unwrap().take() {
                other.change_node("b", &renamed("x")).unwrap();
            }
        }
    });
    let a = node(slow, "a");
    *happens.lock().unwrap() = Some(other);
    assert_eq!(a.change_node("a", &renamed("x")).unwrap_err().code, Code::Exists);
}

#[test]
fn the_groups_of_a_node_that_goes_are_forgotten_and_volumes_there_only_when_forced() {
    let d = directory();
    let (a, b) = (node(d.clone(), "a"), node(d.clone(), "b"));
    group(&b, "gb");
    let new = serde_json::from_value(json!({ "name": "v", "bytes": 1 << 30 })).unwrap();
    b.create_volume(&new).unwrap();
    let of_b = a.find_node("b").unwrap().value;
    let refused = a.abandon_groups(&of_b, false).unwrap_err();
    assert!(refused.message.contains("gb") && refused.message.contains("1 volume"), "{refused:?}");
    assert_eq!((a.groups().unwrap().len(), a.volumes().unwrap().len()), (1, 1));
    a.abandon_groups(&of_b, true).unwrap();
    assert_eq!((d.list(Kind::Group).unwrap().len(), d.list(Kind::Volume).unwrap().len(), d.list(Kind::Object).unwrap().len()), (0, 0, 0));
    assert!(d.named(Kind::Volume, "v").unwrap().is_none() && d.named(Kind::Group, "gb").unwrap().is_none());
    a.abandon_groups(&of_b, false).unwrap();
}

#[test]
fn a_member_is_recognised_by_its_identity_until_it_is_removed() {
    let d = directory();
    let (a, b) = (node(d.clone(), "a"), node(d.clone(), "b"));
    let id = b.own_record().unwrap().id.unwrap();
    assert_eq!(a.member_with_id(id).unwrap().as_deref(), Some("b"));
    assert_eq!(a.member_with_id(base::NodeId::from_bytes([9; 16])).unwrap(), None);
    let mut record: Versioned<NodeRecord> = d.find("b").unwrap().unwrap();
    record.state = NodeState::Removed { unix_s: 1 };
    d.commit(&Transaction::new().update(&record)).unwrap();
    assert_eq!((a.member_with_id(id).unwrap(), names(&a)), (None, vec!["a".to_owned()]));
    assert!(a.node(&id.to_string()).unwrap().removed, "it is found by its id");
    assert_eq!(a.change_node(&id.to_string(), &renamed("c")).unwrap_err().code, Code::Refused);
}
