use crate::reconcile::*;
use crate::record::*;
use crate::reservation::{Command, ReservationType, State};
use base::{ComponentId, CopyState, GroupId, HostId, ObjectId, Ownership, VolumeId, WriteProtect};
use proptest::prelude::*;
use std::collections::BTreeMap;

const NODE: &str = "a";

fn group(n: u8, node: &str, stage: Stage, memory: bool) -> GroupRecord {
    let device = || match memory {
        true => DeviceRecord::Memory { bytes: 1 << 30, populated: false },
        false => DeviceRecord::File { path: format!("/g{n}"), bytes: 1 << 30 },
    };
    GroupRecord {
        id: GroupId::from_bytes([n; 16]),
        name: format!("g{n}"),
        node: node.into(),
        stage,
        cache: device(),
        capacity: vec![device()],
        changes: Default::default(),
        shards: 1,
        created_unix_s: 0,
    }
}

#[test]
fn devices_of_a_group_keep_their_numbers_and_those_that_left_are_given_again() {
    let mut g = group(1, NODE, Stage::Ready, false);
    let file = |name: &str| DeviceRecord::File { path: name.into(), bytes: 1 << 30 };
    assert_eq!([g.joins(file("/b")), g.joins(file("/c"))], [1, 2]);
    g.changes.clear();
    g.has_left(1);
    let numbers = |g: &GroupRecord| g.numbered().map(|(number, ..)| number).collect::<Vec<_>>();
    assert_eq!((numbers(&g), g.devices().count(), g.capacity.len()), (vec![0, 2], 3, 3));
    assert_eq!(g.joins(file("/d")), 1);
    assert_eq!(g.numbered().nth(1), Some((1, &file("/d"), Some(DeviceChange::Joins))));
    g.has_left(1);
    g.has_left(2);
    assert_eq!((numbers(&g), g.capacity.len()), (vec![0], 1), "no number is behind the last");
    assert!(g.changes.is_empty());
    g.joins(file("/e"));
    g.changes.insert(1, DeviceChange::Lost);
    assert_eq!((numbers(&g), g.devices().count()), (vec![0, 1], 2), "one that is lost is not opened");
}

fn component(n: u8, group: &GroupRecord, no: Option<u32>, state: CopyState) -> ComponentRecord {
    ComponentRecord {
        id: ComponentId::from_bytes([n; 16]),
        node: group.node.clone(),
        group: group.id,
        capacity_index: 0,
        no,
        bytes: 1 << 20,
        reserve_chunks: 0,
        state,
        synced_to: base::Epoch(0),
        leaving: false,
    }
}

fn volume(n: u8, stage: Stage, components: Vec<ComponentRecord>) -> (VolumeRecord, ObjectRecord) {
    let (id, object) = (VolumeId::from_bytes([n; 16]), ObjectId::from_bytes([n; 16]));
    let planned = VolumeRecord::planned(id, format!("v{n}"), 1 << 20, "default".into(), object, 0);
    let record = VolumeRecord { stage, ..planned };
    (record, ObjectRecord::new(object, id, vec![components]))
}

fn records(groups: Vec<GroupRecord>, volumes: Vec<(VolumeRecord, ObjectRecord)>) -> Records {
    let (volumes, objects) = volumes.into_iter().unzip();
    Records { groups, volumes, objects, ..Records::default() }
}

fn seen(group: &GroupRecord, found: &[(u8, u32)]) -> (GroupId, GroupSeen) {
    (group.id, GroupSeen::Open(found.iter().map(|(n, no)| (ComponentId::from_bytes([*n; 16]), *no)).collect()))
}

fn observed(groups: impl IntoIterator<Item = (GroupId, GroupSeen)>) -> Observed {
    let terms = (0..=u8::MAX).map(|n| (ObjectId::from_bytes([n; 16]), Ownership::FIRST.term)).collect();
    Observed { node: NODE.into(), terms, groups: groups.into_iter().collect(), ..Observed::default() }
}

fn reserved(volume: VolumeId, ptpl: bool) -> ReservationRecord {
    let mut state = State::default();
    state.execute(HostId::from_bytes([1; 16]), &Command::Register { nrkey: 1, ptpl: Some(ptpl) }).unwrap();
    state.execute(HostId::from_bytes([1; 16]), &Command::Acquire { crkey: 1, rtype: ReservationType::WriteExclusive }).unwrap();
    ReservationRecord { volume, state }
}

