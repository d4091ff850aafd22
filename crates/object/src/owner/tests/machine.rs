//! Each transition of the machine, by itself.

use crate::owner::*;
use base::lane::Lane;
use base::{BlockNo, Incarnation, Ownership, Seq};

pub fn node(n: u8) -> NodeId {
    NodeId::from_bytes([n; 16])
}
pub fn part(mirror: u8, n: u8) -> ComponentId {
    ComponentId::from_bytes([mirror * 16 + n; 16])
}
fn owner_id(n: u8, incarnation: u64) -> OwnerId {
    OwnerId { node: node(n), incarnation: Incarnation(incarnation) }
}
/// Mirrors of copies on nodes: (node, state).
fn record(owner: OwnerId, epoch: u32, mirrors: &[&[(u8, CopyState)]]) -> OwnershipRecord {
    let mut copies = Vec::new();
    for (mirror, of) in mirrors.iter().enumerate() {
        copies.extend(of.iter().map(|&(n, state)| CopyRecord {
            mirror: mirror as u16,
            node: node(n),
            component: part(mirror as u8, n),
            state,
            synced_to: Epoch(0),
        }));
    }
    let ownership = Ownership { epoch: Epoch(epoch), term: Epoch(epoch), period_start: Epoch(1) };
    OwnershipRecord { ownership, owner, nonce: Nonce(7), restored: false, copies }
}
use CopyState::{Absent, Active, Resyncing};

/// A machine, and the revision of the record.
struct At {
    machine: ObjectOwner,
    revision: u64,
}

impl At {
    fn node(n: u8) -> At {
        let machine = ObjectOwner::new(owner_id(n, 1), Nonce(u128::from(n) << 64));
        At { machine, revision: 1 }
    }
    fn on(&mut self, event: Event) -> Vec<Command> {
        let mut out = Vec::new();
        self.machine.handle(event, &mut out);
        out
    }
    fn up(&mut self, nodes: &[u8]) {
        nodes.iter().for_each(|n| {
            self.on(Event::Node { node: node(*n), reach: Reach::Up });
        });
    }
    fn read(&mut self, record: &OwnershipRecord, read: bool) -> Vec<Command> {
        self.on(Event::Record { revision: Revision(self.revision), record: record.clone(), read })
    }
    /// The change among commands is made.
    fn made(&mut self, out: &[Command]) -> Vec<Command> {
        let new = change(out).expect("a change");
        self.revision += 1;
        self.on(Event::Changed { nonce: new.nonce, outcome: Outcome::Made(Revision(self.revision)) })
    }
    fn fenced(&mut self, from: ComponentId, epoch: u32, doubt: &[u64], mark: Seq) -> Vec<Command> {
        let doubt = doubt.iter().map(|b| BlockRange { first: BlockNo(*b), blocks: 1 }).collect();
        let lanes = vec![LaneDoubt { lane: lane(), mark, doubt }];
        self.on(Event::Fenced(Fenced { from, epoch: Epoch(epoch), lanes, resync: None }))
    }
    /// Takes over from node 9, which holds nothing, and serves.
    fn serves(n: u8, mirrors: &[&[(u8, CopyState)]], up: &[u8]) -> At {
        let mut at = At::node(n);
        at.up(up);
        at.on(Event::TakeOver);
        let out = at.read(&record(owner_id(9, 1), 4, mirrors), true);
        let out = at.made(&out);
        for to in fences(&out) {
            at.fenced(to, 5, &[], Seq::default());
        }
        assert_eq!(at.machine.state(), OwnerState::Serving);
        at
    }
    fn state(&self, component: ComponentId) -> (CopyState, u32) {
        let copy = self.machine.record().unwrap().copy(component).copied().unwrap();
        (copy.state, copy.synced_to.0)
    }
    fn epochs(&self) -> (u32, u32, u32) {
        let o = self.machine.record().unwrap().ownership;
        (o.epoch.0, o.term.0, o.period_start.0)
    }
}
fn lane() -> Lane {
    Lane::new(3).unwrap()
}
fn change(out: &[Command]) -> Option<&OwnershipRecord> {
    out.iter().find_map(|c| if let Command::Change { new, .. } = c { Some(&**new) } else { None })
}
fn fences(out: &[Command]) -> Vec<ComponentId> {
    out.iter().filter_map(|c| if let Command::Fence { to, .. } = c { Some(to.component) } else { None }).collect()
}
fn targets(out: &[Command]) -> Vec<ComponentId> {
    let of = |c: &Command| if let Command::Targets(t) = c { Some(t.copies.iter().map(|(c, _)| c.component).collect()) } else { None };
    out.iter().rev().find_map(of).expect("targets")
}
fn answers(out: &[Command]) -> Vec<u16> {
    out.iter().filter_map(|c| if let Command::Answer { mirror, .. } = c { Some(*mirror) } else { None }).collect()
}
fn grants(out: &[Command]) -> Option<Vec<NodeId>> {
    out.iter().rev().find_map(|c| if let Command::GrantsOf(nodes) = c { Some(nodes.clone()) } else { None })
}
fn seq(term: u32, counter: u64) -> Seq {
    Seq { term: Epoch(term), counter }
}
const PAIR: &[&[(u8, CopyState)]] = &[&[(1, Active), (2, Active)]];

