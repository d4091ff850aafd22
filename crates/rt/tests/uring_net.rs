//! Sockets, wake-ups, timers and the life of cores of the Linux driver, over loopback.
// Outside of the cores: real clocks and threads are what this is about.
#![allow(clippy::disallowed_methods)]

mod uring_common;

use rt::{Buf, Event, LaunchError, NetError, OwnedConn, Progress, Queue, Rt, SendList, UringOptions, launch, mesh};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use uring_common::{FnApp, PATIENCE, launch_fn, next, on_core};

fn any() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn list_of(header: &[u8], data: Option<Buf>) -> SendList {
    let mut list = SendList::new();
    list.push_header(header);
    if let Some(buf) = data {
        let range = 0..buf.len();
        list.push_data(buf, range);
    }
    list
}

/// A connection accepted by the core from a client of the standard library.
async fn pair(rt: &Rt, q: &Queue) -> (rt::ConnId, TcpStream) {
    let l = rt.listen(q, 77, any()).unwrap();
    let client = TcpStream::connect(rt.local_addr(l)).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let c = next(rt, q).await;
    assert_eq!(c.cookie, 77);
    let Event::Accepted { conn, peer } = c.event else { panic!("{c:?}") };
    assert_eq!(peer, client.local_addr().unwrap());
    rt.close_listener(l);
    (conn, client)
}

/// Echoes what comes in on all connections of a core.
struct Echo {
    q: Queue,
    closed: bool,
}