#[test]
fn a_component_never_becomes_active_by_being_found() {
    let g = group(1, NODE, Stage::Ready, false);
    use CopyState::*;
    for (before, after) in [(Active, Active), (Absent, Stale), (Degraded, Degraded), (Stale, Stale), (Resyncing, Resyncing)] {
        let r = records(vec![g.clone()], vec![volume(1, Stage::Ready, vec![component(5, &g, Some(3), before)])]);
        let actions = reconcile(&r, &observed([seen(&g, &[(5, 3)])]));
        let expected = Action::SetStates(r.objects[0].id, vec![(ComponentId::from_bytes([5; 16]), after)]);
        assert_eq!(actions, if before == after { vec![] } else { vec![expected] }, "{before:?}");
    }
}

#[test]
fn a_component_that_is_not_where_its_record_says_is_degraded() {
    let g = group(1, NODE, Stage::Ready, false);
    let r = records(vec![g.clone()], vec![volume(1, Stage::Ready, vec![component(5, &g, Some(3), CopyState::Active)])]);
    for found in [&[][..], &[(5, 4)], &[(6, 3)]] {
        let actions = reconcile(&r, &observed([seen(&g, found)]));
        assert_eq!(actions, [Action::SetStates(r.objects[0].id, vec![(ComponentId::from_bytes([5; 16]), CopyState::Degraded)])]);
    }
    assert_eq!(reconcile(&r, &observed([(g.id, GroupSeen::Offline)])), [], "of a group that is not open nothing is known");
}

#[test]
fn a_restart_ends_what_ends_with_it_for_volumes_of_this_node_only() {
    let (mine, other) = (group(1, NODE, Stage::Ready, false), group(2, "b", Stage::Ready, false));
    let here = |n| component(n, &mine, Some(n.into()), CopyState::Active);
    let there = |n| component(n, &other, Some(n.into()), CopyState::Active);
    let volumes = vec![
        volume(1, Stage::Ready, vec![here(1)]),
        volume(2, Stage::Ready, vec![there(2)]),
        volume(3, Stage::Ready, vec![here(3), there(4)]),
    ];
    let mut r = records(vec![mine.clone(), other], volumes);
    r.volumes.iter_mut().for_each(|v| v.write_protect = WriteProtect::UntilRestart);
    r.reservations = r.volumes.iter().map(|v| reserved(v.id, false)).collect();
    let mut o = observed([seen(&mine, &[(1, 1), (3, 3)])]);
    assert_eq!(reconcile(&r, &o), [], "it has not just started");
    o.restarted = only_on(&r, NODE);
    let (first, third) = (r.volumes[0].id, r.volumes[2].id);
    assert_eq!(o.restarted, [first].into());
    assert_eq!(reconcile(&r, &o), [Action::EndProtection(first), Action::EndReservation(first)]);
    r.reservations = r.volumes.iter().map(|v| reserved(v.id, true)).collect();
    assert_eq!(reconcile(&r, &o), [Action::EndProtection(first)], "what persists stays");
    // Others had the third one when it started.
    r.objects[2].mirrors[0].pop();
    assert!(only_on(&r, NODE).contains(&third));
    assert_eq!(reconcile(&r, &o), [Action::EndProtection(first)]);
}

#[test]
fn a_node_that_has_started_begins_a_term_for_each_object_that_only_it_has() {
    let (mine, other) = (group(1, NODE, Stage::Ready, false), group(2, "b", Stage::Ready, false));
    let here = |n: u8| component(n, &mine, Some(n.into()), CopyState::Active);
    let there = |n: u8| component(n, &other, Some(n.into()), CopyState::Active);
    let mut volumes: Vec<_> = (1..=120).map(|n| volume(n, Stage::Ready, vec![here(n)])).collect();
    volumes.push(volume(121, Stage::Ready, vec![there(121)]));
    volumes.push(volume(122, Stage::Ready, vec![here(122), there(123)]));
    let mut r = records(vec![mine.clone(), other], volumes);
    let found: Vec<_> = (1..=122).map(|n| (n, u32::from(n))).collect();
    let mut o = observed([seen(&mine, &found)]);
    assert_eq!(reconcile(&r, &o), [], "they are its own");
    o.terms.clear();
    let batches: Vec<usize> = reconcile(&r, &o).iter().map(|a| if let Action::BeginTerms(batch) = a { batch.len() } else { 0 }).collect();
    assert_eq!(batches.iter().sum::<usize>(), 120);
    assert!(batches.iter().all(|n| *n <= 100 && *n > 0), "{batches:?}");
    for action in reconcile(&r, &o) {
        carry_out(&mut r, &mut o, &action, &[true], &BTreeMap::new());
    }
    assert_eq!(reconcile(&r, &o), []);
    assert!(r.objects[..120].iter().all(|o| (o.ownership.epoch.0, o.ownership.term.0, o.ownership.period_start.0) == (2, 2, 1)));
    // Somebody else was the owner meanwhile.
    r.objects[5].ownership = r.objects[5].ownership.next_term().unwrap();
    assert_eq!(reconcile(&r, &o), [Action::BeginTerms(vec![(r.objects[5].id, r.objects[5].ownership.epoch)])]);
}

