//! One copy of several, rule by rule (`docs/replication.md`, "The copy").

use super::harness::{Lab, Running, Setup, component_spec, next_order, quick, write_op};
use crate::{ComponentNo, CopyChunk, CopySync, OpKind, RangeContent, RangeOp, StoreError, open_group};
use base::{BlockNo, Epoch, Incarnation, Lane, NodeId, Order, OwnerId, ResyncProgress, Seq};
use rt::Rt;

pub fn owner(n: u8) -> OwnerId {
    OwnerId { node: NodeId::from_bytes([n; 16]), incarnation: Incarnation(u64::from(n)) }
}

/// Change `counter` of a term and epoch, with the mark at `mark` of the term.
pub fn order(epoch: u32, period_start: u32, counter: u64, mark: u64) -> Order {
    let seq = |counter| Seq { term: Epoch(1), counter };
    Order { epoch: Epoch(epoch), period_start: Epoch(period_start), seq: seq(counter), mark: seq(mark) }
}

/// A lab whose first component is a copy.
pub fn lab(seed: u64) -> Lab {
    let setup = Setup { components: vec![component_spec(1, 0, 0), component_spec(2, 0, 0)], ..Setup::default() };
    let mut lab = Lab::new(seed, &setup);
    let (devices, c) = (lab.devices.clone(), lab.components[0]);
    lab.world.block_on(lab.host, async |rt: Rt| {
        open_group(&rt, None, &devices).await.unwrap().make_copy(&rt, c).await.unwrap();
    });
    lab
}

pub async fn accept(
    rt: &Rt,
    s: &Running,
    c: ComponentNo,
    (epoch, period_start): (u32, u32),
    by: u8,
    sync: CopySync,
) -> Result<(), StoreError> {
    let order = Order { epoch: Epoch(epoch), period_start: Epoch(period_start), ..Order::default() };
    s.call_as(rt, order, c, 0, 0, OpKind::Accept { by: owner(by), sync }).await.result
}

async fn write(rt: &Rt, s: &Running, order: Order, c: ComponentNo, block: u64, values: &[u64]) -> Result<(), StoreError> {
    s.call_as(rt, order, c, block, values.len() as u32, write_op(c, block, values, true)).await.result
}

async fn trim(rt: &Rt, s: &Running, order: Order, c: ComponentNo, block: u64, blocks: u32) -> Result<(), StoreError> {
    s.call_as(rt, order, c, block, blocks, OpKind::Trim).await.result
}

/// A range with this data; none: the chunk is not there.
pub fn range_op(c: ComponentNo, block: u64, values: &[u64], source: Option<(u32, u16)>, progress: (u64, u32)) -> OpKind {
    let progress = ResyncProgress { below: progress.0, to: Epoch(progress.1) };
    let content = match write_op(c, block, values, true) {
        _ if values.is_empty() => RangeContent::Nothing,
        OpKind::Write { buf, crcs, checksum } => RangeContent::Data { buf, crcs, checksum },
        _ => unreachable!("a write"),
    };
    OpKind::Range(Box::new(RangeOp { source: source.map(|(epoch, mask)| (Epoch(epoch), mask)), progress, content }))
}

fn list(s: &Running, c: ComponentNo) -> Vec<CopyChunk> {
    let shard = s.shard.borrow();
    let list = shard.as_ref().expect("open").list(c, 0, usize::MAX);
    assert_eq!(list.next, None);
    list.chunks
}

fn chunk(s: &Running, c: ComponentNo, chunk: u64) -> Option<(u32, u16)> {
    list(s, c).iter().find(|at| at.chunk == chunk).and_then(|at| at.there).map(|(epoch, mask)| (epoch.0, mask))
}

fn doubt(s: &Running, c: ComponentNo) -> Vec<(u64, u32)> {
    let lanes = s.shard.borrow().as_ref().expect("open").in_doubt(c);
    lanes.iter().flat_map(|lane| &lane.doubt).map(|range| (range.first.0, range.blocks)).collect()
}

fn own_doubt(s: &Running, c: ComponentNo) -> Vec<(u64, u16)> {
    list(s, c).iter().filter(|at| at.own_doubt != 0).map(|at| (at.chunk, at.own_doubt)).collect()
}