#[test]
fn a_holder_takes_over_when_its_turn_has_come_and_the_record_was_read() {
    let mut at = At::node(3);
    at.up(&[2, 4]);
    let found = record(owner_id(1, 1), 4, &[&[(1, Active), (2, Active), (3, Active), (4, Resyncing)]]);
    at.read(&found, false);
    assert_eq!(at.on(Event::Node { node: node(1), reach: Reach::Late }), []);
    assert_eq!(at.on(Event::Node { node: node(1), reach: Reach::Gone }), [Command::WaitTurn { rank: 1 }], "node 2 comes first");
    assert_eq!(at.on(Event::Turn), [Command::ReadRecord]);
    assert_eq!(at.read(&found, false), [], "that is what a watch says");
    let out = at.read(&found, true);
    let new = change(&out).expect("a change");
    assert_eq!((new.owner, new.ownership.epoch, new.ownership.term), (owner_id(3, 1), Epoch(5), Epoch(5)));
    let states: Vec<_> = new.copies.iter().map(|c| (c.state, c.synced_to.0)).collect();
    assert_eq!(states, [(Absent, 4), (Active, 0), (Active, 0), (Absent, 0)]);
    assert_eq!(new.ownership.period_start, Epoch(1), "it was not in sync on all copies before");
    assert!(!at.machine.may_grant());
}

#[test]
fn an_owner_that_comes_back_is_not_taken_over_from() {
    let mut at = At::node(2);
    let found = record(owner_id(1, 1), 4, PAIR);
    at.read(&found, false);
    at.on(Event::Node { node: node(1), reach: Reach::Gone });
    at.on(Event::Node { node: node(1), reach: Reach::Up });
    assert_eq!(at.on(Event::Turn), []);
    at.on(Event::Node { node: node(1), reach: Reach::Gone });
    at.on(Event::Turn);
    at.on(Event::Node { node: node(1), reach: Reach::Up });
    assert_eq!(at.read(&found, true), []);
}

#[test]
fn nobody_takes_over_without_an_active_copy_of_each_mirror_or_from_a_restored_record() {
    let asks = |mirrors: &[&[(u8, CopyState)]], restored| {
        let mut at = At::node(2);
        at.up(&[3]);
        at.on(Event::TakeOver);
        let found = OwnershipRecord { restored, ..record(owner_id(1, 1), 4, mirrors) };
        change(&at.read(&found, true)).is_some()
    };
    assert!(asks(&[&[(1, Active), (2, Active)], &[(3, Active)]], false));
    assert!(!asks(&[&[(1, Active), (2, Active)], &[(1, Active)]], false), "node 1 is not reached");
    assert!(!asks(&[&[(2, Absent), (3, Active)]], false), "it holds what is out of sync");
    assert!(!asks(PAIR, true));
}

