//! What connections of the simulated network promise, and what its faults do.

use super::*;
use crate::{Buf, ConnId, Event, NetError, Queue, Rt, SendList, buffers_outstanding};
use base::Duration;
use proptest::prelude::*;
use std::{cell::RefCell, net::SocketAddr, rc::Rc};

async fn event(rt: &Rt, q: &Queue) -> Event {
    loop {
        if let Some(c) = q.pop() {
            return c.event;
        }
        rt.sleep(Duration::from_micros(20)).await;
    }
}

async fn connect(rt: &Rt, addr: SocketAddr) -> Result<ConnId, NetError> {
    let q = rt.queue();
    rt.connect(&q, 0, addr);
    match event(rt, &q).await {
        Event::Connected { result } => result,
        other => panic!("{other:?}"),
    }
}

async fn accept(rt: &Rt, q: &Queue) -> ConnId {
    match event(rt, q).await {
        Event::Accepted { conn, .. } => conn,
        other => panic!("{other:?}"),
    }
}

async fn recv(rt: &Rt, conn: ConnId, room: usize) -> Result<Vec<u8>, NetError> {
    let q = rt.queue();
    rt.recv(&q, 0, conn, Buf::alloc(room));
    match event(rt, &q).await {
        Event::Received { result, buf, .. } => result.map(|n| buf[..n].to_vec()),
        other => panic!("{other:?}"),
    }
}

async fn recv_all(rt: &Rt, conn: ConnId) -> Result<Vec<u8>, NetError> {
    let mut all = Vec::new();
    loop {
        let part = recv(rt, conn, 8192).await?;
        if part.is_empty() {
            return Ok(all);
        }
        all.extend(part);
    }
}

fn list(bytes: &[u8]) -> SendList {
    let mut list = SendList::new();
    let (head, data) = bytes.split_at(bytes.len().min(10));
    list.push_header(head);
    for part in data.chunks(5000) {
        list.push_data(Buf::copy_of(part), 0..part.len());
    }
    list
}

async fn send(rt: &Rt, conn: ConnId, bytes: &[u8]) -> Result<(), NetError> {
    let q = rt.queue();
    rt.send(&q, 0, conn, list(bytes));
    match event(rt, &q).await {
        Event::Sent { result, .. } => result,
        other => panic!("{other:?}"),
    }
}

fn pattern(n: usize, seed: u64) -> Vec<u8> {
    let mut rng = super::Rng::new(seed);
    (0..n).map(|_| rng.next_u64() as u8).collect()
}

/// Two hosts with one core each, and a connection between them.
fn pair(seed: u64) -> (World, [HostId; 2], [ConnId; 2]) {
    let mut w = World::new(seed);
    let hosts = [(); 2].map(|()| w.add_host(1, |_| Box::new(TasksOnly)));
    let server = w.rt(hosts[1], 0);
    let q = server.queue();
    let l = server.listen(&q, 0, "0.0.0.0:4420".parse().unwrap()).unwrap();
    assert_eq!(server.local_addr(l).port(), 4420);
    let addr = SocketAddr::new(w.addr(hosts[1]), 4420);
    let near = w.block_on(hosts[0], async |rt| connect(&rt, addr).await.unwrap());
    let far = w.block_on(hosts[1], async |rt| accept(&rt, &q).await);
    (w, hosts, [near, far])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn bytes_arrive_once_and_in_order(seed: u64, sizes in prop::collection::vec(1..200_000usize, 1..6)) {
        let before = buffers_outstanding();
        let (mut w, hosts, [near, far]) = pair(seed);
        let parts: Vec<Vec<u8>> = sizes.iter().enumerate().map(|(i, n)| pattern(*n, i as u64)).collect();
        let whole = parts.concat();
        w.spawn(hosts[0], 0, |rt| async move {
            let q = rt.queue();
            for (i, p) in parts.iter().enumerate() {
                rt.send(&q, i as u64, near, list(p)); // several deep
            }
            for i in 0..parts.len() as u64 {
                let done = loop {
                    match q.pop() {
                        Some(c) => break c,
                        None => rt.sleep(Duration::from_micros(20)).await,
                    }
                };
                assert!(done.cookie == i || parts.len() > 1, "sends end");
                assert!(matches!(done.event, Event::Sent { result: Ok(()), .. }));
            }
            rt.close(near);
        });
        let got = w.block_on(hosts[1], async |rt| recv_all(&rt, far).await);
        prop_assert_eq!(got, Ok(whole));
        drop(w);
        prop_assert_eq!(buffers_outstanding(), before);
    }
}

