//! A volume made smaller by force and grown again shows zeroes where it was cut, through the real daemon and a client: what was in the write
//! buffer, what was on capacity, and after the daemon was killed.

use crate::harness::{DESTAGE_AT_ONCE, Daemon, Setup, USUAL, until};
use initiator::{Controller, IoQueue};

const MIB: u64 = 1 << 20;
const VOLUME: u64 = 64 * MIB;
const CUT: u64 = 20 * MIB;
const STEP: u64 = 128 << 10;

impl Daemon {
    /// A connection, and the volume as it sees it.
    fn volume(&self) -> (Controller, IoQueue) {
        let controller = Controller::connect(self.options()).unwrap();
        let namespace = controller.namespace(1).unwrap();
        let queue = controller.open_queue(1, 8, namespace).unwrap();
        (controller, queue)
    }
    /// Asserts that the volume has `bytes`, is full of `pattern` up to `zeroes`, and reads as zeroes from there.
    fn expect(&self, bytes: u64, zeroes: u64, when: &str) {
        let (_controller, mut queue) = self.volume();
        assert_eq!(queue.namespace().bytes(), bytes, "{when}");
        for offset in (0..bytes).step_by(STEP as usize) {
            let wanted = if offset < zeroes { pattern(offset) } else { vec![0; STEP as usize] };
            assert!(queue.read(offset, STEP as u32).unwrap() == wanted, "{when}: at {offset}");
        }
        let behind = queue.read(bytes, STEP as u32);
        assert!(behind.is_err(), "{when}: read behind the end");
    }
}

/// What is written at `offset`: no byte of it is zero.
fn pattern(offset: u64) -> Vec<u8> {
    vec![(offset / STEP % 255) as u8 + 1; STEP as usize]
}

fn fill(daemon: &Daemon) {
    let (_controller, mut queue) = daemon.volume();
    for offset in (0..VOLUME).step_by(STEP as usize) {
        queue.write(offset, pattern(offset), false).unwrap();
    }
}

/// Waits until some of the volume is on capacity.
fn wait_for_capacity(daemon: &Daemon) {
    until("data goes to capacity", || daemon.json("volume show v")["used_bytes"].as_u64().filter(|used| *used > VOLUME / 2));
}

#[test]
fn what_was_cut_off_is_gone_when_the_volume_grows_again() {
    let mut daemon = Daemon::started(&Setup { more: DESTAGE_AT_ONCE, ..USUAL });
    daemon.group_on_files(2, "512MiB", "1GiB");
    daemon.ok("volume create v --size 64MiB");
    for on_capacity in [true, false] {
        fill(&daemon);
        if on_capacity {
            wait_for_capacity(&daemon);
        }
        daemon.expect(VOLUME, VOLUME, "full");
        let larger = daemon.fails("volume shrink v --size 65MiB --force", 5);
        assert!(larger.contains("volume grow"), "{larger}");
        daemon.ok("volume shrink v --size 20MiB --force");
        daemon.expect(CUT, CUT, "smaller");
        daemon.ok("volume grow v --size 64MiB");
        daemon.expect(VOLUME, CUT, "grown again");
        daemon.kill_and_start();
        daemon.expect(VOLUME, CUT, "after a kill");
    }
}

/// Who grows a thick volume beyond what is there hears how much there is, and the volume stays as it was.
#[test]
fn a_thick_volume_that_finds_no_room_to_grow_says_the_figures_and_stays_as_it_was() {
    let daemon = Daemon::started(&USUAL);
    daemon.ok("group create g --cache memory:256MiB --capacity memory:512MiB");
    daemon.ok("policy create thick --space-reservation 100");
    daemon.ok("volume create other --size 64MiB --policy thick");
    daemon.ok("volume create v --size 64MiB --policy thick");
    let before = daemon.json("volume list");
    let said = daemon.fails("volume grow v --size 1GiB", 5);
    // Each device keeps a part for itself: what is there is a little less than its size.
    let device = daemon.json("group show g")["capacity"][0]["usable_bytes"].as_u64().expect("a size");
    let total = format!("it has {},", base::ByteSize(device));
    for words in ["cannot promise 1 GiB to one component", &total, "others were promised 64 MiB", "to do: "] {
        assert!(said.contains(words), "no '{words}' in: {said}");
    }
    assert_eq!(daemon.json("volume list"), before);
    daemon.ok("volume grow v --size 128MiB");
}
