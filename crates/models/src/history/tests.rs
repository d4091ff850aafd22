//! The judges, on histories that are right, and on those that are broken in each way.

use super::reservations::{Answer, Asked, Seen};
use super::{Op, TORN, Verdict, What, blocks, judge, order, reservations};
use initiator::rng::Rng;

fn op(host: u64, begun: u64, ended: impl Into<Option<u64>>, what: What) -> Op {
    Op { host, begun, ended: ended.into(), what }
}
fn write(begun: u64, ended: impl Into<Option<u64>>, value: u64) -> Op {
    op(1, begun, ended, What::Write { block: 7, value })
}
fn read(begun: u64, ended: u64, value: u64) -> Op {
    op(2, begun, ended, What::Read { block: 7, value })
}
/// What is wrong with it, which has these words.
fn is_wrong(ops: &[Op], words: &str) {
    let wrong = judge(ops).expect_err("something is wrong").join("\n");
    assert!(wrong.contains(words), "'{words}' in '{wrong}', of {ops:?}");
}
fn is_right(ops: &[Op]) {
    assert_eq!(judge(ops), Ok(Verdict::default()), "{ops:?}");
}

#[test]
fn histories_of_blocks_that_are_right() {
    is_right(&[]);
    is_right(&[read(1, 2, 0), write(3, 4, 10), read(5, 6, 10), write(7, 8, 11), read(9, 10, 11)]);
    // At the same time: either, but in one order.
    is_right(&[write(1, 9, 10), write(1, 9, 11), read(2, 3, 0), read(4, 5, 11), read(6, 7, 10), read(10, 11, 10)]);
    // Another block is another.
    is_right(&[write(1, 2, 10), op(2, 3, 4, What::Read { block: 8, value: 0 })]);
    // Nobody knows whether it was written: it may be seen late, or never.
    is_right(&[write(1, None, 10), read(2, 3, 0), write(4, 5, 11), read(6, 7, 11), read(8, 9, 10), read(10, 11, 10)]);
    is_right(&[write(1, None, 10), read(2, 3, 0), read(4, 5, 0)]);
}

#[test]
fn histories_of_blocks_that_are_broken() {
    // A write is lost.
    is_wrong(&[write(1, 2, 10), read(3, 4, 0)], "block 7: 0xa came and went between 1 and 2, while 0x0 was there");
    is_wrong(&[write(1, 2, 10), read(2, 3, 10), write(4, 5, 11), read(6, 7, 10)], "while 0xa was there");
    // An older value comes back after a newer one was read.
    is_wrong(&[write(1, 2, 10), write(3, 20, 11), read(4, 5, 11), read(6, 7, 10)], "was there");
    // The same, of a write that nobody knows of: once seen it does not go.
    is_wrong(&[write(1, 2, 10), write(3, None, 11), read(4, 5, 11), read(6, 7, 10)], "was there");
    // Two hosts see two writes in two orders.
    is_wrong(&[write(1, 9, 10), write(1, 9, 11), read(10, 11, 10), read(12, 13, 11)], "was there");
    // What nobody wrote, what is not written yet, what was never a value.
    is_wrong(&[read(1, 2, 10)], "nobody wrote");
    is_wrong(&[read(1, 2, 10), write(3, 4, 10)], "before its write began");
    is_wrong(&[write(1, 2, 10), read(3, 4, TORN)], "parts of several");
}