fn view(s: &Running, c: ComponentNo) -> crate::ReplicaView {
    s.shard.borrow().as_ref().expect("open").replica(c).expect("a copy")
}

/// Writes the log round, so that nothing is in it but what has to be.
async fn go_round(rt: &Rt, s: &Running, other: ComponentNo) {
    for _ in 0..40 {
        s.write(rt, other, 0, &[next_order().seq.counter; 128]).await.unwrap();
    }
    s.drained(rt).await;
}

#[test]
fn a_lower_epoch_and_one_that_was_not_accepted_are_refused() {
    let mut lab = lab(700);
    let c = lab.components[0];
    lab.with(quick(), async |rt, s| {
        accept(&rt, &s, c, (5, 1), 1, CopySync::InSync).await.unwrap();
        write(&rt, &s, order(5, 1, 1, 0), c, 0, &[50]).await.unwrap();
        for kind in [write_op(c, 0, &[51], true), OpKind::Trim, OpKind::Zero, OpKind::Uncorrectable] {
            assert_eq!(s.call_as(&rt, order(4, 1, 2, 0), c, 0, 1, kind).await.result, Err(StoreError::StaleEpoch));
        }
        assert_eq!(write(&rt, &s, order(6, 1, 2, 0), c, 0, &[60]).await, Err(StoreError::EpochNotAccepted));
        assert_eq!(accept(&rt, &s, c, (4, 1), 1, CopySync::Keep).await, Err(StoreError::StaleEpoch));
        assert_eq!(accept(&rt, &s, c, (5, 1), 2, CopySync::Keep).await, Err(StoreError::StaleEpoch), "another's");
        assert_eq!(s.read(&rt, c, 0, 1).await.unwrap(), [50]);
        s.check();
    });
}

#[test]
fn an_accepted_epoch_outlives_a_crash_and_a_log_that_goes_round() {
    let mut lab = lab(701);
    let (c, other) = (lab.components[0], lab.components[1]);
    lab.with(quick(), async |rt, s| accept(&rt, &s, c, (7, 3), 2, CopySync::InSync).await.unwrap());
    for round in 0..3 {
        lab.power_cycle();
        lab.with(quick(), async |rt, s| {
            let is = view(&s, c);
            assert_eq!((is.accepted, is.durable, is.by, is.resync), (Epoch(7), Epoch(7), owner(2), None), "round {round}");
            assert_eq!(write(&rt, &s, order(6, 3, 1, 0), c, 0, &[1]).await, Err(StoreError::StaleEpoch));
            go_round(&rt, &s, other).await;
            s.check();
        });
    }
}

#[test]
fn a_group_says_that_it_holds_copies_before_its_log_does() {
    let mut lab = Lab::new(702, &Setup::default());
    let c = lab.components[0];
    let devices = lab.devices.clone();
    lab.with(quick(), async |rt, s| {
        assert_eq!(accept(&rt, &s, c, (2, 1), 1, CopySync::InSync).await, Err(StoreError::BadChange));
        for device in &devices {
            let probe = crate::probe(&rt, device).await.unwrap();
            assert!(matches!(probe, crate::Probe::Ours(found) if found.superblock.major == 3), "older programs read it");
        }
        let group = open_group(&rt, None, &devices).await.unwrap();
        for _ in 0..2 {
            let info = group.make_copy(&rt, c).await.unwrap();
            assert!(info.copy);
        }
        let info = group.component(c).unwrap();
        s.shard.borrow_mut().as_mut().expect("open").add_component(c, &info);
        accept(&rt, &s, c, (2, 1), 1, CopySync::InSync).await.unwrap();
        for device in &devices {
            let probe = crate::probe(&rt, device).await.unwrap();
            assert!(matches!(probe, crate::Probe::Ours(found) if found.superblock.major == 4 && found.superblock.generation == 3));
        }
    });
    lab.power_cycle();
    lab.with(quick(), async |rt, s| accept(&rt, &s, c, (2, 1), 1, CopySync::InSync).await.unwrap());
}