#[test]
fn it_serves_when_all_that_stay_were_fenced_and_agrees_on_the_union() {
    let mut at = At::node(1);
    at.up(&[2]);
    at.on(Event::TakeOver);
    let out = at.read(&record(owner_id(9, 1), 4, PAIR), true);
    let out = at.made(&out);
    assert_eq!(fences(&out), [part(0, 1), part(0, 2)], "the own one too");
    assert_eq!(at.fenced(part(0, 2), 3, &[77], seq(3, 1)), [], "an answer of another term");
    assert_eq!(at.fenced(part(0, 1), 5, &[10, 12], seq(3, 5)), []);
    let out = at.fenced(part(0, 2), 5, &[12, 40], seq(3, 8));
    let blocks = |n| BlockRange { first: BlockNo(n), blocks: 1 };
    let source = CopyRef { mirror: 0, node: node(1), component: part(0, 1) };
    let ranges = vec![blocks(10), blocks(12), blocks(40)];
    assert!(out.contains(&Command::Agree { term: Epoch(5), mirror: 0, lane: lane(), base_mark: seq(3, 8), source, ranges }));
    let place = |command: &Command| out.iter().position(|c| c == command);
    assert!(place(&Command::Serve) < place(&Command::Answer { mirror: 0, epoch: Epoch(5) }));
    let agreed = |term, ranges| Event::Agreed { term: Epoch(term), mirror: 0, lane: lane(), ranges };
    assert_eq!(at.on(agreed(4, 3)), [], "of a term before");
    assert_eq!(at.on(agreed(5, 2)), []);
    assert!(!at.machine.has_agreed());
    assert_eq!(at.on(agreed(5, 1)), [Command::MarkMoves { mirror: 0, lane: lane() }]);
}

#[test]
fn who_does_not_answer_while_it_fences_is_evicted_within_the_term() {
    let mut at = At::node(1);
    at.up(&[2, 3]);
    at.on(Event::TakeOver);
    let out = at.read(&record(owner_id(9, 1), 4, &[&[(1, Active), (2, Active), (3, Active)]]), true);
    at.made(&out);
    at.fenced(part(0, 3), 5, &[1], seq(3, 1));
    let out = at.on(Event::Node { node: node(2), reach: Reach::Late });
    assert_eq!(change(&out).map(|new| new.ownership), Some(Ownership { epoch: Epoch(6), term: Epoch(5), period_start: Epoch(6) }));
    let out = at.made(&out);
    assert_eq!(fences(&out), [part(0, 1)], "in the new epoch; the other one has answered");
    let out = at.fenced(part(0, 1), 6, &[], seq(3, 1));
    assert!(out.contains(&Command::Serve));
    assert_eq!(targets(&out), [part(0, 1), part(0, 3)]);
}

#[test]
fn a_lost_answer_is_read_again_and_known_by_its_nonce() {
    let lost = || {
        let mut at = At::serves(1, PAIR, &[2]);
        let out = at.on(Event::CopyFails(part(0, 2)));
        let new = change(&out).unwrap().clone();
        let old = at.machine.record().unwrap().clone();
        assert_eq!(at.on(Event::Changed { nonce: new.nonce, outcome: Outcome::Lost }), [Command::ReadRecord]);
        (at, old, new)
    };
    let (mut at, old, new) = lost();
    assert_eq!(change(&at.read(&old, true)), Some(&new), "the same once more");
    assert_eq!(at.read(&old, false), [], "whose answer is waited for");
    at.revision += 1;
    assert_eq!(targets(&at.read(&new, false)), [part(0, 1)], "it was made");
    assert_eq!(at.on(Event::Changed { nonce: new.nonce, outcome: Outcome::Refused }), [], "an answer that came late");
    let (mut at, _, new) = lost();
    at.revision += 1;
    let other = OwnershipRecord { nonce: Nonce(99), owner: owner_id(2, 1), ..new };
    assert_eq!(at.read(&other, true), [Command::Stop]);
    assert_eq!(at.machine.state(), OwnerState::Holder);
}