#[test]
fn groups_are_opened_made_anew_finished_or_forgotten() {
    let whole = || Some(GroupSeen::Open(BTreeMap::new()));
    for (stage, memory, seen, expected) in [
        (Stage::Ready, false, None, Some(Action::OpenGroup as fn(GroupId) -> Action)),
        (Stage::Ready, true, None, Some(Action::RemakeGroup)),
        (Stage::Ready, false, whole(), None),
        (Stage::Ready, false, Some(GroupSeen::Offline), None),
        (Stage::Creating, false, None, Some(Action::OpenGroup)),
        (Stage::Creating, false, whole(), Some(Action::GroupIsReady)),
        (Stage::Creating, false, Some(GroupSeen::Offline), Some(Action::ForgetGroup)),
        (Stage::Creating, true, None, Some(Action::ForgetGroup)),
        (Stage::Deleting, false, None, Some(Action::ForgetGroup)),
    ] {
        let g = group(1, NODE, stage, memory);
        let r = records(vec![g.clone(), group(2, "b", stage, memory)], vec![]);
        let o = observed(seen.clone().map(|s| (g.id, s)));
        assert_eq!(reconcile(&r, &o), Vec::from_iter(expected.map(|e| e(g.id))), "{stage:?} {memory} {seen:?}");
    }
}

#[test]
fn volumes_are_finished_when_all_groups_have_been_tried() {
    let g = group(1, NODE, Stage::Ready, false);
    let mut all = vec![volume(1, Stage::Creating, vec![component(1, &g, None, CopyState::Active)]), volume(2, Stage::Deleting, vec![])];
    for (n, set) in [(3, (Some(5), None)), (4, (None, Some(512)))] {
        let mut v = volume(n, Stage::Ready, vec![]);
        (v.0.resize_to, v.0.format_to) = set;
        all.push(v);
    }
    let r = records(vec![g.clone()], all);
    assert_eq!(reconcile(&r, &observed([])), [Action::OpenGroup(g.id)]);
    let what = [Finish::Create, Finish::Delete, Finish::Resize, Finish::Format];
    let expected: Vec<Action> = r.volumes.iter().zip(what).map(|(v, f)| Action::Finish(v.id, f)).collect();
    assert_eq!(reconcile(&r, &observed([seen(&g, &[])])), expected);
    assert_eq!(reconcile(&r, &observed([(g.id, GroupSeen::Offline)])), expected, "also when one is offline: others can be finished");
    let mut r = r;
    r.groups.push(group(2, NODE, Stage::Deleting, false));
    let with = [vec![Action::ForgetGroup(r.groups[1].id)], expected].concat();
    assert_eq!(reconcile(&r, &observed([seen(&g, &[])])), with, "a group that cannot be forgotten holds nothing up");
}