#[test]
fn a_change_that_is_there_is_acknowledged_and_not_carried_out_again() {
    let mut lab = lab(703);
    let (c, other) = (lab.components[0], lab.components[1]);
    let again = async |rt: &Rt, s: &Running| {
        // In doubt, settled by a mark, and a trim of nothing.
        write(rt, s, order(1, 1, 4, 2), c, 0, &[99]).await.unwrap();
        write(rt, s, order(1, 1, 1, 0), c, 0, &[98]).await.unwrap();
        trim(rt, s, order(1, 1, 3, 0), c, 1, 1).await.unwrap();
        assert_eq!(s.read(rt, c, 0, 3).await.unwrap(), [14, 15, 0]);
    };
    lab.with(quick(), async |rt, s| {
        accept(&rt, &s, c, (1, 1), 1, CopySync::InSync).await.unwrap();
        write(&rt, &s, order(1, 1, 1, 0), c, 0, &[11]).await.unwrap();
        write(&rt, &s, order(1, 1, 2, 0), c, 0, &[12]).await.unwrap();
        trim(&rt, &s, order(1, 1, 3, 0), c, 1, 1).await.unwrap();
        write(&rt, &s, order(1, 1, 4, 2), c, 0, &[14]).await.unwrap();
        write(&rt, &s, order(1, 1, 5, 2), c, 1, &[15]).await.unwrap();
        again(&rt, &s).await;
        // While it is on its way, the answer waits for it.
        let first = s.submit_as(&rt, order(1, 1, 6, 2), c, 8, 1, write_op(c, 8, &[16], true));
        let second = s.submit_as(&rt, order(1, 1, 6, 2), c, 8, 1, write_op(c, 8, &[17], true));
        let mut ended = Vec::new();
        while ended.len() < 2 {
            s.some_ended().await;
            ended.extend(s.take_done().into_iter().map(|done| (done.cookie, done.result)));
        }
        assert_eq!(ended, [(first, Ok(())), (second, Ok(()))]);
        assert_eq!(s.read(&rt, c, 8, 1).await.unwrap(), [16]);
        s.check();
    });
    for _ in 0..2 {
        lab.power_cycle();
        lab.with(quick(), async |rt, s| {
            again(&rt, &s).await;
            assert_eq!(s.read(&rt, c, 8, 1).await.unwrap(), [16]);
            go_round(&rt, &s, other).await;
            again(&rt, &s).await;
        });
    }
}

#[test]
fn what_is_in_doubt_is_found_again_after_a_crash_and_when_the_log_has_gone_round() {
    let mut lab = lab(704);
    let (c, other) = (lab.components[0], lab.components[1]);
    lab.with(quick(), async |rt, s| {
        accept(&rt, &s, c, (1, 1), 1, CopySync::InSync).await.unwrap();
        write(&rt, &s, order(1, 1, 1, 0), c, 0, &[11]).await.unwrap();
        write(&rt, &s, order(1, 1, 2, 1), c, 4, &[12, 13]).await.unwrap();
        trim(&rt, &s, order(1, 1, 3, 1), c, 40, 16).await.unwrap();
        write(&rt, &s, order(1, 1, 1, 0), c, 256, &[21]).await.unwrap();
        assert_eq!(doubt(&s, c), [(256, 1), (4, 2), (40, 16)]);
    });
    for round in 0..4 {
        lab.power_cycle();
        lab.with(quick(), async |rt, s| {
            assert_eq!(doubt(&s, c), [(256, 1), (4, 2), (40, 16)], "round {round}");
            let lanes = s.shard.borrow().as_ref().expect("open").in_doubt(c);
            let marks: Vec<(Lane, u64)> = lanes.iter().map(|lane| (lane.lane, lane.mark.counter)).collect();
            assert_eq!(marks, [(Lane::of(BlockNo(256)), 0), (Lane::of(BlockNo(0)), 1)]);
            go_round(&rt, &s, other).await;
            assert_eq!(doubt(&s, c), [(256, 1), (4, 2), (40, 16)]);
            s.check();
        });
    }
    lab.with(quick(), async |rt, s| {
        write(&rt, &s, order(1, 1, 4, 3), c, 5, &[14]).await.unwrap();
        assert_eq!(doubt(&s, c), [(256, 1), (5, 1)]);
    });
}

