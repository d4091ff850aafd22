//! What Unix sockets and events of a simulated host promise.

use super::*;
use crate::{Buf, Descriptor, Event, EventId, NetError, Queue, Rt, SendList, UnixConnId, buffers_outstanding};
use base::Duration;
use std::{cell::RefCell, path::Path, rc::Rc};

const PATH: &str = "/run/basalt/volume.sock";

async fn event(rt: &Rt, q: &Queue) -> Event {
    loop {
        if let Some(c) = q.pop() {
            return c.event;
        }
        rt.sleep(Duration::from_micros(20)).await;
    }
}

/// Both ends of a connection: of who connected, of who listened.
async fn pair(rt: &Rt, q: &Queue) -> (UnixConnId, UnixConnId) {
    let l = rt.listen_unix(q, 0, Path::new(PATH), 0o600).unwrap();
    rt.connect_unix(q, 1, Path::new(PATH));
    let (mut near, mut far) = (None, None);
    while near.is_none() || far.is_none() {
        match event(rt, q).await {
            Event::UnixConnected { result } => near = Some(result.unwrap()),
            Event::UnixAccepted { conn } => far = Some(conn),
            other => panic!("{other:?}"),
        }
    }
    rt.close_unix_listener(l);
    (near.unwrap(), far.unwrap())
}

fn list(bytes: &[u8]) -> SendList {
    let mut list = SendList::new();
    list.push_header(bytes);
    list
}

async fn receive(rt: &Rt, conn: UnixConnId, room: usize) -> Result<(Vec<u8>, Vec<Descriptor>), NetError> {
    let q = rt.queue();
    rt.recv_unix(&q, 0, conn, 0..room, Buf::alloc(room));
    match event(rt, &q).await {
        Event::UnixReceived { result, buf, descriptors, .. } => result.map(|n| (buf[..n].to_vec(), descriptors)),
        other => panic!("{other:?}"),
    }
}

async fn signalled(rt: &Rt, id: EventId) -> Result<u64, NetError> {
    let q = rt.queue();
    rt.wait_event(&q, 0, id);
    match event(rt, &q).await {
        Event::Signalled { result, .. } => result,
        other => panic!("{other:?}"),
    }
}

/// A front end that passes an event and kicks it, and a back end that answers each kick in a stream.
fn kicks(seed: u64) -> (Vec<u8>, u64) {
    let mut w = World::new(seed);
    let host = w.add_host(2, |_| Box::new(TasksOnly));
    let got = Rc::new(RefCell::new(Vec::new()));
    w.spawn(host, 1, |rt| async move {
        let q = rt.queue();
        rt.listen_unix(&q, 0, Path::new(PATH), 0o600).unwrap();
        let Event::UnixAccepted { conn } = event(&rt, &q).await else { panic!("no connection") };
        let (bytes, mut passed) = receive(&rt, conn, 100).await.unwrap();
        assert_eq!((bytes.is_empty(), passed.len()), (false, 1));
        let kick = rt.open_event(passed.remove(0)).unwrap();
        let mut left = 10;
        while left > 0 {
            let n = signalled(&rt, kick).await.unwrap();
            left -= n;
            rt.send_unix(&q, 0, conn, list(&vec![n as u8; n as usize]), Vec::new());
        }
    });
    let sink = Rc::clone(&got);
    w.block_on(host, async |rt| {
        rt.sleep(Duration::from_micros(100)).await;
        let q = rt.queue();
        rt.connect_unix(&q, 0, Path::new(PATH));
        let Event::UnixConnected { result: Ok(conn) } = event(&rt, &q).await else { panic!("not connected") };
        let made = rt.new_event().unwrap();
        let kick = rt.open_event(made.try_clone().unwrap()).unwrap();
        rt.send_unix(&q, 0, conn, list(b"kick"), vec![made]);
        for i in 0..10 {
            rt.ring_event(kick);
            rt.sleep(Duration::from_micros(i % 3)).await;
        }
        while sink.borrow().len() < 10 {
            let (bytes, passed) = receive(&rt, conn, 100).await.unwrap();
            assert!(passed.is_empty());
            sink.borrow_mut().extend(bytes);
        }
    });
    let got = got.borrow().clone();
    (got, w.trace_hash())
}