#[test]
fn a_layout_that_was_changed_refuses_a_change_and_ends_no_ownership() {
    let mut at = At::serves(1, PAIR, &[2]);
    let out = at.on(Event::CopyFails(part(0, 2)));
    let nonce = change(&out).unwrap().nonce;
    let mut other = at.machine.record().unwrap().clone();
    other.copies.push(CopyRecord { node: node(3), component: part(0, 3), state: Absent, ..other.copies[1] });
    at.revision += 1;
    assert_eq!(at.on(Event::Changed { nonce, outcome: Outcome::Refused }), [Command::ReadRecord]);
    let out = at.read(&other, true);
    let new = change(&out).expect("the same again, of the new layout");
    assert!(new.nonce != nonce && new.copies.len() == 3);
    at.made(&out);
    assert_eq!((at.state(part(0, 2)), at.state(part(0, 3))), ((Absent, 5), (Absent, 0)));
    // A copy in sync that is gone from the record is none of its changes.
    let mut gone = at.machine.record().unwrap().clone();
    gone.copies.remove(0);
    at.revision += 1;
    assert_eq!(at.read(&gone, false), [Command::Stop]);
}

#[test]
fn a_layout_that_was_changed_after_a_change_whose_answer_was_lost_is_gone_on_with() {
    for takes_over in [false, true] {
        let mut at = if takes_over { At::node(1) } else { At::serves(1, PAIR, &[2]) };
        let out = if takes_over {
            at.up(&[2]);
            at.on(Event::TakeOver);
            at.read(&record(owner_id(9, 1), 4, PAIR), true)
        } else {
            at.on(Event::CopyFails(part(0, 2)))
        };
        let made = change(&out).unwrap().clone();
        at.on(Event::Changed { nonce: made.nonce, outcome: Outcome::Lost });
        let mut now = made.clone();
        now.copies.push(CopyRecord { node: node(3), component: part(0, 3), state: Absent, ..made.copies[1] });
        at.revision += 2;
        at.read(&now, true);
        assert_eq!(at.machine.record(), Some(&now), "as it was read, not as it was made");
    }
    // A copy in sync that is gone from the record is none of its changes.
    let mut at = At::serves(1, PAIR, &[2]);
    let out = at.on(Event::CopyFails(part(0, 2)));
    let mut gone = change(&out).unwrap().clone();
    at.on(Event::Changed { nonce: gone.nonce, outcome: Outcome::Lost });
    gone.copies.remove(0);
    at.revision += 2;
    assert_eq!(at.read(&gone, true).last(), Some(&Command::Stop));
}

#[test]
fn a_silent_node_leaves_all_mirrors_in_one_change_and_the_last_active_copy_never_leaves() {
    let mirrors: &[&[(u8, CopyState)]] = &[&[(1, Active), (2, Active)], &[(2, Active), (3, Active)], &[(1, Active), (2, Absent)]];
    let mut at = At::serves(1, mirrors, &[2, 3]);
    let out = at.on(Event::Node { node: node(2), reach: Reach::Late });
    assert_eq!(at.on(Event::CopyFails(part(2, 1))), [], "one change at a time, and it is the last one");
    let out = at.made(&out);
    assert_eq!((at.state(part(0, 2)), at.state(part(1, 2)), at.state(part(2, 1))), ((Absent, 5), (Absent, 5), (Active, 0)));
    assert_eq!(targets(&out), [part(0, 1), part(1, 3), part(2, 1)]);
    assert_eq!(at.epochs(), (6, 5, 1), "it was not in sync on all copies before");
}

