//! Unix sockets, passed descriptors and events of the Linux driver, with real sockets, files and eventfds.
// Outside of the cores: real clocks and threads are what this is about.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod uring_common;

use rt::{Buf, DESCRIPTORS_MAX, Descriptor, Event, ForeignMemory, NetError, Progress, Queue, Rt, SendList, UnixConnId};
use std::fs::{self, File};
use std::io::{IoSlice, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use uring_common::{PATIENCE, launch_fn, next, on_core};

fn list(bytes: &[u8]) -> SendList {
    let mut list = SendList::new();
    list.push_header(bytes);
    list
}

/// A connection that the core accepted from a client of the standard library.
async fn pair(rt: &Rt, q: &Queue, path: &Path) -> (UnixConnId, UnixStream) {
    let l = rt.listen_unix(q, 5, path, 0o600).unwrap();
    let client = UnixStream::connect(path).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let c = next(rt, q).await;
    let Event::UnixAccepted { conn } = c.event else { panic!("{c:?}") };
    assert_eq!(c.cookie, 5);
    rt.close_unix_listener(l);
    (conn, client)
}

async fn receive(rt: &Rt, conn: UnixConnId, room: usize) -> Result<(Vec<u8>, Vec<Descriptor>), NetError> {
    let q = rt.queue();
    rt.recv_unix(&q, 0, conn, 0..room, Buf::alloc(room));
    match next(rt, &q).await.event {
        Event::UnixReceived { result, buf, descriptors, .. } => result.map(|n| (buf[..n].to_vec(), descriptors)),
        other => panic!("{other:?}"),
    }
}

/// Sends as a program that plays by no rules would: any number of descriptors, also without bytes.
fn send_raw(to: &UnixStream, bytes: &[u8], descriptors: &[RawFd]) -> isize {
    let pieces = [IoSlice::new(bytes)];
    let len = size_of_val(descriptors) as u32;
    // SAFETY: plain computations of lengths.
    let (space, header_len) = unsafe { (libc::CMSG_SPACE(len) as usize, libc::CMSG_LEN(len)) };
    let mut control = vec![0u64; space.div_ceil(8)];
    // SAFETY: all-zero bytes are a valid `msghdr`; the control data has room for its header and the descriptors and is aligned for it; the kernel
    // reads what the pointers lead to during the call.
    unsafe {
        let mut msg: libc::msghdr = std::mem::zeroed();
        msg.msg_iov = pieces.as_ptr().cast_mut().cast();
        msg.msg_iovlen = 1;
        msg.msg_control = control.as_mut_ptr().cast();
        msg.msg_controllen = space as _;
        let header = libc::CMSG_FIRSTHDR(&raw const msg);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = header_len as _;
        let data = libc::CMSG_DATA(header).cast::<libc::c_int>();
        for (i, fd) in descriptors.iter().enumerate() {
            data.add(i).write_unaligned(*fd);
        }
        libc::sendmsg(to.as_raw_fd(), &raw const msg, libc::MSG_NOSIGNAL)
    }
}

fn eventfd(flags: libc::c_int) -> File {
    // SAFETY: plain system call; the descriptor is new and nobody else owns it.
    unsafe { File::from_raw_fd(libc::eventfd(0, libc::EFD_CLOEXEC | flags)) }
}

/// How many descriptors of this process lead to the file at `path`.
fn open_here(path: &Path) -> usize {
    let all = fs::read_dir("/proc/self/fd").unwrap().filter_map(|e| fs::read_link(e.ok()?.path()).ok());
    all.filter(|to| to == path).count()
}

#[test]
fn bytes_and_descriptors_go_both_ways() {
    let dir = tempfile::tempdir().unwrap();
    on_core(async move |rt| {
        let q = rt.queue();
        let path = dir.path().join("s");
        rt.listen_unix(&q, 1, &path, 0o600).unwrap();
        rt.connect_unix(&q, 2, &path);
        let (mut near, mut far) = (None, None);
        while near.is_none() || far.is_none() {
            match next(&rt, &q).await.event {
                Event::UnixConnected { result } => near = Some(result.unwrap()),
                Event::UnixAccepted { conn } => far = Some(conn),
                other => panic!("{other:?}"),
            }
        }
        let (near, far) = (near.unwrap(), far.unwrap());
        let passed = |n: usize| (0..n).map(|_| rt.new_event().unwrap()).collect::<Vec<_>>();
        rt.send_unix(&q, 1, near, list(b"one"), passed(0));
        rt.send_unix(&q, 2, near, list(b"two"), passed(8));
        rt.send_unix(&q, 3, near, list(b"three"), passed(DESCRIPTORS_MAX));
        for cookie in 1..=3 {
            let c = next(&rt, &q).await;
            assert!(c.cookie == cookie && matches!(c.event, Event::UnixSent { result: Ok(()), .. }), "{c:?}");
        }
        let (mut all, mut at) = (Vec::new(), Vec::new());
        while all.len() < 11 {
            let (bytes, descriptors) = receive(&rt, far, 4).await.unwrap();
            if !descriptors.is_empty() {
                at.push((all.len(), descriptors.len()));
            }
            all.extend(bytes);
        }
        assert_eq!(all, b"onetwothree");
        // Linux may bring bytes that came before in one receive with the descriptors, never such that came behind.
        assert_eq!(at.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [8, DESCRIPTORS_MAX]);
        assert!(at[0].0 <= 3 && at[1].0 <= 6, "{at:?}");
        rt.send_unix(&q, 0, far, list(b"back"), passed(1));
        let (bytes, descriptors) = receive(&rt, near, 100).await.unwrap();
        assert_eq!((bytes.as_slice(), descriptors.len()), (b"back".as_slice(), 1));
    });
}

#[test]
fn descriptors_that_come_in_are_closed_on_exec_and_by_who_drops_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("passed");
    let file = File::create(&path).unwrap();
    on_core(async move |rt| {
        let q = rt.queue();
        let (conn, client) = pair(&rt, &q, &dir.path().join("s")).await;
        assert_eq!(send_raw(&client, b"x", &[file.as_raw_fd(); 3]), 1);
        let (_, descriptors) = receive(&rt, conn, 10).await.unwrap();
        assert_eq!((descriptors.len(), open_here(&path)), (3, 4));
        for entry in fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok) {
            if fs::read_link(entry.path()).is_ok_and(|to| to == path) {
                let fd: RawFd = entry.file_name().to_str().unwrap().parse().unwrap();
                // SAFETY: plain system call.
                let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
                assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
            }
        }
        drop(descriptors);
        assert_eq!(open_here(&path), 1);
        // What was passed and nobody received goes with the connection.
        assert_eq!(send_raw(&client, b"x", &[file.as_raw_fd(); 3]), 1);
        rt.close_unix(conn);
        drop(client);
        assert_eq!(open_here(&path), 1);
    });
}