#[test]
fn an_epoch_stamps_what_is_in_doubt_before_the_mark_that_comes_with_it() {
    let mut lab = lab(705);
    let (c, other) = (lab.components[0], lab.components[1]);
    lab.with(quick(), async |rt, s| {
        accept(&rt, &s, c, (1, 1), 1, CopySync::InSync).await.unwrap();
        write(&rt, &s, order(1, 1, 1, 0), c, 0, &[1; 16]).await.unwrap();
        write(&rt, &s, order(1, 1, 2, 1), c, 16, &[2; 16]).await.unwrap();
        write(&rt, &s, order(1, 1, 3, 2), c, 32, &[3; 16]).await.unwrap();
        go_round(&rt, &s, other).await;
        accept(&rt, &s, c, (2, 2), 1, CopySync::InSync).await.unwrap();
        write(&rt, &s, order(2, 2, 4, 2), c, 17, &[4]).await.unwrap();
        // A change of an epoch that is not accepted has a mark that does not count.
        assert_eq!(write(&rt, &s, order(3, 2, 5, 4), c, 0, &[5]).await, Err(StoreError::EpochNotAccepted));
        accept(&rt, &s, c, (3, 2), 1, CopySync::InSync).await.unwrap();
        write(&rt, &s, order(3, 2, 5, 4), c, 300, &[5]).await.unwrap();
        assert_eq!((chunk(&s, c, 0), chunk(&s, c, 1), chunk(&s, c, 2)), (Some((1, u16::MAX)), Some((3, 2)), Some((3, u16::MAX))));
        s.check();
    });
    for _ in 0..2 {
        lab.power_cycle();
        lab.with(quick(), async |rt, s| {
            assert_eq!((chunk(&s, c, 0), chunk(&s, c, 1), chunk(&s, c, 2)), (Some((1, u16::MAX)), Some((3, 2)), Some((3, u16::MAX))));
            go_round(&rt, &s, other).await;
        });
    }
}

fn a_change_waits_until_its_epoch_has_stamped_what_is_in_doubt() {
    let mut lab = lab(716);
    let c = lab.components[0];
    lab.with(quick(), async |rt, s| {
        accept(&rt, &s, c, (1, 1), 1, CopySync::InSync).await.unwrap();
        write(&rt, &s, order(1, 1, 1, 0), c, 0, &[1; 16]).await.unwrap();
        let epoch = Order { epoch: Epoch(2), period_start: Epoch(2), ..Order::default() };
        let accepts = s.submit_as(&rt, epoch, c, 0, 0, OpKind::Accept { by: owner(1), sync: CopySync::InSync });
        let early = s.submit_as(&rt, order(2, 2, 2, 1), c, 32, 1, write_op(c, 32, &[2], true));
        let mut ended = Vec::new();
        while ended.len() < 2 {
            s.some_ended().await;
            ended.extend(s.take_done().into_iter().map(|done| (done.cookie, done.result)));
        }
        ended.sort_unstable_by_key(|(cookie, _)| *cookie);
        assert_eq!(ended, [(accepts, Ok(())), (early, Err(StoreError::EpochNotAccepted))]);
        write(&rt, &s, order(2, 2, 2, 1), c, 32, &[2]).await.unwrap();
        assert_eq!(chunk(&s, c, 0), Some((2, u16::MAX)), "the mark that came with it settled what was stamped");
        assert_eq!(doubt(&s, c), [(32, 1)]);
    });
}