/// Small histories at random, against a search for an order.
#[test]
fn the_judge_of_blocks_says_what_a_search_says() {
    let (mut rng, mut verdicts) = (Rng::new(5), [0; 2]);
    for _ in 0..20_000 {
        let count = 2 + rng.below(6);
        let ops: Vec<Op> = (0..count)
            .map(|no| {
                let begun = 1 + rng.below(20);
                let ended = (!rng.percent(15)).then(|| begun + rng.below(8));
                match rng.below(2) {
                    0 => write(begun, ended, 1 + no),
                    _ => read(begun, ended.unwrap_or(begun + 1), rng.below(count + 1)),
                }
            })
            .collect();
        let mut sorted: Vec<&Op> = ops.iter().collect();
        sorted.sort_by_key(|op| op.begun);
        let searched = order::search(&sorted, order::WAYS_MAX, 0, |now, op| match op.what {
            What::Write { value, .. } => Some(value),
            What::Read { value, .. } => (value == *now).then_some(*now),
            _ => unreachable!("only these"),
        });
        let wrong = blocks::judge(&ops);
        let error = searched.as_ref().err();
        assert_eq!(wrong.is_empty(), error.is_none(), "{wrong:?}, {error:?}: {sorted:#?}");
        verdicts[usize::from(wrong.is_empty())] += 1;
    }
    assert!(verdicts.iter().all(|count| *count > 1000), "{verdicts:?}");
}

const WRITE_EXCLUSIVE: u8 = 1;

fn asks(host: u64, begun: u64, ended: impl Into<Option<u64>>, asked: Asked, answer: impl Into<Option<Answer>>) -> Op {
    op(host, begun, ended, What::Reserve { asked, answer: answer.into() })
}
fn registers(host: u64, at: u64) -> Op {
    asks(host, at, at + 1, Asked::Register { key: host }, Answer::Done)
}
fn acquires(host: u64, begun: u64, ended: impl Into<Option<u64>>, answer: impl Into<Option<Answer>>) -> Op {
    asks(host, begun, ended, Asked::Acquire { key: host, rtype: WRITE_EXCLUSIVE }, answer)
}
fn writes(host: u64, at: u64, allowed: bool) -> Op {
    op(host, at, at + 1, What::Access { write: true, allowed })
}
fn sees(host: u64, at: u64, rtype: u8, registrants: &[(u64, bool)]) -> Op {
    let registrants = registrants.iter().map(|(host, holds)| (*host, *host, *holds)).collect();
    op(host, at, at + 1, What::Report { seen: Seen { rtype, registrants } })
}

#[test]
fn histories_of_reservations_that_are_right() {
    let begin = [writes(2, 1, true), registers(1, 3), registers(2, 5)];
    let with = |more: &[Op]| [&begin[..], more].concat();
    is_right(&with(&[acquires(1, 7, 8, Answer::Done), writes(2, 9, false), writes(1, 9, true), sees(2, 11, 1, &[(1, true), (2, false)])]));
    // Two at the same time: one gets it.
    is_right(&with(&[acquires(1, 7, 9, Answer::Conflict), acquires(2, 7, 9, Answer::Done), writes(2, 11, true)]));
    // Nobody knows whether the first one got it, and when.
    let unknown = with(&[acquires(1, 7, None, None), writes(2, 9, true)]);
    is_right(&unknown);
    is_right(&[&unknown[..], &[writes(2, 11, false), sees(1, 13, 1, &[(1, true), (2, false)])]].concat());
}

/// What is under way may be seen by one host and not yet by another, and a report may be of before for a while. What was answered holds for reads and writes.
#[test]
fn what_is_seen_of_reservations() {
    let begin = [registers(1, 3), registers(2, 5)];
    let with = |more: &[Op]| [&begin[..], more].concat();
    let under_way = acquires(1, 7, 20, Answer::Done);
    is_right(&with(&[
        under_way.clone(),
        sees(1, 9, 1, &[(1, true), (2, false)]),
        writes(2, 11, true),
        sees(2, 13, 0, &[(1, false), (2, false)]),
    ]));
    is_wrong(&with(&[under_way, writes(2, 21, true)]), "no state shows");
    // Nobody has answered, and no command has met it since: whoever looks much later sees that it has happened.
    let late = 2 * super::HAPPENS_WITHIN_US;
    is_right(&with(&[acquires(1, 7, None, None), sees(2, late, 1, &[(1, true), (2, false)]), writes(2, late + 2, false)]));
    is_right(&with(&[acquires(1, 7, 8, Answer::Done), sees(2, 11, 0, &[(1, false), (2, false)]), writes(2, 13, false)]));
}