#[test]
fn copies_that_are_added_or_leave_are_for_their_nodes_and_no_term_begins_with_them() {
    let (g, there) = (group(1, NODE, Stage::Ready, false), group(2, "b", Stage::Ready, false));
    let here = component(1, &g, Some(1), CopyState::Active);
    let added = component(2, &there, None, CopyState::Absent);
    let r = records(vec![g.clone(), there.clone()], vec![volume(1, Stage::Ready, vec![here.clone(), added.clone()])]);
    let copies = |r: &Records| vec![Action::Finish(r.volumes[0].id, Finish::Copies)];
    let at = |node: &str, r: &Records| {
        let groups = [seen(&g, &[(1, 1)]), seen(&there, &[(2, 1)])];
        let terms = r.objects.iter().map(|o| (o.id, o.ownership.term)).collect();
        Observed { node: node.into(), terms, ..observed(groups) }
    };
    assert_eq!((reconcile(&r, &at(NODE, &r)), reconcile(&r, &at("b", &r))), (vec![], copies(&r)));
    assert!(serving(&r.objects[0], &at(NODE, &r)).is_ok(), "it is served as before");
    let mut made = r.clone();
    made.objects[0].mirrors[0][1].no = Some(1);
    assert_eq!((reconcile(&made, &at(NODE, &made)), reconcile(&made, &at("b", &made))), (vec![], vec![]));
    let mut leaves = made.clone();
    leaves.objects[0].owner = Some(NODE.into());
    leaves.objects[0].mirrors[0][1].leaving = true;
    assert_eq!((reconcile(&leaves, &at(NODE, &leaves)), reconcile(&leaves, &at("b", &leaves))), (vec![], copies(&leaves)));
    leaves.objects[0].mirrors[0].pop();
    let restarted = Observed { terms: BTreeMap::new(), ..at(NODE, &leaves) };
    assert_eq!(reconcile(&leaves, &restarted), [], "the machine of its owner begins its terms");
    let mut alone = leaves.clone();
    alone.objects[0].owner = None;
    assert_eq!(reconcile(&alone, &restarted).len(), 1);
}

/// A volume is not finished by a decision that does not know yet what was found of its components.
#[test]
fn a_volume_is_finished_when_what_was_found_of_its_components_is_noted() {
    let (g, m) = (group(1, NODE, Stage::Ready, false), group(2, NODE, Stage::Ready, true));
    let part = |n, of: &GroupRecord| vec![component(n, of, Some(1), CopyState::Active)];
    let r = records(
        vec![g.clone(), m.clone()],
        vec![volume(1, Stage::Deleting, part(1, &g)), volume(2, Stage::Deleting, part(2, &m)), volume(3, Stage::Deleting, part(3, &g))],
    );
    let finish = |n: usize| Action::Finish(r.volumes[n].id, Finish::Delete);
    let absent = Action::SetStates(r.objects[0].id, vec![(ComponentId::from_bytes([1; 16]), CopyState::Degraded)]);
    let lost = Action::LoseComponents(r.objects[1].id, m.id);
    let mut expected = vec![absent, lost, finish(2)];
    expected.sort();
    assert_eq!(reconcile(&r, &observed([seen(&g, &[(3, 1)]), seen(&m, &[])])), expected);
    assert_eq!(reconcile(&r, &observed([seen(&g, &[(1, 1), (3, 1)]), seen(&m, &[(2, 1)])])), [0, 1, 2].map(finish));
}

#[test]
fn an_object_is_served_when_each_component_is_in_use_on_an_open_group() {
    let g = group(1, NODE, Stage::Ready, false);
    let of = |no, state| volume(1, Stage::Ready, vec![component(5, &g, no, state)]).1;
    let id = ComponentId::from_bytes([5; 16]);
    let (open, closed) = (observed([seen(&g, &[(5, 3)])]), observed([(g.id, GroupSeen::Offline)]));
    assert_eq!(serving(&of(Some(3), CopyState::Active), &open), Ok(vec![vec![Usable { id, group: g.id, no: 3 }]]));
    for not_open in [closed, observed([])] {
        assert_eq!(serving(&of(Some(3), CopyState::Active), &not_open), Err(NotServed::Group(g.id)));
    }
    assert_eq!(serving(&of(None, CopyState::Active), &open), Err(NotServed::NotMade));
    for state in [CopyState::Absent, CopyState::Degraded, CopyState::Stale, CopyState::Resyncing] {
        assert_eq!(serving(&of(Some(3), state), &open), Err(NotServed::Component(id, g.id)), "{state:?} is never read");
    }
    let mut elsewhere = of(Some(3), CopyState::Active);
    elsewhere.ownership = elsewhere.ownership.next_term().unwrap();
    assert_eq!(serving(&elsewhere, &open), Err(NotServed::NotTaken));
    assert_eq!(serving(&elsewhere, &Observed::default()), Err(NotServed::NotTaken));
}