#[test]
fn when_all_copies_fail_at_once_one_stays_and_the_others_leave() {
    // Two fail while a change is under way that was asked for before.
    let mut at = At::serves(1, &[&[(1, Active), (2, Active), (3, Active)]], &[2, 3]);
    let out = at.on(Event::CopyFails(part(0, 3)));
    assert_eq!(at.on(Event::CopyFails(part(0, 2))), []);
    assert_eq!(at.on(Event::CopyFails(part(0, 1))), []);
    let out = at.made(&out);
    assert!(change(&out).is_some(), "nothing would go on");
    at.made(&out);
    assert_eq!([1, 2, 3].map(|n| at.state(part(0, n)).0), [Active, Absent, Absent], "the own copy is the one that stays");
    // One whose node is silent may be well.
    let mut at = At::serves(1, &[&[(1, Active), (2, Active), (3, Active)]], &[2, 3]);
    let out = at.on(Event::CopyFails(part(0, 3)));
    at.on(Event::Node { node: node(2), reach: Reach::Late });
    at.on(Event::CopyFails(part(0, 1)));
    assert_eq!(change(&at.made(&out)), None);
    let out = at.on(Event::Node { node: node(2), reach: Reach::Up });
    at.made(&out);
    assert_eq!([1, 2, 3].map(|n| at.state(part(0, n)).0), [Absent, Active, Absent]);
}

#[test]
fn a_period_starts_with_the_first_copy_that_leaves() {
    let mut at = At::serves(1, &[&[(1, Active), (2, Active), (3, Active)]], &[2, 3]);
    let out = at.on(Event::CopyFails(part(0, 2)));
    at.made(&out);
    assert_eq!(at.epochs(), (6, 5, 6));
    let out = at.on(Event::CopyFails(part(0, 3)));
    at.made(&out);
    assert_eq!(at.epochs(), (7, 5, 6));
    assert_eq!((at.state(part(0, 2)), at.state(part(0, 3))), ((Absent, 5), (Absent, 6)));
}

#[test]
fn what_waited_is_answered_after_an_active_copy_of_the_mirror_has_heard_the_epoch() {
    let mut at = At::serves(1, &[&[(1, Active), (2, Active)], &[(2, Active), (3, Active)]], &[2, 3]);
    let out = at.on(Event::CopyFails(part(0, 2)));
    assert_eq!(answers(&out), [], "not before the change was made");
    let out = at.made(&out);
    assert_eq!((fences(&out), answers(&out)), (vec![part(0, 1), part(1, 2), part(1, 3)], vec![]));
    assert_eq!(answers(&at.fenced(part(0, 1), 6, &[], Seq::default())), [0]);
    assert_eq!(answers(&at.fenced(part(1, 3), 5, &[], Seq::default())), [], "of an epoch before");
    assert_eq!(fences(&at.on(Event::Reset(node(3)))), [part(1, 3)]);
    assert_eq!(answers(&at.fenced(part(1, 3), 6, &[], Seq::default())), [1]);
    assert_eq!(fences(&at.on(Event::Reset(node(2)))), []);
}

#[test]
fn grants_are_asked_of_active_copies_and_of_the_one_that_a_change_makes_active() {
    let mut at = At::serves(1, &[&[(1, Active), (2, Absent), (3, Absent)]], &[2, 3]);
    let (out, _) = resynced(&mut at, part(0, 2));
    assert_eq!(grants(&out), Some(vec![node(2)]), "when it is sent");
    let out = at.made(&out);
    assert_eq!(grants(&out), None, "still");
    let out = at.on(Event::CopyFails(part(0, 2)));
    assert_eq!(grants(&out), None);
    assert_eq!(grants(&at.made(&out)), Some(vec![]), "a sole copy needs none");
}

/// A chunk, what the source has of it, whether the copy has it, and what was in doubt there.
type Entry = (u64, Option<(u32, u16)>, bool, u16);