/// What cannot be judged ends where the state is known again.
#[test]
fn reservations_are_judged_again_once_the_state_is_known() {
    let begin = [registers(1, 3), registers(2, 3), registers(3, 3), acquires(1, 7, 9, Answer::Done)];
    let quiet = 20 + super::LATE_US;
    let known = sees(2, quiet, 1, &[(1, true), (2, false), (3, false)]);
    let with = |more: &[Op]| [&begin[..], core::slice::from_ref(&known), more].concat();
    let few = |ops: &[Op]| reservations::judge_within(ops, 2);
    let after = quiet + 10;
    let right = [acquires(2, after, after + 1, Answer::Conflict), writes(2, after + 2, false), writes(1, after + 2, true)];
    assert!(few(&begin).is_ok_and(|undecided| undecided > 0), "three at once are too many");
    assert_eq!(few(&with(&right)), few(&with(&[])), "what comes after it is judged");
    let wrong = |more: &[Op]| few(&with(more)).expect_err("it is broken");
    assert!(wrong(&[acquires(2, after, after + 1, Answer::Done)]).contains("no order explains"));
    assert!(wrong(&[writes(2, after, true)]).contains("no state shows"));
    // While something is under way a report says nothing for certain.
    let under_way = asks(3, 8, None, Asked::Unregister, None);
    let all = [&begin[..], &[under_way, known.clone(), acquires(2, after, after + 1, Answer::Done)]].concat();
    assert!(few(&all).is_ok());
}

/// What was not answered may have happened while it could, though nobody met it until long after.
#[test]
fn lost_commands_of_reservations_that_are_met_late() {
    let begin = [registers(1, 3), registers(2, 5)];
    let with = |more: &[Op]| [&begin[..], more].concat();
    let (late, register) = (3 * super::HAPPENS_WITHIN_US, asks(3, 8, None, Asked::Register { key: 3 }, None));
    for answer in [Answer::Done, Answer::Conflict] {
        is_right(&with(&[register.clone(), acquires(3, late, late + 1, answer)]));
    }
    let clear = asks(1, 7, None, Asked::Clear { key: 1 }, None);
    let (gone, there) = (acquires(1, late, late + 1, Answer::Conflict), acquires(3, late + 2, late + 3, Answer::Done));
    is_right(&with(&[clear, register.clone(), gone, there.clone()]));
    // It is too late for it to happen.
    let not_yet = acquires(3, late, late + 1, Answer::Conflict);
    is_wrong(&with(&[register, not_yet, there]), "reservations: no order explains");
}

#[test]
fn histories_of_reservations_that_are_broken() {
    let begin = [registers(1, 3), registers(2, 5)];
    let with = |more: &[Op]| [&begin[..], more].concat();
    let breaks = |more: &[Op]| is_wrong(&with(more), "reservations: no ");
    // Two hosts hold it.
    breaks(&[acquires(1, 7, 9, Answer::Done), acquires(2, 7, 9, Answer::Done)]);
    // A write of a host that was shut out is let through, or one of the holder is not.
    breaks(&[acquires(1, 7, 8, Answer::Done), writes(2, 9, true)]);
    breaks(&[acquires(1, 7, 8, Answer::Done), writes(1, 9, false)]);
    // What was done is forgotten, or comes back.
    breaks(&[acquires(1, 7, 8, Answer::Done), acquires(2, 9, 10, Answer::Done)]);
    breaks(&[asks(1, 7, 8, Asked::Unregister, Answer::Done), acquires(1, 9, 10, Answer::Done)]);
    breaks(&[acquires(1, 7, 8, Answer::Done), sees(1, 2 * super::LATE_US, 0, &[(1, false), (2, false)])]);
    // Once another command has met it, it has happened.
    breaks(&[acquires(1, 7, None, None), acquires(2, 9, 10, Answer::Conflict), acquires(2, 11, 12, Answer::Done)]);
    // A registration that nobody asked for.
    breaks(&[sees(1, 7, 0, &[(1, false), (2, false), (3, false)])]);
    is_right(&with(&[]));
}