/// What one host sends to another takes the time of the links; two that send to one share its link, and other traffic has its part.
#[test]
fn a_link_takes_its_time_for_each_byte() {
    let took = |senders: u64, beside: usize| {
        let mut w = World::new(5);
        w.network(NetOptions { latency_ns: (15_000, 15_000), segment_bytes: (65_536, 65_536), byte_ns: 10.0, ..NetOptions::default() });
        let hosts: Vec<HostId> = (0..=senders).map(|_| w.add_host(1, |_| Box::new(TasksOnly))).collect();
        let server = w.rt(hosts[0], 0);
        let q = server.queue();
        server.listen(&q, 0, "0.0.0.0:4420".parse().unwrap()).unwrap();
        let addr = SocketAddr::new(w.addr(hosts[0]), 4420);
        let mut ends = Vec::new();
        for host in &hosts[1..] {
            let near = w.block_on(*host, async |rt| connect(&rt, addr).await.unwrap());
            ends.push((near, w.block_on(hosts[0], async |rt| accept(&rt, &q).await)));
        }
        let began = w.now();
        if beside > 0 {
            assert_eq!(on_link(&server, LinkWay::In, beside).since(began).as_nanos(), 10 * beside as u128);
        }
        for (host, (near, _)) in hosts[1..].iter().zip(&ends) {
            let near = *near;
            w.spawn(*host, 0, move |rt| async move { send(&rt, near, &[1; 100_000]).await.unwrap() });
        }
        for (_, far) in ends {
            w.block_on(hosts[0], async |rt| {
                let mut left = 100_000;
                while left > 0 {
                    left -= recv(&rt, far, 65_536).await.unwrap().len();
                }
            });
        }
        w.now().since(began).as_micros() as u64
    };
    assert!((1_015..1_090).contains(&took(1, 0)), "{}", took(1, 0));
    assert!((2_015..2_120).contains(&took(2, 0)), "{}", took(2, 0));
    assert!((1_500..1_590).contains(&took(1, 50_000)), "{}", took(1, 50_000));
}

#[test]
fn a_sender_waits_when_nobody_reads() {
    let (mut w, hosts, [near, far]) = pair(1);
    let sent = Rc::new(RefCell::new(0));
    let s = Rc::clone(&sent);
    w.spawn(hosts[0], 0, |rt| async move {
        for _ in 0..10 {
            send(&rt, near, &[5; 100_000]).await.unwrap();
            *s.borrow_mut() += 1;
        }
    });
    w.run_for(Duration::from_secs(1));
    assert_eq!(*sent.borrow(), WINDOW_BYTES / 100_000);
    let got = w.block_on(hosts[1], async |rt| {
        let mut n = 0;
        while n < 1_000_000 {
            n += recv(&rt, far, 65536).await.unwrap().len();
        }
        n
    });
    assert_eq!(got, 1_000_000);
    w.run_for(Duration::from_secs(1));
    assert_eq!(*sent.borrow(), 10);
}

#[test]
fn connects_fail_as_they_should() {
    let mut w = World::new(1);
    let a = w.add_host(1, |_| Box::new(TasksOnly));
    let b = w.add_host(1, |_| Box::new(TasksOnly));
    let to_b = SocketAddr::new(w.addr(b), 1);
    assert_eq!(w.block_on(a, async |rt| connect(&rt, to_b).await), Err(NetError::Refused));
    assert_eq!(w.block_on(a, async |rt| connect(&rt, "10.0.9.9:1".parse().unwrap()).await), Err(NetError::Unreachable));
    w.cut(b, a);
    assert_eq!(w.block_on(a, async |rt| connect(&rt, to_b).await), Err(NetError::TimedOut));
    w.heal(b, a);
    w.kill(b);
    assert_eq!(w.block_on(a, async |rt| connect(&rt, to_b).await), Err(NetError::TimedOut));
    let rt = w.rt(a, 0);
    let q = rt.queue();
    let l = rt.listen(&q, 0, "127.0.0.1:80".parse().unwrap()).unwrap();
    assert_eq!(rt.listen(&q, 0, "0.0.0.0:80".parse().unwrap()), Err(NetError::AddrInUse));
    assert_eq!(rt.listen(&q, 0, to_b), Err(NetError::AddrNotAvailable));
    rt.close_listener(l);
    let any = rt.listen(&q, 0, "0.0.0.0:0".parse().unwrap()).unwrap();
    let addr = rt.local_addr(any);
    assert_ne!(addr.port(), 0);
    assert!(w.block_on(a, async |rt| connect(&rt, addr).await).is_ok(), "within a host");
}