#[test]
fn more_descriptors_than_the_limit_are_an_error_and_all_are_closed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("passed");
    let file = File::create(&path).unwrap();
    on_core(async move |rt| {
        let q = rt.queue();
        for n in [DESCRIPTORS_MAX + 1, 200] {
            let (conn, client) = pair(&rt, &q, &dir.path().join("s")).await;
            assert_eq!(send_raw(&client, b"x", &vec![file.as_raw_fd(); n]), 1);
            assert_eq!(receive(&rt, conn, 10).await.unwrap_err(), NetError::DescriptorsLost);
            assert_eq!(open_here(&path), 1, "none is left open");
            rt.close_unix(conn);
        }
        // Without a byte they never arrive: the kernel drops them.
        let (conn, mut client) = pair(&rt, &q, &dir.path().join("s")).await;
        assert_eq!(send_raw(&client, b"", &[file.as_raw_fd()]), 0);
        client.write_all(b"y").unwrap();
        let (bytes, descriptors) = receive(&rt, conn, 10).await.unwrap();
        assert_eq!((bytes.as_slice(), descriptors.len(), open_here(&path)), (b"y".as_slice(), 0, 1));
    });
}

#[test]
fn a_peer_that_is_gone_ends_the_stream_and_fails_the_sends() {
    let dir = tempfile::tempdir().unwrap();
    on_core(async move |rt| {
        let q = rt.queue();
        let path = dir.path().join("s");
        let (conn, mut client) = pair(&rt, &q, &path).await;
        // More than the socket takes: the rest goes when the peer reads.
        let mut big = SendList::new();
        big.push_data(Buf::copy_of(&vec![7; 1 << 20]), 0..1 << 20);
        rt.send_unix(&q, 1, conn, big, Vec::new());
        rt.send_unix(&q, 2, conn, list(b"end"), Vec::new());
        let reader = std::thread::spawn(move || {
            let mut got = vec![0; (1 << 20) + 3];
            client.read_exact(&mut got).unwrap();
            (client, got)
        });
        for cookie in [1, 2] {
            let c = next(&rt, &q).await;
            assert!(c.cookie == cookie && matches!(c.event, Event::UnixSent { result: Ok(()), .. }), "{c:?}");
        }
        let (client, got) = reader.join().unwrap();
        assert!(got[..1 << 20].iter().all(|b| *b == 7) && &got[1 << 20..] == b"end");
        rt.recv_unix(&q, 3, conn, 0..10, Buf::alloc(10));
        drop(client);
        assert!(matches!(next(&rt, &q).await.event, Event::UnixReceived { result: Ok(0), .. }));
        rt.send_unix(&q, 4, conn, list(b"x"), Vec::new());
        assert!(matches!(next(&rt, &q).await.event, Event::UnixSent { result: Err(NetError::Reset), .. }));
        // Closed here, with operations under way.
        let (conn, _client) = pair(&rt, &q, &path).await;
        rt.recv_unix(&q, 5, conn, 0..10, Buf::alloc(10));
        rt.close_unix(conn);
        assert!(matches!(next(&rt, &q).await.event, Event::UnixReceived { result: Err(NetError::Closed), .. }));
        assert_eq!(receive(&rt, conn, 10).await.unwrap_err(), NetError::Closed);
    });
}