#[test]
fn a_passed_event_counts_its_kicks_and_a_seed_says_what_happens() {
    for seed in 0..50 {
        let run = kicks(seed);
        assert_eq!(run.0.len(), 10);
        assert_eq!(run, kicks(seed), "seed {seed}");
    }
    assert!((0..20).any(|seed| kicks(seed).0.iter().any(|n| *n > 1)), "kicks that nobody waits for add up");
}

#[test]
fn descriptors_come_with_the_first_byte_of_their_message_and_no_receive_goes_beyond_it() {
    let before = buffers_outstanding();
    for seed in 0..50 {
        block_on(seed, async |rt| {
            let q = rt.queue();
            let (near, far) = pair(&rt, &q).await;
            let passed = |n: usize| (0..n).map(|_| rt.new_event().unwrap()).collect::<Vec<_>>();
            rt.send_unix(&q, 0, near, list(b"one"), passed(0));
            rt.send_unix(&q, 1, near, list(b"two"), passed(2));
            rt.send_unix(&q, 2, near, list(b"three"), passed(3));
            for _ in 0..3 {
                assert!(matches!(event(&rt, &q).await, Event::UnixSent { result: Ok(()), .. }));
            }
            let (mut all, mut at) = (Vec::new(), Vec::new());
            while all.len() < 11 {
                let (bytes, descriptors) = receive(&rt, far, 100).await.unwrap();
                if !descriptors.is_empty() {
                    at.push((all.len(), descriptors.len()));
                }
                all.extend(bytes);
            }
            assert_eq!((all.as_slice(), at.as_slice()), (b"onetwothree".as_slice(), [(3, 2), (6, 3)].as_slice()));
            rt.close_unix(near);
            assert_eq!(receive(&rt, far, 10).await.unwrap().0, b"");
        });
    }
    assert_eq!(buffers_outstanding(), before);
}

#[test]
fn what_is_closed_or_gone_says_so() {
    block_on(1, async |rt| {
        let q = rt.queue();
        rt.connect_unix(&q, 0, Path::new(PATH));
        assert!(matches!(event(&rt, &q).await, Event::UnixConnected { result: Err(NetError::Refused) }));
        let (near, far) = pair(&rt, &q).await;
        let l = rt.listen_unix(&q, 0, Path::new(PATH), 0o600).unwrap();
        assert_eq!(rt.listen_unix(&q, 0, Path::new(PATH), 0o600), Err(NetError::AddrInUse));
        rt.close_unix_listener(l);
        // A wait and a receive that are under way end when what they wait for is closed.
        rt.recv_unix(&q, 0, near, 0..10, Buf::alloc(10));
        rt.close_unix(near);
        assert!(matches!(event(&rt, &q).await, Event::UnixReceived { result: Err(NetError::Closed), .. }));
        assert_eq!(receive(&rt, far, 10).await.unwrap().0, b"");
        rt.send_unix(&q, 0, far, list(b"x"), Vec::new());
        assert!(matches!(event(&rt, &q).await, Event::UnixSent { result: Err(NetError::Reset), .. }));
        let id = rt.open_event(rt.new_event().unwrap()).unwrap();
        rt.wait_event(&q, 0, id);
        rt.close_event(id);
        assert!(matches!(event(&rt, &q).await, Event::Signalled { result: Err(NetError::Closed), .. }));
        assert_eq!(signalled(&rt, id).await, Err(NetError::Closed));
        rt.ring_event(id);
    });
}

#[test]
fn a_process_that_dies_leaves_no_socket_behind() {
    let before = buffers_outstanding();
    let mut w = World::new(4);
    let host = w.add_host(1, |_| Box::new(TasksOnly));
    w.block_on(host, async |rt| {
        let q = rt.queue();
        let (near, _) = pair(&rt, &q).await;
        rt.recv_unix(&q, 0, near, 0..10, Buf::alloc(10));
        rt.listen_unix(&q, 0, Path::new(PATH), 0o600).unwrap();
    });
    w.kill_process(host);
    assert_eq!(buffers_outstanding(), before);
    w.start(host);
    w.block_on(host, async |rt| {
        pair(&rt, &rt.queue()).await;
    });
}
