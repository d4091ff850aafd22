use super::*;
use crate::desired::ObjectLayout;
use base::{HostId, ObjectId, Ownership, WriteProtect};
use cluster::reservation::{Command as ReservationCommand, State};
use frontend::ServedVolume;

fn volume(n: u8) -> VolumeDesired {
    let object = ObjectLayout { object: ObjectId::from_bytes([n; 16]), ownership: Ownership::FIRST, mirrors: vec![] };
    VolumeDesired::plain(VolumeId::from_bytes([n; 16]), format!("v{n}"), u64::from(n) << 20, object)
}

fn with(n: u8, change: &dyn Fn(&mut ServedVolume)) -> VolumeDesired {
    let mut volume = volume(n);
    change(&mut volume);
    volume
}

/// Everything that front ends go by is what the control plane has said, for each volume its own.
#[test]
fn what_front_ends_go_by_is_what_is_desired() {
    let mut state = State::default();
    state.execute(HostId::from_bytes([1; 16]), &ReservationCommand::Register { nrkey: 5, ptpl: None }).unwrap();
    let all = [
        with(3, &|v| (v.lba_bytes, v.thin) = (512, false)),
        with(1, &|v| (v.write_protect, v.reservation) = (WriteProtect::Permanent, Some(Arc::new(state.clone())))),
        with(2, &|v| (v.write_protect, v.formatting) = (WriteProtect::UntilRestart, true)),
    ];
    let desired = Desired { generation: 77, volumes: all.to_vec(), held: Vec::new(), objects: Vec::new(), exports: () };
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
        assert_eq!(seen.volume, wanted.volume);
    }
    let unknown = view.place("e", gone).unwrap_err();
    assert_eq!(unknown.to_string(), format!("'e' exports volume {gone}, which does not exist"));
}
