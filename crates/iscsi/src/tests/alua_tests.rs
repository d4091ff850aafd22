//! Asymmetric access: what a host hears of the paths to a volume.

use super::rig::{Rig, illegal, key, read10};
use crate::view::NodeView;
use base::{ListenerKind, NodeSlot, Security};
use cluster::record::PortalRecord;
use cluster::{Path, PathState};
use format::scsi::alua::{AccessState, parse_port_groups};
use format::scsi::designator::{Designator, parse_identification};
use format::scsi::inquiry::Inquiry;
use format::scsi::{ScsiStatus, SenseCode, SenseKey};

fn groups(rig: &mut Rig) -> Vec<(u16, AccessState, Vec<u16>)> {
    let data = rig.read(0, &[0xA3, 0x0A, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], 256).2;
    parse_port_groups(&data).into_iter().map(|g| (g.id, g.state, g.ports)).collect()
}

fn portal(at: &str) -> PortalRecord {
    let (kind, security) = (ListenerKind::default(), Security::Plain);
    PortalRecord { addr: at.parse().unwrap(), kind, security, listener: 0, network_bits: None }
}

/// The path to unit 0 is another one from now on.
fn follow(rig: &mut Rig, path: Path) {
    rig.view.targets[0].units.get_mut(&0).unwrap().path = path;
    assert!(rig.session.apply(&rig.view));
}

#[test]
fn a_node_alone_is_one_group_that_is_optimized() {
    let mut rig = Rig::with("");
    assert_eq!(groups(&mut rig), [(1, AccessState::Optimized, vec![1])]);
    let inquiry = Inquiry::parse(&rig.read(0, &[0x12, 0, 0, 0, 255, 0], 255).2).unwrap();
    assert!(inquiry.implicit_alua && !inquiry.multi_port);
    let page = parse_identification(&rig.read(0, &[0x12, 1, 0x83, 1, 0, 0], 256).2).unwrap();
    assert!(page.contains(&Designator::PortGroup(1)) && page.contains(&Designator::RelativePort(1)), "{page:?}");
    // The extended header (PARAMETER DATA FORMAT 001b) lies before the same groups.
    let data = rig.read(0, &[0xA3, 0x2A, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], 256).2;
    assert_eq!((data.len(), data[4] >> 4, parse_port_groups(&data).len()), (4 + 4 + 12, 1, 1));
    assert_eq!(data[5], 20, "seconds that a change may take");
}

#[test]
fn states_follow_the_owner_and_the_host_hears_of_it_once() {
    let mut rig = Rig::with("");
    let node =
        |n: u8, portals: &[&str]| NodeView { slot: NodeSlot::new(n).unwrap(), portals: portals.iter().map(|at| portal(at)).collect() };
    rig.view.slot = NodeSlot::new(1).unwrap();
    rig.view.nodes = vec![node(0, &["192.0.2.1:3260"]), node(2, &["192.0.2.3:3260"]), node(3, &[])];
    let attention = |rig: &mut Rig| key(rig.read(0, &[0; 6], 0).1);
    let changed = Some((SenseKey::UnitAttention, SenseCode::ACCESS_STATE_CHANGED));
    use AccessState::{NonOptimized, Optimized, Transitioning};
    let mut state = |path: Path, want: [AccessState; 3]| {
        follow(&mut rig, path);
        assert_eq!(attention(&mut rig), changed);
        assert_eq!(attention(&mut rig).filter(|_| path.state != PathState::Inaccessible), None, "once");
        let [one, two, three] = want;
        assert_eq!(groups(&mut rig), [(1, one, vec![1]), (2, two, vec![2]), (3, three, vec![3])], "{path:?}");
        follow(&mut rig, path);
        assert_ne!(attention(&mut rig), changed, "nothing has changed");
    };
    state(Path { group: 2, state: PathState::Optimized }, [NonOptimized, Optimized, NonOptimized]);
    state(Path { group: 1, state: PathState::NonOptimized }, [Optimized, NonOptimized, NonOptimized]);
    state(Path { group: 3, state: PathState::NonOptimized }, [NonOptimized, NonOptimized, Optimized]);
    let lost = Path { group: 3, state: PathState::Inaccessible };
    state(lost, [Transitioning; 3]);
    // Another owner may be found: hosts try again.
    let moving = Some((SenseKey::NotReady, SenseCode::PORT_IN_TRANSITION));
    assert_eq!(key(rig.read(0, &[0; 6], 0).1), moving, "TEST UNIT READY");
    assert_eq!(key(rig.read(0, &read10(0, 1), 512).1), moving);
    (0..39).for_each(|_| rig.tick());
    follow(&mut rig, lost);
    assert_eq!(key(rig.read(0, &[0; 6], 0).1), moving, "what has not changed takes no more time");
    rig.tick();
    assert_eq!(key(rig.read(0, &[0; 6], 0).1), changed);
    assert_eq!(groups(&mut rig), [(1, NonOptimized, vec![1]), (2, AccessState::Unavailable, vec![2]), (3, Optimized, vec![3])]);
    let unavailable = Some((SenseKey::NotReady, SenseCode::PORT_UNAVAILABLE));
    assert_eq!(key(rig.read(0, &[0; 6], 0).1), unavailable, "TEST UNIT READY");
    assert_eq!(key(rig.read(0, &read10(0, 1), 512).1), unavailable);
    assert_eq!(rig.read(0, &[0x12, 0, 0, 0, 255, 0], 255).0, ScsiStatus::Good, "it says what it is");
    assert_eq!(key(rig.read(0, &[0x4D, 0, 0x7F, 0, 0, 0, 0, 0, 255, 0], 255).1), unavailable);
    follow(&mut rig, Path { group: 1, state: PathState::Inaccessible });
    assert_eq!(attention(&mut rig), changed);
    assert_eq!(key(rig.read(0, &[0; 6], 0).1), moving, "of another owner, which cannot be reached either");
    follow(&mut rig, Path { group: 2, state: PathState::Optimized });
    assert_eq!(attention(&mut rig), changed);
    assert_eq!(rig.read(0, &read10(0, 1), 512).0, ScsiStatus::Good);
    let inquiry = Inquiry::parse(&rig.read(0, &[0x12, 0, 0, 0, 255, 0], 255).2).unwrap();
    assert!(inquiry.multi_port);
    // SET TARGET PORT GROUPS: states are changed by nobody but the nodes.
    assert_eq!(key(rig.read(0, &[0xA4, 0x0A, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 0).1), illegal(SenseCode::INVALID_OPCODE));
}

#[test]
fn a_session_that_begins_while_the_owner_is_away_is_said_to_wait() {
    let mut rig = Rig::new();
    rig.view.targets[0].units.get_mut(&0).unwrap().path = Path { group: 3, state: PathState::Inaccessible };
    let login = rig.client.login("");
    rig.say(&login);
    assert_eq!(key(rig.read(0, &[0; 6], 0).1), Some((SenseKey::NotReady, SenseCode::PORT_IN_TRANSITION)));
    (0..40).for_each(|_| rig.tick());
    assert_eq!(key(rig.read(0, &[0; 6], 0).1), Some((SenseKey::UnitAttention, SenseCode::ACCESS_STATE_CHANGED)));
    assert_eq!(key(rig.read(0, &[0; 6], 0).1), Some((SenseKey::NotReady, SenseCode::PORT_UNAVAILABLE)));
}