/// A node that carries actions out as well as it can; `works` says which attempts to open a group succeed.
fn carry_out(records: &mut Records, observed: &mut Observed, action: &Action, opens: &[bool], found: &BTreeMap<GroupId, GroupSeen>) {
    let at = |id: &GroupId| id.as_bytes()[0] as usize;
    match action {
        Action::EndProtection(id) => {
            records.volumes.iter_mut().filter(|v| v.id == *id).for_each(|v| v.write_protect = WriteProtect::None);
        }
        Action::EndReservation(id) => records.reservations.retain(|r| r.volume != *id),
        Action::BeginTerms(objects) => {
            for (id, seen) in objects {
                let object = records.objects.iter_mut().find(|o| o.id == *id).unwrap();
                assert_eq!(object.ownership.epoch, *seen);
                object.ownership = object.ownership.next_term().unwrap();
                observed.terms.insert(*id, object.ownership.term);
            }
        }
        Action::OpenGroup(id) if !opens[at(id) % opens.len()] => drop(observed.groups.insert(*id, GroupSeen::Offline)),
        Action::OpenGroup(id) => drop(observed.groups.insert(*id, found.get(id).cloned().unwrap_or(GroupSeen::Open(BTreeMap::new())))),
        Action::RemakeGroup(id) => drop(observed.groups.insert(*id, GroupSeen::Open(BTreeMap::new()))),
        Action::GroupIsReady(id) => records.groups.iter_mut().filter(|g| g.id == *id).for_each(|g| g.stage = Stage::Ready),
        Action::ForgetGroup(id) => records.groups.retain(|g| g.id != *id),
        Action::LoseComponents(id, group) => {
            let object = records.objects.iter_mut().find(|o| o.id == *id).unwrap();
            object.components_mut().filter(|c| c.group == *group).for_each(|c| c.no = None);
        }
        Action::SayCopies { object, node, copies } => {
            let object = records.objects.iter_mut().find(|o| o.id == *object).unwrap();
            object.heard.nodes.insert(node.clone());
            object.heard.copies.extend_from_slice(copies);
        }
        Action::SetStates(id, states) => {
            let object = records.objects.iter_mut().find(|o| o.id == *id).unwrap();
            for c in object.components_mut() {
                c.state = states.iter().find(|(s, _)| *s == c.id).map_or(c.state, |(_, state)| *state);
            }
        }
        Action::Finish(id, what) => finish(records, observed, *id, *what),
    }
}

/// The share of a node of a change of a volume.
fn finish(records: &mut Records, observed: &mut Observed, id: VolumeId, what: Finish) {
    let node = observed.node.as_str();
    let v = records.volumes.iter_mut().find(|v| v.id == id).unwrap();
    let object = records.objects.iter_mut().find(|o| o.id == v.object).unwrap();
    match what {
        Finish::Create => {
            for c in object.components_mut().filter(|c| c.node == node && c.no.is_none()) {
                c.no = Some(77);
                if let Some(GroupSeen::Open(there)) = observed.groups.get_mut(&c.group) {
                    there.insert(c.id, 77);
                }
            }
            if object.components().all(|c| c.no.is_some()) {
                v.stage = Stage::Ready;
            }
        }
        Finish::Resize => {
            let (bytes, mirrors) = (v.resize_to.unwrap(), object.mirrors.len());
            object.components_mut().filter(|c| c.node == node).for_each(|c| c.bytes = crate::component_bytes(bytes, mirrors));
            if object.components().all(|c| crate::is_sized(c, v, object, None)) {
                v.resize_to = None;
            }
        }
        Finish::Format => v.format_to = None,
        Finish::Copies => {
            for c in object.components_mut().filter(|c| c.node == node && c.no.is_none() && !c.leaving) {
                c.no = Some(77);
                if let Some(GroupSeen::Open(there)) = observed.groups.get_mut(&c.group) {
                    there.insert(c.id, 77);
                }
            }
            object.mirrors.iter_mut().for_each(|copies| copies.retain(|c| !(c.leaving && c.node == node)));
        }
        Finish::Delete => {
            object.mirrors.iter_mut().for_each(|copies| copies.retain(|c| c.node != node));
            if object.components().next().is_none() {
                records.volumes.retain(|v| v.id != id);
            }
        }
    }
}