impl Echo {
    fn start(&self, rt: &Rt, conn: rt::ConnId) {
        rt.recv(&self.q, 0, conn, Buf::alloc(65_536));
    }
    fn poll(&mut self, rt: &Rt) -> bool {
        let mut busy = false;
        while let Some(c) = self.q.pop() {
            busy = true;
            match c.event {
                Event::Received { conn, result: Ok(n), buf } if n > 0 => {
                    let mut list = SendList::new();
                    list.push_data(buf, 0..n);
                    rt.send(&self.q, 0, conn, list);
                    rt.recv(&self.q, 0, conn, Buf::alloc(65_536));
                }
                Event::Received { conn, .. } => {
                    self.closed = true;
                    rt.close(conn);
                }
                Event::Sent { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        busy
    }
}

#[test]
fn connections_accepted_on_one_core_are_served_by_another() {
    let ends = Mutex::new(mesh::<OwnedConn>(2, 64).into_iter().map(Some).collect::<Vec<_>>());
    let (addr_tx, addr_rx) = mpsc::channel();
    let addr_tx = Mutex::new(addr_tx);
    let stop = Arc::new(AtomicU64::new(0));
    let stopped = Arc::clone(&stop);
    let served = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let counts = Arc::clone(&served);
    let cores = launch_fn(2, move |rt| {
        let end = ends.lock().unwrap()[rt.core()].take().unwrap();
        let accepts = rt.queue();
        if rt.core() == 0 {
            let l = rt.listen(&accepts, 0, any()).unwrap();
            addr_tx.lock().unwrap().send((rt.local_addr(l), rt.waker())).unwrap();
        }
        let (stop, counts, mut echo, mut dealt) =
            (Arc::clone(&stopped), Arc::clone(&counts), Echo { q: rt.queue(), closed: false }, 0usize);
        move |rt: &Rt| {
            let mut busy = echo.poll(rt);
            while let Some(c) = accepts.pop() {
                busy = true;
                let Event::Accepted { conn, .. } = c.event else { panic!("{c:?}") };
                dealt += 1;
                if dealt % 2 == 0 {
                    counts[0].fetch_add(1, Ordering::Relaxed);
                    echo.start(rt, conn);
                } else {
                    end.send(rt, 1, rt.detach(conn)).unwrap_or_else(|_| panic!("room"));
                }
            }
            end.flush_wakes(rt);
            while let Some(owned) = end.recv() {
                busy = true;
                counts[1].fetch_add(1, Ordering::Relaxed);
                let conn = rt.attach(owned);
                echo.start(rt, conn);
            }
            if stop.load(Ordering::Relaxed) != 0 {
                rt.wake(1);
                return Progress::Stop;
            }
            if busy { Progress::Busy } else { Progress::Idle }
        }
    });
    let (addr, waker) = addr_rx.recv().unwrap();
    let clients: Vec<_> = (0..8u8)
        .map(|i| {
            std::thread::spawn(move || {
                let mut s = TcpStream::connect(addr).unwrap();
                s.set_read_timeout(Some(PATIENCE)).unwrap();
                for round in 0..200u32 {
                    // Now and then long enough that the core falls asleep in between.
                    if round % 50 == 0 {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    let sent: Vec<u8> = (0..1 + round * 97 % 9000).map(|b| b as u8 ^ i).collect();
                    s.write_all(&sent).unwrap();
                    let mut got = vec![0; sent.len()];
                    s.read_exact(&mut got).unwrap();
                    assert_eq!(got, sent);
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|c| c.join().unwrap());
    stop.store(1, Ordering::Relaxed);
    waker.wake();
    let stats = cores.stats();
    cores.join().unwrap();
    assert_eq!((served[0].load(Ordering::Relaxed), served[1].load(Ordering::Relaxed)), (4, 4));
    assert!(stats.iter().all(|s| s.recv_bytes.get() > 0 && s.recv_bytes.get() == s.send_bytes.get()));
}

/// Both ends on reactors that spin and sleep in turns: a lost wake-up stops the ping-pong for good.
#[test]
fn ping_pong_between_two_reactors_never_stops() {
    const ROUNDS: u64 = 20_000;
    let (tx, rx) = mpsc::channel();
    let tx = Mutex::new(tx);
    let server = launch_fn(1, move |rt| {
        let (q, mut echo) = (rt.queue(), Echo { q: rt.queue(), closed: false });
        let l = rt.listen(&q, 0, any()).unwrap();
        tx.lock().unwrap().send(rt.local_addr(l)).unwrap();
        let mut accepted = false;
        move |rt: &Rt| {
            while let Some(Event::Accepted { conn, .. }) = q.pop().map(|c| c.event) {
                accepted = true;
                echo.start(rt, conn);
            }
            let busy = echo.poll(rt);
            match (busy, accepted && echo.closed) {
                (_, true) => Progress::Stop,
                (true, _) => Progress::Busy,
                _ => Progress::Idle,
            }
        }
    });
    let addr = rx.recv_timeout(PATIENCE).unwrap();
    let (tx, rx) = mpsc::channel();
    let tx = Mutex::new(tx);
    let client = launch_fn(1, move |rt| {
        let (q, tx, mut rounds) = (rt.queue(), tx.lock().unwrap().clone(), 0);
        rt.connect(&q, 0, addr);
        move |rt: &Rt| {
            let mut busy = false;
            while let Some(c) = q.pop() {
                busy = true;
                let conn = match c.event {
                    Event::Connected { result } => result.unwrap(),
                    Event::Received { result: Ok(n), conn, .. } if n > 0 => conn,
                    Event::Sent { result: Ok(()), .. } => continue,
                    other => panic!("{other:?}"),
                };
                rounds += 1;
                if rounds == ROUNDS {
                    rt.close(conn);
                    tx.send(()).unwrap();
                    return Progress::Stop;
                }
                rt.send(&q, 1, conn, list_of(b"ping", None));
                rt.recv(&q, 2, conn, Buf::alloc(4096));
            }
            if busy { Progress::Busy } else { Progress::Idle }
        }
    });
    rx.recv_timeout(Duration::from_secs(60)).expect("no wake-up is lost");
    client.join().unwrap();
    server.join().unwrap();
}

#[test]
fn large_vectored_sends_arrive_whole_and_in_order_at_a_slow_reader() {
    const LISTS: u64 = 48;
    on_core(|rt| async move {
        let q = rt.queue();
        let (conn, mut client) = pair(&rt, &q).await;
        let mut expected = Vec::new();
        for i in 0..LISTS {
            let mut list = SendList::new();
            for part in 0..3u8 {
                let header = [i as u8, part, 0xaa];
                let mut data = Buf::alloc((1 << 20) >> part);
                data.iter_mut().enumerate().for_each(|(at, b)| *b = (at as u8).wrapping_mul(7) ^ i as u8 ^ part);
                list.push_header(&header);
                expected.extend_from_slice(&header);
                let range = part as usize..data.len() - 5;
                expected.extend_from_slice(&data[range.clone()]);
                list.push_data(data, range);
            }
            rt.send(&q, i, conn, list);
        }
        rt.send(&q, LISTS, conn, SendList::new()); // an empty one ends in its turn
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            let mut chunk = vec![0; 300_000];
            while got.len() < expected.len() {
                let n = client.read(&mut chunk).unwrap();
                assert!(n > 0, "cut at {} of {}", got.len(), expected.len());
                got.extend_from_slice(&chunk[..n]);
                std::thread::sleep(Duration::from_micros(200));
            }
            assert!(got == expected);
        });
        for i in 0..=LISTS {
            let c = next(&rt, &q).await;
            assert_eq!(c.cookie, i);
            assert!(matches!(c.event, Event::Sent { result: Ok(()), .. }), "{c:?}");
        }
        rt.close(conn);
        reader.join().unwrap();
    });
}

#[test]
fn a_receive_into_a_part_of_a_buffer_leaves_the_rest_alone() {
    on_core(|rt| async move {
        let q = rt.queue();
        let (conn, mut client) = pair(&rt, &q).await;
        client.write_all(&[7; 300]).unwrap();
        let (mut at, mut buf) = (1000, Buf::zeroed(4096));
        while at < 1200 {
            rt.recv_at(&q, 1, conn, at..1200, buf); // a part of what is there
            let c = next(&rt, &q).await;
            let Event::Received { result: Ok(n), buf: got, .. } = c.event else { panic!("{c:?}") };
            (buf, at) = (got, at + n);
        }
        assert_eq!((at, &buf[1000..1200]), (1200, &[7; 200][..]));
        assert!(buf[..1000].iter().chain(&buf[1200..]).all(|b| *b == 0));
    });
}

#[test]
fn close_ends_what_is_under_way_and_gives_the_memory_back() {
    on_core(|rt| async move {
        let q = rt.queue();
        let (conn, mut client) = pair(&rt, &q).await;
        rt.recv(&q, 1, conn, Buf::alloc(8192));
        for i in 0..20 {
            rt.send(&q, 10 + i, conn, list_of(b"x", Some(Buf::zeroed(1 << 20)))); // more than the sockets hold
        }
        rt.sleep(Duration::from_millis(20)).await;
        rt.close(conn);
        let mut closed = BTreeMap::new();
        let mut sent = 0;
        while closed.len() + sent < 21 {
            let c = next(&rt, &q).await;
            match c.event {
                Event::Received { result: Err(NetError::Closed), buf, .. } => assert!(closed.insert(c.cookie, buf.len()).is_none()),
                Event::Sent { result: Err(NetError::Closed), list, .. } => assert!(closed.insert(c.cookie, list.len_bytes()).is_none()),
                Event::Sent { result: Ok(()), .. } => sent += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(closed[&1], 8192);
        assert!(sent < 20 && closed[&29] == (1 << 20) + 1);
        // Operations on a connection that is gone end the same way.
        rt.recv(&q, 50, conn, Buf::alloc(4096));
        rt.send(&q, 51, conn, list_of(b"late", None));
        rt.close(conn);
        assert!(matches!(next(&rt, &q).await.event, Event::Received { result: Err(NetError::Closed), .. }));
        assert!(matches!(next(&rt, &q).await.event, Event::Sent { result: Err(NetError::Closed), .. }));
        std::io::copy(&mut client, &mut std::io::sink()).ok();
    });
}

#[test]
fn what_was_sent_before_a_close_arrives_though_the_peer_has_more_to_say() {
    on_core(|rt| async move {
        let q = rt.queue();
        let (conn, mut client) = pair(&rt, &q).await;
        client.write_all(&[9; 100_000]).unwrap(); // never read by the core
        rt.send(&q, 1, conn, list_of(b"go away", None));
        assert!(matches!(next(&rt, &q).await.event, Event::Sent { result: Ok(()), .. }));
        rt.close(conn);
        let mut got = Vec::new();
        client.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"go away");
    });
}

#[test]
fn a_peer_that_ends_gives_zero_bytes_after_its_last_data() {
    on_core(|rt| async move {
        let q = rt.queue();
        let (conn, mut client) = pair(&rt, &q).await;
        client.write_all(b"last").unwrap();
        drop(client);
        rt.sleep(Duration::from_millis(5)).await;
        let mut got = Vec::new();
        loop {
            rt.recv(&q, 1, conn, Buf::alloc(4096));
            let c = next(&rt, &q).await;
            let Event::Received { result: Ok(n), buf, .. } = c.event else { panic!("{c:?}") };
            got.extend_from_slice(&buf[..n]);
            if n == 0 {
                break;
            }
        }
        assert_eq!(got, b"last");
    });
}

#[test]
fn connects_to_a_listener_and_is_refused_where_there_is_none() {
    for bind in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(listener) = TcpListener::bind(bind) else {
            eprintln!("skipped: no {bind} here");
            continue;
        };
        let addr = listener.local_addr().unwrap();
        on_core(move |rt| async move {
            let q = rt.queue();
            rt.connect(&q, 5, addr);
            let c = next(&rt, &q).await;
            let Event::Connected { result: Ok(conn) } = c.event else { panic!("{c:?}") };
            let (mut peer, _) = listener.accept().unwrap();
            rt.recv(&q, 6, conn, Buf::alloc(4096));
            peer.write_all(b"hello").unwrap();
            let c = next(&rt, &q).await;
            let Event::Received { result: Ok(5), buf, .. } = c.event else { panic!("{c:?}") };
            assert_eq!(&buf[..5], b"hello");
            rt.close(conn);
            drop(listener);
            rt.connect(&q, 7, addr);
            assert!(matches!(next(&rt, &q).await.event, Event::Connected { result: Err(NetError::Refused) }));
        });
    }
}

#[test]
fn an_address_in_use_is_refused_and_free_again_after_the_close() {
    on_core(|rt| async move {
        let q = rt.queue();
        let l = rt.listen(&q, 0, any()).unwrap();
        let addr = rt.local_addr(l);
        assert_eq!(rt.listen(&q, 0, addr), Err(NetError::AddrInUse));
        rt.close_listener(l);
        rt.listen(&q, 0, addr).unwrap();
        assert_eq!(rt.listen(&q, 0, "192.0.2.1:0".parse().unwrap()), Err(NetError::AddrNotAvailable));
    });
}

#[test]
fn a_message_wakes_a_core_that_sleeps() {
    let (inlet, inbox) = rt::inbox::<mpsc::Sender<()>>();
    let inbox = Mutex::new(Some(inbox));
    let cores = launch_fn(1, move |rt| {
        let inbox = inbox.lock().unwrap().take().unwrap();
        inbox.bind(&rt);
        let mut seen = 0;
        move |_: &Rt| {
            while let Some(reply) = inbox.try_recv() {
                reply.send(()).unwrap();
                seen += 1;
            }
            if seen == 50 { Progress::Stop } else { Progress::Idle }
        }
    });
    let stats = cores.stats();
    for i in 0..50 {
        std::thread::sleep(Duration::from_millis(if i % 5 == 0 { 5 } else { 0 }));
        let (tx, rx) = mpsc::channel();
        inlet.send(tx).ok().unwrap();
        rx.recv_timeout(PATIENCE).expect("the core wakes");
    }
    cores.join().unwrap();
    assert!(stats[0].sleep_ns.get() > 20_000_000, "it slept in between");
}

#[test]
fn timers_fire_in_a_sleeping_core_and_not_too_early() {
    let asleep = on_core(|rt| async move {
        for ms in [1, 30, 7] {
            let (due, start) = (rt.now() + Duration::from_millis(ms), Instant::now());
            rt.sleep(Duration::from_millis(ms)).await;
            assert!(rt.now() >= due);
            assert!(start.elapsed() < Duration::from_secs(10));
        }
        rt.stats().sleep_ns.get()
    });
    assert!(asleep > 20_000_000);
}

#[test]
fn a_panic_on_a_core_is_reported_by_join_though_others_run_on() {
    let stop = Arc::new(AtomicU64::new(0));
    let flag = Arc::clone(&stop);
    let cores = launch_fn(2, move |rt| {
        let (core, flag) = (rt.core(), Arc::clone(&flag));
        move |rt: &Rt| {
            assert!(core == 0, "core one gives up");
            // A timer, so that it looks at the flag.
            rt.timer(&rt.queue(), 0, rt.now() + Duration::from_millis(1));
            if flag.load(Ordering::Relaxed) == 1 { Progress::Stop } else { Progress::Idle }
        }
    });
    let e = cores.join().unwrap_err();
    stop.store(1, Ordering::Relaxed);
    assert!(matches!(&e, LaunchError::Panicked { core: 1, message } if message.contains("core one gives up")), "{e}");
}

#[test]
fn cores_that_cannot_start_say_why() {
    let with = |opts: UringOptions| launch(opts, |_| Box::new(FnApp(|_: &Rt| Progress::Stop))).unwrap_err();
    let plain = UringOptions::default();
    assert!(matches!(with(UringOptions { cores: 0, ..plain.clone() }), LaunchError::Cores { cores: 0 }));
    assert!(matches!(with(UringOptions { cores: 2, pin: Some(vec![0]), ..plain.clone() }), LaunchError::TooFewProcessors { .. }));
    assert!(matches!(with(UringOptions { pin: Some(vec![100_000]), ..plain }), LaunchError::Pin { processor: 100_000, .. }));
}

#[test]
fn stop_ends_every_core() {
    launch_fn(3, |_| |_: &Rt| Progress::Stop).join().unwrap();
}

#[test]
fn the_same_bytes_are_sent_to_two_peers_at_once() {
    on_core(async |rt| {
        let q = rt.queue();
        let (a, mut client_a) = pair(&rt, &q).await;
        let (b, mut client_b) = pair(&rt, &q).await;
        let mut data = Buf::copy_of(&[7; 5000]);
        for conn in [a, b] {
            rt.send(&q, 0, conn, list_of(b"head", Some(data.share())));
        }
        for client in [&mut client_a, &mut client_b] {
            let Event::Sent { result: Ok(()), list, .. } = next(&rt, &q).await.event else { panic!("not sent") };
            drop(list);
            let mut got = vec![0; 5004];
            client.read_exact(&mut got).unwrap();
            assert_eq!(got, [b"head".as_slice(), &[7; 5000]].concat());
        }
        assert!(data.reclaim().is_ok(), "both sends gave back what they had");
    });
}