#[test]
fn what_a_source_has_is_said_by_kind() {
    use base::{SourceContent as C, SourceRun};
    let mut lab = lab(717);
    let c = lab.components[0];
    lab.with(quick(), async |rt, s| {
        accept(&rt, &s, c, (1, 1), 1, CopySync::InSync).await.unwrap();
        let said = |s: &Running, block: u64, blocks| s.shard.borrow().as_ref().expect("open").source_run(c, BlockNo(block), blocks);
        assert_eq!(said(&s, 3, 200), SourceRun { content: C::Nothing, blocks: 200, chunk: None });
        write(&rt, &s, order(1, 1, 1, 0), c, 18, &[1; 2]).await.unwrap();
        s.call_as(&rt, order(1, 1, 2, 0), c, 22, 1, OpKind::Uncorrectable).await.result.unwrap();
        let chunk = chunk(&s, c, 1).map(|(epoch, mask)| (Epoch(epoch), mask));
        assert_eq!(said(&s, 14, 30), SourceRun { content: C::Nothing, blocks: 2, chunk: None });
        assert_eq!(said(&s, 16, 30), SourceRun { content: C::Nothing, blocks: 2, chunk }, "holes are no data");
        assert_eq!(said(&s, 18, 30), SourceRun { content: C::Data, blocks: 2, chunk });
        assert_eq!(said(&s, 20, 30), SourceRun { content: C::Nothing, blocks: 2, chunk });
        assert_eq!(said(&s, 22, 30), SourceRun { content: C::Uncorrectable, blocks: 1, chunk });
        assert_eq!(said(&s, 23, 3), SourceRun { content: C::Nothing, blocks: 3, chunk });
        write(&rt, &s, order(1, 1, 3, 0), c, 32, &[1; 16]).await.unwrap();
        assert_eq!(said(&s, 31, 30).blocks, 1);
    });
}

#[test]
fn a_change_that_comes_with_its_epoch_comes_again() {
    a_change_waits_until_its_epoch_has_stamped_what_is_in_doubt();
}

#[test]
fn stamping_clears_the_mask_of_an_older_period_and_sets_the_blocks() {
    let mut lab = lab(706);
    let (c, other) = (lab.components[0], lab.components[1]);
    lab.with(quick(), async |rt, s| {
        accept(&rt, &s, c, (1, 1), 1, CopySync::InSync).await.unwrap();
        write(&rt, &s, order(1, 1, 1, 0), c, 0, &[1; 16]).await.unwrap();
        write(&rt, &s, order(1, 1, 2, 1), c, 3, &[2]).await.unwrap();
        go_round(&rt, &s, other).await;
        accept(&rt, &s, c, (4, 4), 1, CopySync::InSync).await.unwrap();
        assert_eq!(chunk(&s, c, 0), Some((4, 0b1000)), "stamped, in a new period");
    });
    lab.power_cycle();
    lab.with(quick(), async |rt, s| {
        assert_eq!(chunk(&s, c, 0), Some((4, 0b1000)));
        go_round(&rt, &s, other).await;
    });
    lab.power_cycle();
    lab.with(quick(), async |_, s| assert_eq!(chunk(&s, c, 0), Some((4, 0b1000))));
}

#[test]
fn what_was_in_doubt_stays_so_until_it_was_copied() {
    let mut lab = lab(707);
    let (c, other) = (lab.components[0], lab.components[1]);
    let progress = |below, to| ResyncProgress { below, to: Epoch(to) };
    lab.with(quick(), async |rt, s| {
        accept(&rt, &s, c, (1, 1), 1, CopySync::InSync).await.unwrap();
        write(&rt, &s, order(1, 1, 1, 0), c, 0, &[1, 2]).await.unwrap();
        accept(&rt, &s, c, (3, 2), 2, CopySync::Join).await.unwrap();
        assert_eq!((own_doubt(&s, c), view(&s, c).resync), (vec![(0, 0b11)], Some(progress(0, 0))));
        // The mark of the new term settles it, and the resync is broken off.
        let term = |counter, mark| {
            let seq = |counter| Seq { term: Epoch(3), counter };
            Order { epoch: Epoch(3), period_start: Epoch(2), seq: seq(counter), mark: seq(mark) }
        };
        write(&rt, &s, term(1, 0), c, 40, &[4]).await.unwrap();
        assert_eq!(doubt(&s, c), [(40, 1)]);
        s.call_as(&rt, term(2, 1), c, 1, 1, range_op(c, 1, &[9], Some((2, 0b10)), (0, 3))).await.result.unwrap();
        assert_eq!((own_doubt(&s, c), view(&s, c).resync), (vec![(0, 0b01)], Some(progress(0, 3))));
        go_round(&rt, &s, other).await;
    });
    lab.power_cycle();
    lab.with(quick(), async |rt, s| {
        assert_eq!((own_doubt(&s, c), view(&s, c).resync), (vec![(0, 0b01)], Some(progress(0, 3))));
        accept(&rt, &s, c, (5, 2), 2, CopySync::Join).await.unwrap();
        assert_eq!((own_doubt(&s, c), view(&s, c).resync), (vec![(0, 0b11)], Some(progress(0, 3))), "the range itself is in doubt");
        go_round(&rt, &s, other).await;
    });
    lab.power_cycle();
    lab.with(quick(), async |rt, s| {
        assert_eq!((own_doubt(&s, c), view(&s, c).resync), (vec![(0, 0b11)], Some(progress(0, 3))));
        accept(&rt, &s, c, (6, 2), 2, CopySync::InSync).await.unwrap();
        assert_eq!((own_doubt(&s, c), view(&s, c).resync), (vec![], None));
    });
    lab.power_cycle();
    lab.with(quick(), async |_, s| assert_eq!((own_doubt(&s, c), view(&s, c).resync), (vec![], None)));
}