fn listed(from: u64, epoch: u32, chunks: &[Entry], next: Option<u64>) -> Event {
    let chunk = |&(chunk, source, there, own_doubt): &Entry| ListedChunk {
        chunk,
        source: source.map(|(epoch, mask)| (Epoch(epoch), mask)),
        there,
        own_doubt,
    };
    Event::Listed(Listed { from, epoch: Epoch(epoch), chunks: chunks.iter().map(chunk).collect(), next })
}
fn ranges(out: &[Command]) -> Vec<RangeCopy> {
    out.iter().filter_map(|c| if let Command::CopyRange(range) = c { Some(*range) } else { None }).collect()
}
/// A copy joins, with such progress of before. What is wanted then.
fn joins(at: &mut At, copy: ComponentId, progress: Progress) -> Vec<Command> {
    let out = at.on(Event::BeginResync(copy));
    let out = at.made(&out);
    let epoch = at.machine.record().unwrap().epoch();
    assert!(fences(&out).contains(&copy));
    assert!(!targets(&out).contains(&copy), "it is no target before it has answered");
    let fenced = Fenced { from: copy, epoch, lanes: vec![], resync: Some(progress) };
    let out = at.on(Event::Fenced(fenced));
    assert!(matches!(out[0], Command::Join { copy: c, invited } if (c.component, invited) == (copy, epoch)));
    assert!(!out.iter().any(|c| matches!(c, Command::List { .. })), "something is under way without it");
    at.on(Event::JoinDrained { copy, invited: epoch })
}
/// A copy that misses nothing comes back: the change that makes it active, and its epoch.
fn resynced(at: &mut At, copy: ComponentId) -> (Vec<Command>, u32) {
    joins(at, copy, Progress::default());
    let epoch = at.epochs().0;
    (at.on(listed(0, epoch, &[], None)), epoch)
}

#[test]
fn resync_copies_what_changed_what_was_in_doubt_and_what_was_freed() {
    let mut at = At::serves(1, PAIR, &[2]);
    let out = at.on(Event::CopyFails(part(0, 2)));
    at.made(&out); // in sync up to 5; period from 6
    at.on(Event::PaceResync(10));
    let out = joins(&mut at, part(0, 2), Progress { below: 4, to: Epoch(6) });
    assert!(matches!(out[..], [Command::List { from: 0, epoch: Epoch(7), .. }]));
    let chunks = [
        (0, Some((7, 0b110)), true, 0),
        (1, Some((6, 0xF)), true, 0), // complete up to 6
        (3, Some((6, 0)), true, 0b1000),
        (5, Some((6, 0b101)), true, 0),
        (6, Some((5, 0xF)), true, 0), // it has that
        (8, None, true, 0),
    ];
    let got = ranges(&at.on(listed(0, 7, &chunks, Some(9))));
    let brief = |r: &RangeCopy| (r.chunk, r.mask, r.progress.below, r.progress.to.0);
    let old = (4, 6);
    assert_eq!(
        got.iter().map(brief).collect::<Vec<_>>(),
        [(0, 0b110, old.0, old.1), (3, 0b1000, old.0, old.1), (5, 1, old.0, old.1), (5, 0b100, old.0, old.1), (8, 0xFFFF, old.0, old.1)],
        "what was complete before stays all that is said as long as the first chunk is under way"
    );
    let out = at.on(Event::Copied(got[0]));
    assert!(matches!(out[..], [Command::List { from: 9, .. }]), "all of the piece is under way");
    // Another one comes once more, and is not taken for a second range.
    assert_eq!(at.on(Event::Copied(got[0])), []);
    assert_eq!(ranges(&at.on(Event::NotCopied(got[1])))[..1].iter().map(brief).collect::<Vec<_>>(), [(3, 0b1000, 5, 7)]);
    let again = RangeCopy { progress: Progress { below: 5, to: Epoch(7) }, ..got[1] };
    for range in [again, got[2], got[3], got[4]] {
        assert_eq!(change(&at.on(Event::Copied(range))), None);
    }
    assert_eq!(at.machine.resync().unwrap().1, Some(9));
    let out = at.on(listed(9, 7, &[], None));
    assert_eq!(change(&out).unwrap().copies[1].state, Active);
    at.made(&out);
    assert_eq!((at.state(part(0, 2)), at.machine.resync()), ((Active, 5), None));
}