#[test]
fn a_path_is_taken_only_when_nobody_serves_it() {
    let dir = tempfile::tempdir().unwrap();
    on_core(async move |rt| {
        let q = rt.queue();
        let path = dir.path().join("s");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for bits in [0o600, 0o660] {
            let l = rt.listen_unix(&q, 0, &path, bits).unwrap();
            assert_eq!(mode(&path), bits);
            assert_eq!(rt.listen_unix(&q, 0, &path, bits), Err(NetError::AddrInUse), "this process serves it");
            rt.close_unix_listener(l);
            assert!(!path.exists(), "the path goes with its listener");
        }
        let served = UnixListener::bind(&path).unwrap();
        assert_eq!(rt.listen_unix(&q, 0, &path, 0o600), Err(NetError::AddrInUse), "somebody else serves it");
        drop(served);
        assert!(path.exists(), "a stale socket");
        let l = rt.listen_unix(&q, 0, &path, 0o600).unwrap();
        // Taken away by others, and used by them: it is not this listener's any more.
        fs::remove_file(&path).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        rt.close_unix_listener(l);
        assert!(path.exists());
        let file = dir.path().join("file");
        fs::write(&file, "data").unwrap();
        assert_eq!(rt.listen_unix(&q, 0, &file, 0o600), Err(NetError::NotASocket));
        assert_eq!(fs::read(&file).unwrap(), b"data");
        assert_eq!(rt.listen_unix(&q, 0, &dir.path().join("x".repeat(108)), 0o600), Err(NetError::PathTooLong));
        rt.connect_unix(&q, 0, &dir.path().join("nobody"));
        assert!(matches!(next(&rt, &q).await.event, Event::UnixConnected { result: Err(NetError::Refused) }));
    });
}