#[test]
fn a_range_brings_epoch_and_mask_of_its_source_and_frees_what_that_has_not() {
    let mut lab = lab(708);
    let (c, other) = (lab.components[0], lab.components[1]);
    let is = |s: &Running| (chunk(s, c, 0), chunk(s, c, 1), chunk(s, c, 2));
    lab.with(quick(), async |rt, s| {
        accept(&rt, &s, c, (1, 1), 1, CopySync::InSync).await.unwrap();
        write(&rt, &s, order(1, 1, 1, 0), c, 0, &[1; 48]).await.unwrap();
        go_round(&rt, &s, other).await;
        accept(&rt, &s, c, (6, 2), 1, CopySync::Join).await.unwrap();
        let range = async |counter, block, values: &[u64], source| {
            let blocks = if values.is_empty() { 16 } else { values.len() as u32 };
            let op = range_op(c, block, values, source, (0, 6));
            s.call_as(&rt, order(6, 2, counter, counter - 1), c, block, blocks, op).await.result
        };
        // All of it was in doubt, and has the epoch that was accepted: the higher one stays.
        assert_eq!(is(&s), (Some((6, u16::MAX)), Some((6, u16::MAX)), Some((6, u16::MAX))));
        range(2, 2, &[7, 7], Some((5, 0b1100))).await.unwrap();
        range(3, 16, &[], None).await.unwrap();
        range(4, 64, &[8], Some((4, 0b1))).await.unwrap();
        assert_eq!((is(&s), chunk(&s, c, 4)), ((Some((6, u16::MAX)), None, Some((6, u16::MAX))), Some((4, 0b1))));
        assert_eq!(s.read(&rt, c, 1, 3).await.unwrap(), [1, 7, 7]);
        // In a later period the mask begins anew.
        accept(&rt, &s, c, (9, 9), 1, CopySync::Keep).await.unwrap();
        for (counter, block, epoch, mask) in [(5, 64, 8, 0b10), (6, 66, 8, 0b100)] {
            let op = range_op(c, block, &[9], Some((epoch, mask)), (0, 9));
            s.call_as(&rt, order(9, 9, counter, counter - 1), c, block, 1, op).await.result.unwrap();
        }
        assert_eq!(chunk(&s, c, 4), Some((9, 0b111)), "stamped with the epoch, in its period: it was in doubt");
        for (bad, source, values) in [(15, Some((1, 1)), &[1, 2][..]), (0, None, &[1][..]), (0, Some((0, 1)), &[1][..])] {
            let op = range_op(c, bad, values, source, (0, 6));
            let done = s.call_as(&rt, order(9, 9, 7, 6), c, bad, values.len() as u32, op).await;
            assert_eq!(done.result, Err(StoreError::BadChange));
        }
        s.check();
        go_round(&rt, &s, other).await;
    });
    lab.power_cycle();
    lab.with(quick(), async |rt, s| {
        assert_eq!((chunk(&s, c, 1), chunk(&s, c, 4)), (None, Some((9, 0b111))));
        assert_eq!(s.read(&rt, c, 16, 16).await.unwrap(), [0; 16]);
        s.check();
    });
}

