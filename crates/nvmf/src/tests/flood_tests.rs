//! Many unauthenticated peers at once: what they may take of a core, of a host's quota, of memory.

use super::client::{Client, Pdu, with_transport};
use super::world_tests::Rig;
use crate::limits::UNAUTHENTICATED_RECEIVES_A_TURN;
use base::Duration;
use format::nvme::IoOpcode;
use format::nvme::io::BlockRange;

fn client() -> Client {
    Client::new(false, false, 0)
}

#[test]
fn what_unauthenticated_hosts_say_is_heard_a_little_a_turn_and_hosts_do_not_wait_for_it() {
    let mut rig = Rig::new(60);
    let (_, cntlid) = rig.admin(client(), 0);
    let q = rig.io_queue(cntlid, 1, client());
    let unauthenticated: Vec<usize> = (0..90).map(|_| rig.open(rig.io, client())).collect();
    // All of it has arrived when the cores look again.
    rig.stop(true);
    for at in &unauthenticated {
        rig.send(*at, |_| vec![0xFF; 64]);
    }
    let read = with_transport(BlockRange::new(0, 7).sqe(IoOpcode::Read, 0, 1), 4096);
    rig.send(q, |c| c.capsule(read, &[]));
    rig.world.run_for(Duration::from_millis(5));
    rig.stop(false);
    assert!(matches!(rig.next(q), Pdu::Data(..)));
    for at in &unauthenticated {
        assert!(matches!(rig.next(*at), Pdu::Term(..)), "each is answered all the same");
    }
    let most = rig.servers.borrow().iter().map(|s| s.borrow().most_terminations).max();
    assert_eq!(most, Some(UNAUTHENTICATED_RECEIVES_A_TURN as u64));
}