#[test]
fn a_copy_that_never_was_in_sync_gets_whole_chunks() {
    let mut at = At::serves(1, &[&[(1, Active), (2, Absent)]], &[2]);
    joins(&mut at, part(0, 2), Progress::default());
    let got = ranges(&at.on(listed(0, 6, &[(0, Some((2, 1)), false, 0)], None)));
    assert_eq!((got.len(), got[0].mask), (1, 0xFFFF));
}

#[test]
fn resync_is_paced_pauses_and_stands_still_while_it_gives_up() {
    let mut at = At::serves(1, PAIR, &[2]);
    let out = at.on(Event::CopyFails(part(0, 2)));
    at.made(&out);
    joins(&mut at, part(0, 2), Progress::default());
    at.on(Event::PaceResync(2));
    let got = ranges(&at.on(listed(0, 7, &[(0, Some((7, 0b10101)), true, 0)], None)));
    assert_eq!(got.len(), 2);
    at.on(Event::PauseResync(true));
    assert_eq!(at.on(Event::Copied(got[0])), []);
    assert_eq!(at.on(Event::Copied(got[1])), []);
    let got = ranges(&at.on(Event::PauseResync(false)));
    assert_eq!(got.len(), 1);
    at.on(Event::PauseResync(true));
    assert_eq!(change(&at.on(Event::Copied(got[0]))), None, "nor is it finished");
    assert!(change(&at.on(Event::PauseResync(false))).is_some());
}

#[test]
fn a_copy_that_is_dropped_keeps_the_epoch_up_to_which_it_was_in_sync() {
    let mut at = At::serves(1, PAIR, &[2]);
    let out = at.on(Event::CopyFails(part(0, 2)));
    at.made(&out);
    joins(&mut at, part(0, 2), Progress::default());
    let got = ranges(&at.on(listed(0, 7, &[(0, Some((7, 1)), true, 0)], None)));
    let out = at.on(Event::Node { node: node(2), reach: Reach::Late });
    assert_eq!(change(&out).unwrap().epoch(), Epoch(8), "it raises the epoch");
    at.made(&out);
    assert_eq!((at.state(part(0, 2)), at.machine.resync()), ((Absent, 5), None));
    at.up(&[2]);
    joins(&mut at, part(0, 2), Progress::default());
    at.on(listed(0, 9, &[(0, Some((9, 1)), true, 0)], None));
    assert_eq!(change(&at.on(Event::Copied(got[0]))), None, "that was of the attempt before");
}

#[test]
fn a_piece_is_asked_for_again_when_its_source_has_left() {
    let mut at = At::serves(1, &[&[(1, Active), (2, Active), (3, Active)]], &[2, 3]);
    let out = at.on(Event::CopyFails(part(0, 2)));
    at.made(&out);
    joins(&mut at, part(0, 2), Progress::default());
    let out = at.on(Event::CopyFails(part(0, 1)));
    let out = at.made(&out);
    let asks = |c: &Command| matches!(c, Command::List { source, epoch: Epoch(8), .. } if source.component == part(0, 3));
    assert!(out.iter().any(asks));
    assert_eq!(ranges(&at.on(listed(0, 7, &[(0, Some((7, 1)), true, 0)], None))), [], "of the one that left");
    assert_eq!(ranges(&at.on(listed(0, 8, &[(0, Some((8, 1)), true, 0)], None)))[0].source.component, part(0, 3));
}