#[test]
fn a_receive_into_a_part_of_a_buffer_leaves_the_rest_alone() {
    let (mut w, hosts, [near, far]) = pair(8);
    w.block_on(hosts[0], async |rt| send(&rt, near, &pattern(50, 1)).await.unwrap());
    w.run_for(Duration::from_secs(1));
    w.block_on(hosts[1], async |rt| {
        let q = rt.queue();
        let mut at = 1000;
        let mut buf = Buf::zeroed(4096);
        while at < 1050 {
            rt.recv_at(&q, 0, far, at..1100, buf);
            let Event::Received { result: Ok(n), buf: got, .. } = event(&rt, &q).await else { panic!("nothing came") };
            (buf, at) = (got, at + n);
        }
        assert_eq!(buf[1000..1050], pattern(50, 1));
        assert!(buf[..1000].iter().chain(&buf[1050..]).all(|b| *b == 0));
    });
}

#[test]
fn closing_ends_what_waits_here_and_the_stream_there() {
    let (mut w, hosts, [near, far]) = pair(2);
    w.spawn(hosts[0], 0, move |rt| async move {
        send(&rt, near, b"last words").await.unwrap();
        let q = rt.queue();
        rt.recv(&q, 0, near, Buf::alloc(4096));
        rt.close(near);
        assert!(q.is_empty());
        assert!(matches!(event(&rt, &q).await, Event::Received { result: Err(NetError::Closed), .. }));
        assert_eq!(send(&rt, near, b"x").await, Err(NetError::Closed));
    });
    assert_eq!(w.block_on(hosts[1], async |rt| recv_all(&rt, far).await), Ok(b"last words".to_vec()));
    w.run_for(Duration::from_secs(1));
    assert_eq!(w.rt(hosts[0], 0).tasks(), 0);
    w.rt(hosts[1], 0).close(far);
    w.run_for(Duration::from_secs(1));
    assert_eq!(w.open_connection_ends(), 0);
}

#[test]
fn who_sends_to_an_end_that_is_gone_is_reset_after_what_that_end_said() {
    for cut in [false, true] {
        let (mut w, hosts, [near, far]) = pair(2);
        let sent = Rc::new(RefCell::new(None));
        let s = Rc::clone(&sent);
        // More than the window: it ends with the reset only.
        w.spawn(hosts[0], 0, move |rt| async move { *s.borrow_mut() = Some(send(&rt, near, &pattern(WINDOW_BYTES * 3, 1)).await) });
        w.block_on(hosts[1], async |rt| send(&rt, far, b"go away").await.unwrap());
        if cut {
            w.cut(hosts[1], hosts[0]);
        }
        w.rt(hosts[1], 0).close(far);
        w.run_for(Duration::from_millis(500));
        assert_eq!(*sent.borrow(), (!cut).then_some(Err(NetError::Reset)));
        w.heal(hosts[1], hosts[0]);
        w.run_for(Duration::from_millis(500));
        assert_eq!(*sent.borrow(), Some(Err(NetError::Reset)));
        let got = w.block_on(hosts[0], async |rt| (recv(&rt, near, 100).await, recv(&rt, near, 100).await));
        assert!(got.0.is_ok_and(|b| b"go away".starts_with(&b)), "what came before the reset can be read");
        w.rt(hosts[0], 0).close(near);
        assert_eq!(w.open_connection_ends(), 0);
    }
}

#[test]
fn a_cut_one_way_holds_that_way_only_and_loses_nothing() {
    let (mut w, hosts, [near, far]) = pair(3);
    w.cut(hosts[0], hosts[1]);
    let got = Rc::new(RefCell::new(None));
    let g = Rc::clone(&got);
    w.spawn(hosts[1], 0, move |rt| async move { *g.borrow_mut() = Some(recv(&rt, far, 100).await) });
    w.block_on(hosts[0], async |rt| send(&rt, near, b"held").await.unwrap());
    w.block_on(hosts[1], async |rt| send(&rt, far, b"other way").await.unwrap());
    let other = w.block_on(hosts[0], async |rt| recv(&rt, near, 4).await);
    assert_eq!(other.map(|b| b"other way".starts_with(&b)), Ok(true));
    w.run_for(Duration::from_millis(500));
    assert_eq!(*got.borrow(), None);
    w.heal(hosts[0], hosts[1]);
    w.run_for(Duration::from_secs(1));
    assert!(got.borrow().as_ref().unwrap().as_ref().is_ok_and(|b| b"held".starts_with(b)));
}