fn some_records() -> impl Strategy<Value = (Records, BTreeMap<GroupId, GroupSeen>)> {
    let stage = || prop_oneof![1 => Just(Stage::Creating), 3 => Just(Stage::Ready), 1 => Just(Stage::Deleting)];
    use CopyState::*;
    let state = prop_oneof![3 => Just(Active), 1 => Just(Absent), 1 => Just(Degraded), 1 => Just(Stale), 1 => Just(Resyncing)];
    let groups = prop::collection::vec((stage(), any::<bool>(), any::<bool>()), 1..5);
    let part = (any::<prop::sample::Index>(), prop::option::of(0u32..4), state, any::<bool>());
    let volumes = prop::collection::vec(
        (stage(), prop::collection::vec(part, 1..3), any::<bool>(), prop::option::of(any::<bool>()), prop::option::of(1u64..9)),
        0..6,
    );
    (groups, volumes).prop_map(|(groups, volumes)| {
        let groups: Vec<GroupRecord> = groups
            .into_iter()
            .enumerate()
            .map(|(n, (stage, memory, mine))| group(n as u8, if mine { NODE } else { "b" }, stage, memory))
            .collect();
        let (mut found, mut all, mut reservations) = (BTreeMap::new(), Vec::new(), Vec::new());
        let mut next = 0u8;
        for (n, (stage, parts, protect, ptpl, resize)) in volumes.into_iter().enumerate() {
            let mut components = Vec::new();
            for (which, no, state, there) in parts {
                let group = which.get(&groups);
                next += 1;
                // A copy is added to a volume that is ready and has others.
                let added = stage == Stage::Ready && !components.is_empty();
                let state = if no.is_some() || added { state } else { Active };
                components.push(component(next, group, no, state));
                let GroupSeen::Open(held) = found.entry(group.id).or_insert(GroupSeen::Open(BTreeMap::new())) else { continue };
                if let (Some(no), true) = (no, there) {
                    held.insert(ComponentId::from_bytes([next; 16]), no);
                }
            }
            let mut v = volume(n as u8, stage, components);
            v.0.resize_to = resize;
            if protect {
                v.0.write_protect = WriteProtect::UntilRestart;
            }
            reservations.extend(ptpl.map(|ptpl| reserved(v.0.id, ptpl)));
            all.push(v);
        }
        (Records { reservations, ..records(groups, all) }, found)
    })
}

proptest! {
    #[test]
    fn it_comes_to_rest_and_touches_nothing_of_another_node((mut r, found) in some_records(), opens in prop::collection::vec(any::<bool>(), 1..5)) {
        let before = r.clone();
        let mut o = Observed { node: NODE.into(), restarted: only_on(&r, NODE), ..Observed::default() };
        let mut rounds = 0;
        loop {
            let actions = reconcile(&r, &o);
            let mut turned = r.clone();
            turned.groups.reverse();
            turned.volumes.reverse();
            turned.objects.reverse();
            turned.reservations.reverse();
            prop_assert_eq!(&actions, &reconcile(&turned, &o), "the order of records does not matter");
            if actions.is_empty() {
                break;
            }
            rounds += 1;
            prop_assert!(rounds < 8, "it does not come to rest: {:?}", actions);
            for action in &actions {
                carry_out(&mut r, &mut o, action, &opens, &found);
            }
        }
        for (object, now) in before.objects.iter().zip(&r.objects) {
            for was in object.components() {
                let Some(is) = now.components().find(|is| is.id == was.id) else {
                    prop_assert!(was.node == NODE, "a component of another node");
                    continue;
                };
                prop_assert!(was.node == NODE || was == is, "a component of another node");
                prop_assert!(is.state != CopyState::Active || was.state == CopyState::Active, "active by being found");
            }
        }
        for was in &before.groups {
            prop_assert!(was.node == NODE || r.groups.contains(was), "a group of another node");
        }
        for was in &before.volumes {
            let object = before.objects.iter().find(|o| o.id == was.object).unwrap();
            let (mine, all) = (object.lies_on(NODE), object.components().all(|c| c.node == NODE));
            let others = !object.components().any(|c| c.node == NODE);
            prop_assert!(!others || r.volumes.contains(was), "a volume of another node");
            let protected = |v: &VolumeRecord| v.id == was.id && v.write_protect == was.write_protect;
            prop_assert!(mine || r.volumes.iter().any(protected), "a volume that another node can serve");
            prop_assert!(mine || before.reservations.iter().filter(|x| x.volume == was.id).all(|x| r.reservations.contains(x)));
            let is = r.volumes.iter().find(|v| v.id == was.id);
            prop_assert!(!all || is.is_none_or(|v| v.stage == Stage::Ready && v.write_protect == WriteProtect::None && v.resize_to.is_none()));
        }
    }
}