#[test]
fn a_source_elsewhere_hears_the_epoch_though_another_copy_has_and_its_link_was_lost() {
    let mut at = At::serves(1, &[&[(1, Active), (2, Active), (3, Active)], &[(1, Active), (2, Active), (3, Active)]], &[2, 3]);
    let out = at.on(Event::CopyFails(part(0, 1)));
    at.made(&out);
    let out = at.on(Event::BeginResync(part(0, 1)));
    let out = at.made(&out);
    assert!([part(0, 2), part(0, 3)].iter().all(|c| fences(&out).contains(c)), "of the mirror without an own copy all hear it");
    at.fenced(part(0, 3), 7, &[], Seq::default()); // and the other one's is lost
    let fenced = Fenced { from: part(0, 1), epoch: Epoch(7), lanes: vec![], resync: Some(Progress::default()) };
    at.on(Event::Fenced(fenced));
    let asks = |out: &[Command]| {
        let list = out.iter().position(|c| matches!(c, Command::List { source, .. } if source.component == part(0, 2)));
        let fence =
            out.iter().position(|c| matches!(c, Command::Fence { to, epoch: Epoch(7), resync: false, .. } if to.component == part(0, 2)));
        fence.is_some() && fence < list
    };
    assert!(asks(&at.on(Event::JoinDrained { copy: part(0, 1), invited: Epoch(7) })), "it says nothing before it has accepted the epoch");
    assert!(!asks(&at.on(Event::Reset(node(3)))));
    assert!(asks(&at.on(Event::Reset(node(2)))), "on a new link it hears it again");
    let out = at.on(listed(0, 7, &[], Some(4)));
    assert!(matches!(out[..], [Command::List { from: 4, .. }]), "once for each link: {out:?}");
}

#[test]
fn a_piece_is_asked_for_again_in_another_epoch() {
    let mut at = At::serves(1, &[&[(1, Active), (2, Active), (3, Active)]], &[2, 3]);
    let out = at.on(Event::CopyFails(part(0, 2)));
    at.made(&out);
    let out = joins(&mut at, part(0, 2), Progress::default());
    assert!(matches!(out[..], [Command::List { epoch: Epoch(7), .. }]));
    let out = at.on(Event::CopyFails(part(0, 3)));
    let asks = |c: &Command| matches!(c, Command::List { source, epoch: Epoch(8), .. } if source.component == part(0, 1));
    assert_eq!(at.made(&out).iter().filter(|c| asks(c)).count(), 1, "nobody lists in the epoch before");
    assert_eq!(ranges(&at.on(listed(0, 7, &[(0, Some((7, 1)), true, 0)], None))), []);
    assert_eq!(ranges(&at.on(listed(0, 8, &[(0, Some((8, 1)), true, 0)], None))).len(), 1);
}

#[test]
fn an_object_is_given_up_when_nothing_is_under_way_and_nothing_is_answered_then() {
    let mut at = At::serves(1, PAIR, &[2]);
    assert_eq!(at.on(Event::HandOver(node(3))), [], "it has no copy");
    assert_eq!(at.on(Event::HandOver(node(2))), [Command::Drain(1)]);
    assert_eq!(at.on(Event::Node { node: node(2), reach: Reach::Late })[0], Command::Resume);
    let mut at = At::serves(1, PAIR, &[2]);
    at.on(Event::HandOver(node(2)));
    assert_eq!(at.on(Event::Drained(0)), [], "another time");
    let release = Command::Release { nodes: vec![node(2)], epoch: Epoch(5), next: node(2) };
    assert_eq!(at.on(Event::Drained(1)), [Command::Stop, release]);
    assert_eq!(at.machine.state(), OwnerState::Holder);
    let asked = at.on(Event::TakeOver);
    assert_eq!(asked, [Command::ReadRecord], "who gave up may take over again");
}

#[test]
fn an_owner_ends_with_an_epoch_of_another_one() {
    let accepted = |by| Event::Accepted { epoch: Epoch(6), by };
    let mut at = At::serves(1, PAIR, &[2]);
    assert_eq!(at.on(accepted(owner_id(1, 1))), []);
    assert_eq!(at.on(Event::Outranked(Epoch(5))), []);
    assert_eq!(at.on(accepted(owner_id(2, 1))), [Command::Stop, Command::ReadRecord]);
    let mut at = At::serves(1, PAIR, &[2]);
    assert_eq!(at.on(Event::Outranked(Epoch(6))), [Command::Stop, Command::ReadRecord]);
    let mut at = At::serves(1, PAIR, &[2]);
    at.revision += 1;
    let restored = OwnershipRecord { restored: true, ..record(owner_id(9, 1), 3, PAIR) };
    assert_eq!(at.read(&restored, false), [Command::Stop]);
}
