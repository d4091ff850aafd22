//! Epochs, and which blocks of a chunk have changed since when.

use super::harness::{Lab, Running, Setup, next_order, quick, write_op};
use crate::{ComponentNo, OpKind, StoreError};
use base::{Epoch, Order};
use rt::Rt;

/// The next change, in this epoch and period.
fn at(epoch: u32, period_start: u32) -> Order {
    let mut order = next_order();
    (order.epoch, order.period_start) = (Epoch(epoch), Epoch(period_start));
    order
}

async fn write(rt: &Rt, s: &Running, order: Order, c: ComponentNo, block: u64, values: &[u64]) -> Result<(), StoreError> {
    s.call_as(rt, order, c, block, values.len() as u32, write_op(c, block, values, true)).await.result
}

async fn change(rt: &Rt, s: &Running, order: Order, c: ComponentNo, block: u64, blocks: u32, kind: OpKind) -> Result<(), StoreError> {
    s.call_as(rt, order, c, block, blocks, kind).await.result
}

/// What the table says of a chunk: its epoch, and the blocks that have changed.
fn of(s: &Running, c: ComponentNo, chunk: u64) -> Option<(u32, u16)> {
    let shard = s.shard.borrow();
    let state = shard.as_ref().expect("open").state().borrow();
    let table = state.space.table();
    table.lookup(c, chunk).map(|phys| (table.get(phys).epoch.0, table.get(phys).changed))
}

#[test]
fn a_change_of_an_epoch_that_is_over_changes_nothing() {
    let mut lab = Lab::new(600, &Setup::default());
    let c = lab.components[0];
    lab.with(quick(), async |rt, s| {
        write(&rt, &s, at(5, 1), c, 0, &[50]).await.unwrap();
        for kind in [write_op(c, 0, &[51], true), OpKind::Trim, OpKind::Zero, OpKind::Uncorrectable] {
            assert_eq!(change(&rt, &s, at(4, 1), c, 0, 1, kind).await, Err(StoreError::StaleEpoch));
        }
        assert_eq!(s.read(&rt, c, 0, 1).await.unwrap(), [50], "a read has no epoch");
    });
    lab.power_cycle();
    lab.with(quick(), async |rt, s| {
        assert_eq!(write(&rt, &s, at(4, 1), c, 0, &[52]).await, Err(StoreError::StaleEpoch), "the log says what was accepted");
        write(&rt, &s, at(5, 1), c, 0, &[53]).await.unwrap();
        write(&rt, &s, at(6, 1), c, 0, &[54]).await.unwrap();
        assert_eq!(s.read(&rt, c, 0, 1).await.unwrap(), [54]);
        s.check();
    });
}

#[test]
fn a_period_names_what_has_changed_in_it_and_nothing_else() {
    let mut lab = Lab::new(601, &Setup::default());
    let c = lab.components[0];
    let all = u16::MAX;
    lab.with(quick(), async |rt, s| {
        write(&rt, &s, at(1, 1), c, 0, &[10, 11, 12, 13]).await.unwrap();
        assert_eq!(of(&s, c, 0), Some((1, all)), "a new chunk has changed");
        s.drained(&rt).await;
        write(&rt, &s, at(2, 2), c, 1, &[21]).await.unwrap();
        assert_eq!(of(&s, c, 0), Some((2, 0b10)));
        change(&rt, &s, at(3, 2), c, 3, 1, OpKind::Trim).await.unwrap();
        assert_eq!(of(&s, c, 0), Some((3, 0b1010)), "another epoch of the same period");
        change(&rt, &s, at(3, 2), c, 0, 1, OpKind::Uncorrectable).await.unwrap();
        assert_eq!(of(&s, c, 0), Some((3, 0b1011)));
        write(&rt, &s, at(4, 4), c, 2, &[42]).await.unwrap();
        assert_eq!(of(&s, c, 0), Some((4, 0b100)));
    });
    lab.power_cycle();
    lab.with(quick(), async |rt, s| {
        assert_eq!(of(&s, c, 0), Some((4, 0b100)), "from page and log");
        s.drained(&rt).await;
    });
    lab.power_cycle();
    lab.with(quick(), async |rt, s| {
        assert_eq!(of(&s, c, 0), Some((4, 0b100)), "from the page");
        change(&rt, &s, at(4, 4), c, 0, 16, OpKind::Trim).await.unwrap();
        assert_eq!(of(&s, c, 0), None);
        write(&rt, &s, at(4, 4), c, 7, &[47]).await.unwrap();
        assert_eq!(of(&s, c, 0), Some((4, all)), "it is another chunk");
    });
}

#[test]
fn what_was_written_and_trimmed_before_it_was_destaged_has_changed_after_a_restart() {
    let mut lab = Lab::new(602, &Setup::default());
    let c = lab.components[0];
    // Another page of the chunk table has what moves the log on.
    let far = 6 * 256;
    lab.with(quick(), async |rt, s| {
        for piece in 0..7 {
            write(&rt, &s, at(1, 1), c, piece * 256, &[1]).await.unwrap();
        }
        s.drained(&rt).await;
        write(&rt, &s, at(2, 2), c, 3, &[2]).await.unwrap();
        change(&rt, &s, at(2, 2), c, 3, 1, OpKind::Trim).await.unwrap();
        for _ in 0..20 {
            write(&rt, &s, at(2, 2), c, far, &[9; 128]).await.unwrap();
        }
        s.drained(&rt).await;
    });
    lab.power_cycle();
    lab.with(quick(), async |_, s| assert_eq!(of(&s, c, 0), Some((2, 0b1000))));
}

#[cfg(feature = "hooks")]
#[test]
fn seeded_faults_are_noticed() {
    use base::hooks::SeededFault;
    base::hooks::notices(SeededFault::OlderEpochTaken, a_change_of_an_epoch_that_is_over_changes_nothing);
    base::hooks::notices(SeededFault::MaskNotDirty, what_was_written_and_trimmed_before_it_was_destaged_has_changed_after_a_restart);
}