#[test]
fn a_reset_fails_both_ends() {
    let (mut w, hosts, [near, far]) = pair(4);
    w.reset_connections(hosts[0], hosts[1]);
    assert_eq!(w.block_on(hosts[0], async |rt| recv(&rt, near, 10).await), Err(NetError::Reset));
    assert_eq!(w.block_on(hosts[1], async |rt| recv(&rt, far, 10).await), Err(NetError::Reset));
    assert_eq!(w.block_on(hosts[1], async |rt| send(&rt, far, b"x").await), Err(NetError::Reset));
}

#[test]
fn peers_of_a_dead_host_hear_nothing_until_it_is_back_and_of_a_dead_process_at_once() {
    for power in [true, false] {
        let (mut w, hosts, [near, _]) = pair(5);
        let heard = Rc::new(RefCell::new(None));
        let h = Rc::clone(&heard);
        w.spawn(hosts[0], 0, move |rt| async move { *h.borrow_mut() = Some(recv(&rt, near, 10).await) });
        if power {
            w.kill(hosts[1])
        } else {
            w.kill_process(hosts[1])
        }
        w.run_for(Duration::from_millis(500));
        assert_eq!(*heard.borrow(), (!power).then_some(Err(NetError::Reset)));
        w.start(hosts[1]);
        w.run_for(Duration::from_secs(1));
        assert_eq!(*heard.borrow(), Some(Err(NetError::Reset)));
    }
}

#[test]
fn an_accepted_connection_moves_to_another_core() {
    let mut w = World::new(6);
    let host = w.add_host(2, |_| Box::new(TasksOnly));
    let (first, second) = (w.rt(host, 0), w.rt(host, 1));
    let q = first.queue();
    let l = first.listen(&q, 7, "127.0.0.1:0".parse().unwrap()).unwrap();
    let addr = first.local_addr(l);
    let (near, far) = w.block_on(host, async |rt| (connect(&rt, addr).await.unwrap(), accept(&rt, &q).await));
    w.block_on(host, async |rt| send(&rt, near, b"for the other core").await.unwrap());
    let owned = first.detach(far);
    let far = second.attach(owned);
    let got = Rc::new(RefCell::new(Vec::new()));
    let g = Rc::clone(&got);
    w.spawn(host, 1, move |rt| async move {
        let bytes = recv_all(&rt, far).await.unwrap();
        *g.borrow_mut() = bytes;
    });
    first.close(near);
    w.run_for(Duration::from_secs(1));
    assert_eq!(*got.borrow(), b"for the other core");
}

#[test]
fn a_connection_dropped_between_cores_is_closed() {
    let (mut w, hosts, [near, far]) = pair(8);
    drop(w.rt(hosts[1], 0).detach(far));
    assert_eq!(w.block_on(hosts[0], async |rt| recv(&rt, near, 10).await), Ok(vec![]));
}

#[test]
#[should_panic(expected = "room that nobody else reads")]
fn a_receive_into_shared_bytes_is_refused() {
    block_on(1, async |rt| {
        let q = rt.queue();
        let l = rt.listen(&q, 0, "127.0.0.1:7".parse().unwrap()).unwrap();
        let conn = connect(&rt, rt.local_addr(l)).await.unwrap();
        let mut buf = Buf::alloc(4096);
        let _other = buf.share();
        rt.recv(&q, 0, conn, buf);
    });
}

#[test]
fn a_way_that_is_slow_takes_longer() {
    let mut world = World::new(9);
    let (a, b) = (world.add_host(1, |_| Box::new(TasksOnly)), world.add_host(1, |_| Box::new(TasksOnly)));
    world.slow_way(a, b, Some((5_000_000, 9_000_000)));
    let way = |world: &World, from: HostId, to: HostId| world.shared.state.borrow_mut().latency(from.0, to.0);
    for _ in 0..50 {
        assert!((5_000_000..9_100_000).contains(&way(&world, a, b)) && way(&world, b, a) < 100_000);
    }
    world.slow_way(a, b, None);
    assert!(way(&world, a, b) < 100_000);
}
