use super::*;
use crate::desired::ObjectLayout;
use base::{HostId, ObjectId, Ownership, WriteProtect};
use cluster::reservation::{Command as ReservationCommand, State};

fn volume(n: u8) -> VolumeDesired {
    let object = ObjectLayout { object: ObjectId::from_bytes([n; 16]), ownership: Ownership::FIRST, mirrors: vec![] };
    VolumeDesired::plain(VolumeId::from_bytes([n; 16]), format!("v{n}"), u64::from(n) << 20, object)
}

/// Everything that front ends go by is what the control plane has said, for each volume its own.
#[test]
fn what_front_ends_go_by_is_what_is_desired() {
    let mut state = State::default();
    state.execute(HostId::from_bytes([1; 16]), &ReservationCommand::Register { nrkey: 5, ptpl: None }).unwrap();
    let all = [
        VolumeDesired { lba_bytes: 512, thin: false, ..volume(3) },
        VolumeDesired { write_protect: WriteProtect::Permanent, reservation: Some(Arc::new(state)), ..volume(1) },
        VolumeDesired { formatting: true, write_protect: WriteProtect::UntilRestart, ..volume(2) },
    ];
    let desired = Desired { generation: 77, volumes: all.to_vec(), exports: () };
    // Places in another order than the list, with one of a volume that is gone.
    let place = |id: VolumeId| VolumeRef(u32::from(id.as_bytes()[0]));
    let mut places: BTreeMap<VolumeId, VolumeRef> = all.iter().map(|v| (v.id, place(v.id))).collect();
    let gone = VolumeId::from_bytes([9; 16]);
    places.insert(gone, VolumeRef(0));
    let view = volumes(&desired, &places, &BTreeMap::new());

    assert!(view.generation == 77 && view.by_ref.len() == 4 && view.by_ref[0].is_none());
    for wanted in &all {
        assert_eq!(view.place("e", wanted.id), Ok(place(wanted.id)));
        let seen = view.by_ref[place(wanted.id).0 as usize].as_ref().expect("it is served");
        assert_eq!((seen.id, &seen.name, seen.bytes, seen.lba_bytes), (wanted.id, &wanted.name, wanted.bytes, wanted.lba_bytes));
        assert_eq!((seen.write_protect, seen.formatting), (wanted.write_protect, wanted.formatting), "{}", seen.name);
        assert_eq!((&seen.reservation, seen.thin.is_some()), (&wanted.reservation, wanted.thin), "{}", seen.name);
    }
    let unknown = view.place("e", gone).unwrap_err();
    assert_eq!(unknown.to_string(), format!("'e' exports volume {gone}, which does not exist"));
}
