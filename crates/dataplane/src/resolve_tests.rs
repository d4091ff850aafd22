use super::*;
use crate::desired::{NamespaceDesired, ObjectLayout};
use base::{HostId, ObjectId, Ownership, Security, Visibility, VolumeId, WriteProtect};
use cluster::reservation::{Command as ReservationCommand, State};
use nvmf::HostView;

fn volume(n: u8) -> VolumeDesired {
    let object = ObjectLayout { object: ObjectId::from_bytes([n; 16]), ownership: Ownership::FIRST, mirrors: vec![] };
    VolumeDesired::plain(VolumeId::from_bytes([n; 16]), format!("v{n}"), u64::from(n) << 20, object)
}

/// Everything that a front end goes by is what the control plane has said, for each volume and subsystem its own.
#[test]
fn what_front_ends_go_by_is_what_is_desired() {
    let mut state = State::default();
    state.execute(HostId::from_bytes([1; 16]), &ReservationCommand::Register { nrkey: 5, ptpl: None }).unwrap();
    let all = [
        VolumeDesired { lba_bytes: 512, thin: false, ..volume(3) },
        VolumeDesired { write_protect: WriteProtect::Permanent, reservation: Some(Arc::new(state)), ..volume(1) },
        VolumeDesired { formatting: true, write_protect: WriteProtect::UntilRestart, ..volume(2) },
    ];
    let namespace = |n, hosts: &Visibility| NamespaceDesired { volume: VolumeId::from_bytes([n; 16]), hosts: hosts.clone() };
    let only = Visibility::Only(["h1".to_owned()].into());
    let subsystem = |n: u8| SubsystemDesired {
        nqn: format!("nqn.{n}"),
        serial: format!("serial {n}"),
        model: format!("model {n}"),
        allow_any_host: n == 1,
        hosts: vec![format!("host {n}")],
        namespaces: BTreeMap::from([(7, namespace(n, &only)), (9, namespace(3 - n, &Visibility::All))]),
        security: if n == 1 { Security::Encrypted } else { Security::Plain },
        manage_namespaces: n == 2,
    };
    let hosts = BTreeMap::from([("h1".to_owned(), HostView { connections_max: Some(3), ..HostView::default() })]);
    let desired = Desired { generation: 77, volumes: all.to_vec(), subsystems: vec![subsystem(1), subsystem(2)], hosts };
    // Places in another order than the list, with one of a volume that is gone.
    let place = |id: VolumeId| VolumeRef(u32::from(id.as_bytes()[0]));
    let mut refs: BTreeMap<VolumeId, VolumeRef> = all.iter().map(|v| (v.id, place(v.id))).collect();
    refs.insert(VolumeId::from_bytes([9; 16]), VolumeRef(0));
    let view = make_view(&desired, &refs, &BTreeMap::new());

    assert_eq!((view.generation, &view.hosts), (77, &desired.hosts));
    assert!(view.volumes.len() == 4 && view.volumes[0].is_none());
    for wanted in &all {
        let seen = view.volumes[place(wanted.id).0 as usize].as_ref().expect("it is served");
        assert_eq!((seen.id, &seen.name, seen.bytes, seen.lba_bytes), (wanted.id, &wanted.name, wanted.bytes, wanted.lba_bytes));
        assert_eq!((seen.write_protect, seen.formatting), (wanted.write_protect, wanted.formatting), "{}", seen.name);
        assert_eq!((&seen.reservation, seen.thin.is_some()), (&wanted.reservation, wanted.thin), "{}", seen.name);
    }
    assert_eq!(view.subsystems.len(), 2);
    for (seen, wanted) in view.subsystems.iter().zip(&desired.subsystems) {
        assert_eq!((&seen.nqn, &seen.serial, &seen.model), (&wanted.nqn, &wanted.serial, &wanted.model));
        assert_eq!((seen.allow_any_host, &seen.hosts), (wanted.allow_any_host, &wanted.hosts));
        assert_eq!((seen.security, seen.manage_namespaces), (wanted.security, wanted.manage_namespaces));
        assert!(seen.namespaces.keys().eq(wanted.namespaces.keys()));
        for (seen, wanted) in seen.namespaces.values().zip(wanted.namespaces.values()) {
            assert_eq!((seen.volume, &seen.hosts), (place(wanted.volume), &wanted.hosts));
        }
    }
}