#[test]
fn events_from_outside_are_waited_for_and_rung() {
    on_core(async |rt| {
        let q = rt.queue();
        // Blocking, as another program may have made it.
        let mut outside = eventfd(0);
        let event = rt.open_event(OwnedFd::from(outside.try_clone().unwrap()).into()).unwrap();
        outside.write_all(&3u64.to_ne_bytes()).unwrap();
        outside.write_all(&4u64.to_ne_bytes()).unwrap();
        rt.wait_event(&q, 1, event);
        assert!(matches!(next(&rt, &q).await.event, Event::Signalled { result: Ok(7), .. }), "what was signalled before counts");
        for i in 0..100 {
            rt.wait_event(&q, i, event);
            outside.write_all(&1u64.to_ne_bytes()).unwrap();
            let c = next(&rt, &q).await;
            assert!(c.cookie == i && matches!(c.event, Event::Signalled { result: Ok(1), .. }), "{c:?}");
        }
        rt.ring_event(event);
        rt.ring_event(event);
        let mut count = [0; 8];
        outside.read_exact(&mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), 2);
        // Somebody else has taken the count, and a full counter: neither holds this core up.
        rt.wait_event(&q, 1, event);
        outside.write_all(&(u64::MAX - 1).to_ne_bytes()).unwrap();
        rt.ring_event(event);
        assert!(matches!(next(&rt, &q).await.event, Event::Signalled { result: Ok(n), .. } if n == u64::MAX - 1));
        rt.wait_event(&q, 2, event);
        rt.close_event(event);
        assert!(matches!(next(&rt, &q).await.event, Event::Signalled { result: Err(NetError::Closed), .. }));
        outside.write_all(&1u64.to_ne_bytes()).unwrap();
        rt.ring_event(event);
    });
}

#[test]
fn what_is_no_event_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    on_core(async move |rt| {
        let named = File::create(dir.path().join("anon_inode:[eventfd]")).unwrap();
        assert_eq!(rt.open_event(OwnedFd::from(named).into()), Err(NetError::WrongDescriptor));
        let (a, _b) = UnixStream::pair().unwrap();
        assert_eq!(rt.open_event(OwnedFd::from(a).into()), Err(NetError::WrongDescriptor));
    });
}

#[test]
fn an_event_and_a_message_wake_a_core_that_sleeps() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let (tx, rx) = mpsc::channel();
    let outside = eventfd(libc::EFD_NONBLOCK);
    let inside: OwnedFd = outside.try_clone().unwrap().into();
    let (at, passed) = (path.clone(), std::sync::Mutex::new(Some(inside)));
    let cores = launch_fn(1, move |rt| {
        let q = rt.queue();
        rt.listen_unix(&q, 0, &at, 0o600).unwrap();
        let event = rt.open_event(passed.lock().unwrap().take().unwrap().into()).unwrap();
        rt.wait_event(&q, 0, event);
        let tx = tx.clone();
        move |rt: &Rt| {
            let mut progress = Progress::Idle;
            while let Some(c) = q.pop() {
                progress = Progress::Busy;
                match c.event {
                    Event::UnixAccepted { conn } => rt.recv_unix(&q, 0, conn, 0..8, Buf::alloc(8)),
                    Event::UnixReceived { buf, .. } if buf[0] == b'q' => return Progress::Stop,
                    Event::UnixReceived { conn, .. } => {
                        tx.send("message").unwrap();
                        rt.recv_unix(&q, 0, conn, 0..8, Buf::alloc(8));
                    }
                    Event::Signalled { event, .. } => {
                        tx.send("event").unwrap();
                        rt.wait_event(&q, 0, event);
                    }
                    other => panic!("{other:?}"),
                }
            }
            progress
        }
    });
    while !path.exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(20));
    let mut client = UnixStream::connect(&path).unwrap();
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(20)); // longer than a core polls
        let begun = Instant::now();
        (&outside).write_all(&1u64.to_ne_bytes()).unwrap();
        assert_eq!(rx.recv_timeout(PATIENCE), Ok("event"));
        std::thread::sleep(Duration::from_millis(20));
        client.write_all(b"m").unwrap();
        assert_eq!(rx.recv_timeout(PATIENCE), Ok("message"));
        assert!(begun.elapsed() < PATIENCE / 2);
    }
    client.write_all(b"q").unwrap();
    cores.join().unwrap();
    assert!(!path.exists(), "the path goes with the core");
}

