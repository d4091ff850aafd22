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
    let desired =
        Desired { generation: 77, volumes: all.to_vec(), held: Vec::new(), objects: Vec::new(), exports: (), ..Desired::default() };
    // Places in another order than the list, with one of a volume that is gone.
    let place = |id: VolumeId| VolumeRef(u32::from(id.as_bytes()[0]));
    let mut of: BTreeMap<VolumeId, VolumeRef> = all.iter().map(|v| (v.id, place(v.id))).collect();
    let gone = VolumeId::from_bytes([9; 16]);
    of.insert(gone, VolumeRef(0));
    let places = Places { volumes: of, lanes: BTreeMap::new(), given: 4 };
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

/// An object keeps its place when it becomes that of another volume; one that was never seen before gets one of its own.
#[test]
fn the_lanes_of_an_object_stay_where_they_are() {
    let mut ledger = Ledger::default();
    let mut desired = Desired { volumes: vec![with(2, &|_| ()), with(1, &|_| ())], ..Desired::<()>::default() };
    let mut take = |desired: &Desired<()>| {
        let Places { volumes, lanes, given } = places(desired, &ledger);
        (ledger.volumes, ledger.lanes, ledger.places_given) = (volumes, lanes, given);
        let of = |v: &VolumeDesired| (ledger.volumes[&v.id].0, ledger.lanes[&v.object.object].0);
        desired.volumes.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(take(&desired), [(1, 1), (0, 0)], "by id");
    let [a, b] = &mut desired.volumes[..] else { unreachable!() };
    std::mem::swap(&mut a.object, &mut b.object);
    assert_eq!(take(&desired), [(1, 0), (0, 1)]);
    desired.volumes.pop();
    desired.volumes[0].object.object = ObjectId::from_bytes([77; 16]);
    assert_eq!(take(&desired), [(1, 2)], "another object of the volume was there");
    desired.volumes.push(with(5, &|_| ()));
    assert_eq!(take(&desired), [(1, 2), (3, 3)]);
}