#[test]
fn no_owner_sends_what_would_spoil_the_log() {
    let mut lab = lab(709);
    let c = lab.components[0];
    lab.with(quick(), async |rt, s| {
        accept(&rt, &s, c, (5, 1), 1, CopySync::InSync).await.unwrap();
        for bad in [order(5, 6, 1, 0), order(5, 1, 1, 1), Order { seq: Seq { term: Epoch(6), counter: 1 }, ..order(5, 1, 1, 0) }] {
            assert_eq!(write(&rt, &s, bad, c, 0, &[1]).await, Err(StoreError::BadChange));
        }
        let long = write_op(c, 0, &[1; 200], true);
        assert_eq!(s.call_as(&rt, order(5, 1, 1, 0), c, 0, 200, long).await.result, Err(StoreError::BadChange));
        assert_eq!(accept(&rt, &s, c, (u32::MAX, 1), 1, CopySync::Keep).await, Err(StoreError::BadChange));
        for n in 1..=1024 {
            write(&rt, &s, order(5, 1, n, 0), c, n % 16, &[n]).await.unwrap();
        }
        assert_eq!(write(&rt, &s, order(5, 1, 1025, 0), c, 0, &[1]).await, Err(StoreError::TooManyInDoubt));
        write(&rt, &s, order(5, 1, 1025, 1), c, 0, &[1]).await.unwrap();
        assert_eq!(doubt(&s, c), [(0, 16)]);
        s.check();
    });
    lab.power_cycle();
    lab.with(quick(), async |_, s| assert_eq!(doubt(&s, c), [(0, 16)]));
}

#[test]
fn what_is_in_doubt_of_older_terms_leaves_room_for_an_agreement() {
    let mut lab = lab(718);
    let (c, other) = (lab.components[0], lab.components[1]);
    let of_term = |term, counter| {
        let seq = Seq { term: Epoch(term), counter };
        Order { epoch: Epoch(term), period_start: Epoch(1), seq, mark: Seq::default() }
    };
    lab.with(quick(), async |rt, s| {
        for term in 1..=4 {
            accept(&rt, &s, c, (term, 1), term as u8, CopySync::InSync).await.unwrap();
            // Each owner dies before its agreement has ended; the first one's changes are of other blocks in part.
            for n in 1..=1024 {
                let block = if term == 1 { n % 32 } else { n % 16 };
                write(&rt, &s, of_term(term, n), c, block, &[n]).await.unwrap();
            }
            assert_eq!(write(&rt, &s, of_term(term, 1025), c, 0, &[1]).await, Err(StoreError::TooManyInDoubt));
            assert_eq!(doubt(&s, c), [(0, 32)], "term {term}");
        }
        s.check();
    });
    lab.power_cycle();
    lab.with(quick(), async |rt, s| {
        assert_eq!(doubt(&s, c), [(0, 32)]);
        accept(&rt, &s, c, (5, 1), 5, CopySync::InSync).await.unwrap();
        for n in 1..=1024 {
            write(&rt, &s, of_term(5, n), c, n % 16, &[n]).await.unwrap();
        }
        go_round(&rt, &s, other).await;
    });
    lab.power_cycle();
    lab.with(quick(), async |_, s| assert_eq!(doubt(&s, c), [(0, 32)]));
}

