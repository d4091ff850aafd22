//! The ring and the wake-up between cores in every order that the memory of a weakly ordered processor (ARM) allows: `loom` tries them all.

// The files are compiled a second time, over the model.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, clippy::duplicate_mod)]

/// The model in the place of `super::memory`.
mod memory {
    pub(super) use loom::cell::UnsafeCell;
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
}
#[path = "ring.rs"]
mod ring;
#[path = "sleepy.rs"]
mod sleepy;

use loom::sync::atomic::{AtomicBool, Ordering, fence};
use loom::thread;
use ring::ring;
use sleepy::Sleepy;
use std::sync::Arc;

#[test]
fn a_message_arrives_whole_once_and_in_order_and_room_comes_back() {
    loom::model(|| {
        let (p, c) = ring::<Box<u32>>(2);
        let producer = thread::spawn(move || {
            let mut refused = 0;
            for n in 0..3 {
                let mut m = Box::new(n);
                while let Err(back) = p.push(m) {
                    m = back;
                    refused += 1;
                    if refused > 1 {
                        return n; // The consumer does not come; what is left is dropped with the ring.
                    }
                    thread::yield_now();
                }
            }
            3
        });
        let mut got = Vec::new();
        for _ in 0..3 {
            if let Some(m) = c.pop() {
                got.push(*m);
            }
        }
        let sent = producer.join().unwrap();
        while let Some(m) = c.pop() {
            got.push(*m);
        }
        assert_eq!(got, (0..sent).collect::<Vec<_>>());
    });
}

/// A core that goes to sleep while another leaves something for it; `rung` as production has it, or not.
fn sleep_and_wake(must_be_rung: fn(&Sleepy) -> bool) {
    loom::model(move || {
        let (p, c) = ring::<u32>(2);
        let sleepy = Arc::new(Sleepy::new());
        let bell = Arc::new(AtomicBool::new(false));
        let waker = {
            let (sleepy, bell) = (Arc::clone(&sleepy), Arc::clone(&bell));
            thread::spawn(move || {
                p.push(1).unwrap();
                if must_be_rung(&sleepy) {
                    bell.store(true, Ordering::Release);
                }
                p
            })
        };
        let mut got = c.pop();
        let mut slept = false;
        if got.is_none() {
            sleepy.announce();
            got = c.pop();
            slept = got.is_none();
            if !slept {
                sleepy.awake();
            }
        }
        drop(waker.join().unwrap());
        assert!(!slept || bell.load(Ordering::Acquire), "it sleeps, and nobody has rung");
        assert_eq!(got.or_else(|| c.pop()), Some(1));
    });
}

#[test]
fn a_core_that_sleeps_is_rung_for() {
    sleep_and_wake(Sleepy::must_be_rung);
}

#[test]
#[should_panic(expected = "it sleeps, and nobody has rung")]
fn the_model_notices_a_wake_up_that_orders_too_little() {
    sleep_and_wake(|sleepy| {
        fence(Ordering::Release);
        sleepy.clear()
    });
}
