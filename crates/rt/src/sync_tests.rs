use super::*;
use crate::sim;
use base::Duration;

#[test]
fn a_notification_before_the_wait_is_not_lost_and_two_count_once() {
    sim::block_on(1, async |rt| {
        let n = Notify::new();
        n.notify_one();
        n.notify_one();
        n.notified().await;
        let again = Rc::new(Cell::new(false));
        let (a, n2) = (Rc::clone(&again), n.clone());
        rt.spawn(async move {
            n2.notified().await;
            a.set(true);
        });
        rt.sleep(Duration::from_secs(1)).await;
        assert!(!again.get());
        n.notify_one();
        rt.sleep(Duration::from_secs(1)).await;
        assert!(again.get());
    });
}

#[test]
fn notify_one_lets_go_in_order_and_notify_all_everybody() {
    sim::block_on(1, async |rt| {
        let n = Notify::new();
        let log = Rc::new(RefCell::new(Vec::new()));
        for i in 0..5 {
            let (n, log) = (n.clone(), Rc::clone(&log));
            rt.spawn(async move {
                n.notified().await;
                log.borrow_mut().push(i);
            });
        }
        rt.sleep(Duration::from_millis(1)).await;
        n.notify_one();
        n.notify_one();
        rt.sleep(Duration::from_millis(1)).await;
        assert_eq!(*log.borrow(), [0, 1]);
        n.notify_all();
        rt.sleep(Duration::from_millis(1)).await;
        assert_eq!(*log.borrow(), [0, 1, 2, 3, 4]);
    });
}

#[test]
fn a_waiter_that_is_dropped_passes_its_notification_on() {
    sim::block_on(1, async |rt| {
        let n = Notify::new();
        let n2 = n.clone();
        let first = rt.spawn(async move { n2.notified().await });
        rt.sleep(Duration::from_millis(1)).await;
        n.notify_one();
        rt.cancel(first); // woken, but never run again
        n.notified().await;
    });
}

#[test]
fn a_oneshot_gives_its_value_or_says_that_the_sender_is_gone() {
    sim::block_on(1, async |rt| {
        let (tx, rx) = oneshot();
        let rt2 = rt.clone();
        rt.spawn(async move {
            rt2.sleep(Duration::from_millis(1)).await;
            tx.send(5).unwrap();
        });
        assert_eq!(rx.await, Ok(5));
        let (tx, rx) = oneshot::<u8>();
        drop(tx);
        assert_eq!(rx.await, Err(SenderGone));
        let (tx, rx) = oneshot();
        drop(rx);
        assert!(tx.is_closed());
        assert_eq!(tx.send(1), Err(1));
    });
}