/// What a vhost-user front end and its back end do, in short: memory and two events are passed, a request is written and kicked, the answer is
/// written and signalled.
async fn passes_memory_and_kicks(rt: Rt, path: std::path::PathBuf) {
    async fn event(rt: &Rt, q: &Queue) -> Event {
        next(rt, q).await.event
    }
    let (back, front) = (rt.queue(), rt.queue());
    rt.listen_unix(&back, 0, &path, 0o600).unwrap();
    rt.connect_unix(&front, 0, &path);
    let Event::UnixConnected { result: Ok(to_back) } = event(&rt, &front).await else { panic!("not connected") };
    let Event::UnixAccepted { conn: to_front } = event(&rt, &back).await else { panic!("not accepted") };
    let made = [rt.new_memory(8192).unwrap(), rt.new_event().unwrap(), rt.new_event().unwrap()];
    let guest = ForeignMemory::map(&made[0], 0, 8192).unwrap();
    let [kick, call] = [1, 2].map(|i: usize| rt.open_event(made[i].try_clone().unwrap()).unwrap());
    rt.send_unix(&front, 0, to_back, list(b"table"), made.into());
    assert!(matches!(event(&rt, &front).await, Event::UnixSent { result: Ok(()), .. }));

    let (mut bytes, mut passed) = receive(&rt, to_front, 5).await.unwrap();
    while bytes.len() < 5 {
        bytes.extend(receive(&rt, to_front, 5 - bytes.len()).await.unwrap().0);
    }
    assert_eq!((bytes.as_slice(), passed.len()), (b"table".as_slice(), 3));
    let (called, kicked) = (passed.pop().unwrap(), passed.pop().unwrap());
    let (called, kicked) = (rt.open_event(called).unwrap(), rt.open_event(kicked).unwrap());
    let shared = ForeignMemory::map(&passed[0], 0, 8192).unwrap();
    drop(passed);

    rt.wait_event(&back, 0, kicked);
    guest.write(4097, b"request").unwrap();
    guest.store_u16(0, 1).unwrap();
    rt.ring_event(kick);
    assert!(matches!(event(&rt, &back).await, Event::Signalled { result: Ok(1), .. }));
    assert_eq!((shared.load_u16(0), &shared.read_buf(4097, 7).unwrap()[..]), (Ok(1), b"request".as_slice()));
    rt.wait_event(&front, 0, call);
    shared.write(4097, b"answer!").unwrap();
    shared.store_u16(2, 1).unwrap();
    rt.ring_event(called);
    assert!(matches!(event(&rt, &front).await, Event::Signalled { result: Ok(1), .. }));
    assert_eq!((guest.load_u16(2), &guest.read_buf(4097, 7).unwrap()[..]), (Ok(1), b"answer!".as_slice()));
}

#[test]
fn memory_and_events_are_passed_and_used_by_both_sides_in_both_drivers() {
    let dir = tempfile::tempdir().unwrap();
    on_core(async move |rt| passes_memory_and_kicks(rt, dir.path().join("s")).await);
    for seed in 0..20 {
        rt::sim::block_on(seed, async |rt| passes_memory_and_kicks(rt, "/run/s".into()).await);
    }
}