#[test]
fn a_list_names_what_is_there_in_pieces() {
    let mut lab = lab(710);
    let c = lab.components[0];
    lab.with(quick(), async |rt, s| {
        accept(&rt, &s, c, (2, 1), 1, CopySync::InSync).await.unwrap();
        let chunks: Vec<u64> = (0..40).map(|n| n * 5 + n / 30 * 40_000).collect();
        for (n, chunk) in (1..).zip(&chunks) {
            // Each lane counts for itself; numbers may have gaps.
            write(&rt, &s, order(2, 1, n, n - 1), c, chunk * 16 + 3, &[n]).await.unwrap();
        }
        let (mut found, mut from) = (Vec::new(), Some(0));
        while let Some(at) = from {
            let list = s.shard.borrow().as_ref().expect("open").list(c, at, 7);
            assert!(list.chunks.len() <= 7 && list.chunks.iter().all(|e| e.there == Some((Epoch(2), u16::MAX))));
            found.extend(list.chunks.iter().map(|e| e.chunk));
            from = list.next;
        }
        assert_eq!(found, chunks);
        let two = s.shard.borrow().as_ref().expect("open").list(c, 11, 2);
        assert_eq!((two.chunks[0].chunk, two.chunks[1].chunk, two.next), (15, 20, Some(25)));
    });
}

#[test]
fn an_idle_shard_with_copies_rests() {
    let mut lab = lab(711);
    let (c, other) = (lab.components[0], lab.components[1]);
    lab.with(quick(), async |rt, s| {
        accept(&rt, &s, c, (2, 1), 1, CopySync::InSync).await.unwrap();
        write(&rt, &s, order(2, 1, 1, 0), c, 0, &[1]).await.unwrap();
        go_round(&rt, &s, other).await;
        rt.sleep(base::Duration::from_secs(1)).await;
        let before = s.stats();
        rt.sleep(base::Duration::from_secs(60)).await;
        let after = s.stats();
        assert_eq!((before.batches, before.checkpoints), (after.batches, after.checkpoints));
        assert!(after.log_used_bytes <= after.log_bytes / 6, "{after:?}");
        assert_eq!(doubt(&s, c), [(0, 1)]);
    });
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_are_noticed() {
    use base::hooks::{SeededFault as F, notices};
    notices(F::ReplicaTakesLowerEpoch, a_lower_epoch_and_one_that_was_not_accepted_are_refused);
    notices(F::EpochNotLogged, an_accepted_epoch_outlives_a_crash_and_a_log_that_goes_round);
    notices(F::EpochNotReplayed, an_accepted_epoch_outlives_a_crash_and_a_log_that_goes_round);
    notices(F::NotesForgotten, an_accepted_epoch_outlives_a_crash_and_a_log_that_goes_round);
    notices(F::DoubtNotReplayed, what_is_in_doubt_is_found_again_after_a_crash_and_when_the_log_has_gone_round);
    notices(F::DoubtNotNoted, what_is_in_doubt_is_found_again_after_a_crash_and_when_the_log_has_gone_round);
    notices(F::RepeatedCarriedOut, a_change_that_is_there_is_acknowledged_and_not_carried_out_again);
    notices(F::DoubtNotRestamped, an_epoch_stamps_what_is_in_doubt_before_the_mark_that_comes_with_it);
    notices(F::MarkBeforeRestamp, an_epoch_stamps_what_is_in_doubt_before_the_mark_that_comes_with_it);
    notices(F::ChangeBeforeRestamp, a_change_waits_until_its_epoch_has_stamped_what_is_in_doubt);
    notices(F::UnderWayAcknowledged, a_change_that_is_there_is_acknowledged_and_not_carried_out_again);
    notices(F::RestampKeepsMask, stamping_clears_the_mask_of_an_older_period_and_sets_the_blocks);
    notices(F::MaskOfOldPeriod, stamping_clears_the_mask_of_an_older_period_and_sets_the_blocks);
    notices(F::OwnDoubtForgotten, what_was_in_doubt_stays_so_until_it_was_copied);
    notices(F::ProgressWithoutEpoch, what_was_in_doubt_stays_so_until_it_was_copied);
    notices(F::RangeFreesNothing, a_range_brings_epoch_and_mask_of_its_source_and_frees_what_that_has_not);
    notices(F::RangeKeepsEpoch, a_range_brings_epoch_and_mask_of_its_source_and_frees_what_that_has_not);
    notices(F::RangeKeepsMask, a_range_brings_epoch_and_mask_of_its_source_and_frees_what_that_has_not);
    notices(F::NewChunkUnmarked, a_list_names_what_is_there_in_pieces);
}
