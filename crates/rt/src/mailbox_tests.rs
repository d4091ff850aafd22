#![allow(clippy::disallowed_methods)] // real threads are what these rings are for

use super::*;
use proptest::prelude::*;
use std::{rc::Rc, thread};

#[test]
fn a_full_ring_gives_the_message_back_and_goes_on_when_there_is_room() {
    let (p, c) = ring::<u32>(2);
    assert_eq!((p.push(1), p.push(2), p.push(3)), (Ok(()), Ok(()), Err(3)));
    assert_eq!(c.pop(), Some(1));
    assert_eq!(p.push(3), Ok(()));
    assert_eq!((c.pop(), c.pop(), c.pop()), (Some(2), Some(3), None));
}

#[test]
fn what_is_left_in_a_ring_is_dropped_with_it() {
    let counted = Rc::new(());
    let (p, c) = ring(8);
    for _ in 0..5 {
        p.push(Rc::clone(&counted)).unwrap();
    }
    drop(c.pop());
    drop((p, c));
    assert_eq!(Rc::strong_count(&counted), 1);
}

#[test]
fn every_message_between_threads_arrives_once_and_in_order() {
    const N: u64 = 200_000;
    let (p, c) = ring::<Box<u64>>(64);
    let producer = thread::spawn(move || {
        for i in 0..N {
            let mut m = Box::new(i);
            while let Err(back) = p.push(m) {
                m = back;
                thread::yield_now();
            }
        }
    });
    for i in 0..N {
        let got = loop {
            match c.pop() {
                Some(m) => break *m,
                None => thread::yield_now(),
            }
        };
        assert_eq!(got, i);
    }
    producer.join().unwrap();
    assert!(c.pop().is_none());
}

#[test]
fn a_mesh_receives_from_all_by_turns() {
    let ends = mesh::<(usize, u32)>(3, 4);
    crate::sim::block_on(1, async |rt| {
        for (from, end) in ends.iter().enumerate() {
            for i in 0..4 {
                end.send(&rt, 1, (from, i)).unwrap();
            }
            assert_eq!(end.send(&rt, 1, (from, 9)), Err((from, 9)), "full");
        }
    });
    let got: Vec<_> = std::iter::from_fn(|| ends[1].recv()).collect();
    let expected: Vec<_> = (0..4).flat_map(|i| (0..3).map(move |from| (from, i))).collect();
    assert_eq!(got, expected);
    assert!(ends[0].recv().is_none());
}

#[test]
fn an_inbox_takes_from_many_threads_is_bounded_and_closes() {
    let (inlet, inbox) = inbox::<u64>();
    let threads: Vec<_> = (0..4)
        .map(|t| {
            let inlet = inlet.clone();
            thread::spawn(move || (0..100).for_each(|i| inlet.send(t * 100 + i).unwrap()))
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    let mut all: Vec<u64> = std::iter::from_fn(|| inbox.try_recv()).collect();
    all.sort_unstable();
    assert_eq!(all, (0..400).collect::<Vec<_>>());
    (0..INBOX_DEPTH as u64).for_each(|i| inlet.send(i).unwrap());
    assert!(matches!(inlet.send(7), Err(InletError::Full(7))));
    drop(inbox);
    assert!(matches!(inlet.send(7), Err(InletError::Closed(7))));
}

proptest! {
    #[test]
    fn a_ring_is_a_bounded_queue(depth_log2 in 0..5u32, ops in prop::collection::vec(any::<bool>(), 0..300)) {
        let depth = 1usize << depth_log2;
        let (p, c) = ring::<usize>(depth);
        let mut model = VecDeque::new();
        for (i, push) in ops.into_iter().enumerate() {
            if push {
                let expect = if model.len() < depth { model.push_back(i); Ok(()) } else { Err(i) };
                prop_assert_eq!(p.push(i), expect);
            } else {
                prop_assert_eq!(c.pop(), model.pop_front());
            }
        }
    }
}
