//! What becomes of each operation: its error, what it counts as, when it may begin and end; and volumes over several groups and cores.

use super::*;

#[path = "router_forward_tests.rs"]
mod forwards;

/// Every operation, of 8 KiB at `offset` of a volume that holds zeroes there, and the kind that it counts as.
fn one_of_each(offset: u64) -> [(IoOp, IoClass); 7] {
    let len = 8192u32;
    [
        (IoOp::Read { offset, len }, IoClass::Read),
        (IoOp::Verify { offset, len: len.into() }, IoClass::Read),
        (IoOp::Write { offset, data: data(offset, len, |_| 0) }, IoClass::Write),
        (compare_write(offset, len, 0, 1), IoClass::Write),
        (IoOp::Zero { offset, len: len.into() }, IoClass::Discard),
        (IoOp::Trim { offset, len: len.into() }, IoClass::Discard),
        (IoOp::Uncorrectable { offset, len: len.into() }, IoClass::Discard),
    ]
}

#[test]
fn each_operation_counts_once_as_its_kind_whether_it_succeeds_or_fails_as_the_store_says() {
    let errors = [
        None,
        Some((StoreError::NoSpace, IoError::NoSpace)),
        Some((StoreError::Media { block: BlockNo(1) }, IoError::Media { offset: 4096 })),
        Some((StoreError::Uncorrectable { block: BlockNo(2) }, IoError::Media { offset: 8192 })),
        Some((StoreError::DeviceFailed, IoError::Failed)),
        Some((StoreError::NoComponent, IoError::NoVolume)),
        Some((StoreError::Closing, IoError::Closing)),
    ];
    for error in errors {
        rt::sim::block_on(1, async move |rt: Rt| {
            let mut router = router(&rt, 1, Limits::default(), false);
            // A block, so that a trim has something to take away.
            for offset in [4096, 8192] {
                answer(&rt, &mut router, IoOp::Write { offset, data: data(offset, 4096, |_| 0) }).await.result.unwrap();
            }
            for no in 0..2 {
                router.lanes_mut().shard_mut(GroupSlot(0), no).unwrap().fails = error.map(|(from, _)| from);
            }
            let expected = error.map_or(Ok(()), |(_, to)| Err(to));
            for (op, kind) in one_of_each(4096) {
                let (before, what) = (router.stats(), format!("{op:?}"));
                assert_eq!(answer(&rt, &mut router, op).await.result, expected, "{what}");
                let after = router.stats();
                assert!(after.lanes.parts > before.lanes.parts, "{what}: a part that failed is a part");
                let of = |stats: &RouterStats| {
                    IoClass::ALL
                        .map(|class| (class, stats.class(class)))
                        .map(|(class, s)| (class, s.requests, s.errors, s.bytes, s.latency.count()))
                };
                for ((of, requests, errors, bytes, latencies), new) in of(&before).into_iter().zip(of(&after)) {
                    let (one, failed) = (u64::from(of == kind), u64::from(of == kind && expected.is_err()));
                    let want = (of, requests + one, errors + failed, bytes + 8192 * (one - failed), latencies + one);
                    assert_eq!(new, want, "{what} counts as {kind:?}");
                }
            }
            assert!(router.is_idle());
        });
    }
}

#[test]
fn a_long_request_ends_soon_after_its_first_error() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut router = router(&rt, 1, Limits::default(), false);
        let pieces = 20 * PARTS_MAX as u64;
        reshape(&rt, &mut router, pieces * PIECE_BYTES, 1);
        for no in 0..2 {
            router.lanes_mut().shard_mut(GroupSlot(0), no).unwrap().fails = Some(StoreError::DeviceFailed);
        }
        let len = pieces * PIECE_BYTES;
        for op in [IoOp::Verify { offset: 0, len }, IoOp::Uncorrectable { offset: 0, len }] {
            let before = router.stats().lanes.parts;
            assert_eq!(answer(&rt, &mut router, op).await.result, Err(IoError::Failed));
            let sent = router.stats().lanes.parts - before;
            assert!(sent <= PARTS_MAX as u64, "{sent} parts, most of them when it had failed already");
        }
    });
}

#[test]
fn the_first_error_of_a_request_is_its_error() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut router = router(&rt, 1, Limits::default(), false);
        for (order, first) in [([0, 1], 0), ([1, 0], 1)] {
            router.submit(&rt, IoRequest::new(1, VolumeRef(0), IoOp::Read { offset: PIECE_BYTES - 512, len: 1024 }));
            let id = router.requests.iter().next().expect("it is under way").0 as u32;
            for index in order {
                let result = Err(IoError::Media { offset: u64::from(index) });
                router.on_msg(&rt, RouterMsg::Done(PartDone { origin: 0, request: id, index, result, data: None }));
            }
            assert_eq!(router.pop().expect("answered").result, Err(IoError::Media { offset: first }));
            // What its parts say now is of no request any more.
            router.lanes_mut().shards_mut().for_each(|(_, _, shard)| shard.pending.clear());
        }
    });
}

#[test]
fn only_whole_blocks_are_declared_uncorrectable() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut router = router(&rt, 1, Limits::default(), false);
        for (offset, len) in [(512, 4096), (4096, 512), (0, 4096 + 512), (512, 4096 - 512)] {
            assert_eq!(
                answer(&rt, &mut router, IoOp::Uncorrectable { offset, len }).await.result,
                Err(IoError::Unaligned),
                "{offset}+{len}"
            );
        }
        assert!(router.lanes().shards().all(|(_, _, shard)| shard.lost.is_empty()));
    });
}

#[test]
fn the_store_is_asked_for_checksums_as_the_volume_s_policy_says_whatever_is_written() {
    for checksum in [false, true] {
        rt::sim::block_on(1, async move |rt: Rt| {
            let mut router = router(&rt, 1, Limits::default(), false);
            let volume = VolumeLayout { checksum, ..served(&router) };
            serve(&rt, &mut router, Some(volume));
            for (offset, len) in [(0, 8192), (512, 1024), (PIECE_BYTES - 4096, 8192), (PIECE_BYTES - 512, 1024)] {
                answer(&rt, &mut router, IoOp::Write { offset, data: data(offset, len, |_| 3) }).await.result.unwrap();
            }
            answer(&rt, &mut router, compare_write(512, 512, 3, 4)).await.result.unwrap();
            answer(&rt, &mut router, compare_write(4096, 4096, 3, 4)).await.result.unwrap();
            answer(&rt, &mut router, compare_write(8192, 4096, 0, 4)).await.result.unwrap();
            answer(&rt, &mut router, IoOp::Zero { offset: 512, len: 1024 }).await.result.unwrap();
            let asked: Vec<bool> = router.lanes().shards().flat_map(|(_, _, shard)| shard.checksums.clone()).collect();
            assert!(asked.len() >= 7 && asked.iter().all(|a| *a == checksum), "{checksum}: {asked:?}");
        });
    }
}

#[test]
fn a_limit_of_either_kind_alone_holds_requests_back_and_no_limit_none() {
    for (limits, held) in [
        (Limits::new(VolumeLimits { iops_max: Some(10), bytes_per_s_max: None }), true),
        (Limits::new(VolumeLimits { iops_max: None, bytes_per_s_max: Some(1 << 20) }), true),
        (Limits::default(), false),
    ] {
        rt::sim::block_on(1, async move |rt: Rt| {
            let mut router = router(&rt, 1, limits, false);
            for token in 0..100 {
                router.submit(&rt, IoRequest::new(token, VolumeRef(0), IoOp::Read { offset: 0, len: 65536 }));
            }
            assert_eq!(router.stats().throttled > 50, held);
            assert_eq!(router.stats().throttled as usize, router.held.len());
        });
    }
}

#[test]
fn a_turn_counts_what_it_is_for_and_that_is_not_counted_again() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut router = router(&rt, 1, Limits::new(VolumeLimits { iops_max: Some(10), bytes_per_s_max: None }), false);
        let begun = rt.now();
        let read = || IoOp::Read { offset: 0, len: 40960 };
        for token in 0..20 {
            // Two requests, of two units each: four of the ten in a second.
            let turn = answer(&rt, &mut router, IoOp::Turn { offset: 0, len: 40960, requests: 2 }).await;
            assert!(turn.result.is_ok() && turn.data.is_empty());
            for _ in 0..2 {
                router.submit(&rt, IoRequest { counted: true, ..IoRequest::new(token, VolumeRef(0), read()) });
                assert!(router.held.is_empty(), "its turn has come");
                while drive(&rt, &mut router).is_none() {
                    rt.sleep(base::Duration::from_micros(100)).await;
                }
            }
        }
        let took = rt.now().since(begun).as_secs_f64();
        assert!((7.3..7.8).contains(&took), "{took} s: the first begins at once, and the burst is 100 ms");
        let stats = router.stats();
        assert_eq!((stats.read.requests, stats.read.bytes), (40, 40 * 40960), "turns are no requests of hosts");
        let outside = IoOp::Turn { offset: VOLUME_BYTES, len: 4096, requests: 1 };
        assert_eq!(answer(&rt, &mut router, outside).await.result, Err(IoError::OutOfRange));
    });
}

#[test]
fn what_a_limit_holds_back_keeps_its_core_from_being_idle_and_a_timer_for_the_first_of_it() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut router = router(&rt, 1, Limits::new(VolumeLimits { iops_max: Some(100), bytes_per_s_max: None }), false);
        let begun = hold_back(&rt, &mut router, (0..30).map(|_| IoOp::Read { offset: 0, len: 4096 })).await;
        let mut left = 30 - begun;
        while left > 0 {
            assert!(!router.is_idle(), "{left} are held back");
            left -= usize::from(drive(&rt, &mut router).is_some());
            let (first, timer) = (router.held.keys().next().map(|(at, _)| *at), router.timer.map(|(_, at)| at));
            let late = base::Duration::from_micros(200);
            let wakes = |at: Instant| timer.is_some_and(|timer| timer <= at && timer + late >= rt.now());
            assert!(first.is_none_or(wakes), "nobody else wakes the core for what may begin at {first:?}: {timer:?}");
            if left == 10 {
                // What comes first may come later.
                let slower = VolumeLayout {
                    limits: Arc::new(Limits::new(VolumeLimits { iops_max: Some(50), bytes_per_s_max: None })),
                    ..served(&router)
                };
                serve(&rt, &mut router, Some(slower));
            }
            rt.sleep(base::Duration::from_micros(100)).await;
        }
        assert!(router.is_idle());
    });
}

#[test]
fn nothing_begins_when_a_shutdown_has_begun() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut router = router(&rt, 1, Limits::default(), false);
        router.begin_shutdown();
        for (op, _) in one_of_each(0) {
            let what = format!("{op:?}");
            assert_eq!(answer(&rt, &mut router, op).await.result, Err(IoError::Closing), "{what}");
        }
        assert!(router.is_idle());
    });
}

#[test]
fn what_reaches_behind_an_end_is_known_until_it_has_ended_by_its_volume() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut router = router(&rt, 1, Limits::default(), false);
        let two = [served(&router), served(&router)].map(|v| Some(Arc::new(v)));
        router.apply(&rt, Arc::new(LayoutView { volumes: two.to_vec(), ..LayoutView::default() }), |_| true);
        let reaches = |r: &VolumeRouter<LateBlocks>, end| [0, 1].map(|v| r.reaches_behind(VolumeRef(v), end));
        assert_eq!(reaches(&router, 0), [false, false]);
        router.submit(&rt, IoRequest::new(9, VolumeRef(1), IoOp::Read { offset: 0, len: 4096 }));
        assert_eq!(reaches(&router, VOLUME_BYTES - 4096), [false, true], "it began when the volume was larger");
        assert_eq!(reaches(&router, VOLUME_BYTES), [false, false]);
        let small = |v| Some(Arc::new(VolumeLayout { bytes: PIECE_BYTES, ..v }));
        let two = [small(served(&router)), small(served(&router))];
        router.apply(&rt, Arc::new(LayoutView { volumes: two.to_vec(), ..LayoutView::default() }), |_| true);
        assert_eq!(reaches(&router, PIECE_BYTES), [false, true], "a smaller one does not change what has begun");
        while drive(&rt, &mut router).is_none() {}
        assert_eq!(reaches(&router, 0), [false, false]);
    });
}

#[test]
fn space_behind_the_end_of_a_read_only_volume_is_freed() {
    rt::sim::block_on(1, async |rt: Rt| {
        let mut router = router(&rt, 1, Limits::default(), false);
        for offset in [0, PIECE_BYTES, 2 * PIECE_BYTES] {
            answer(&rt, &mut router, IoOp::Write { offset, data: data(offset, 4096, |_| 9) }).await.result.unwrap();
        }
        let small = VolumeLayout { bytes: PIECE_BYTES, read_only: true, ..served(&router) };
        serve(&rt, &mut router, Some(small));
        let layout = Arc::clone(router.layout(VolumeRef(0)).unwrap());
        router.free_range(&rt, 5, VolumeRef(0), layout, PIECE_BYTES..VOLUME_BYTES);
        let done = loop {
            assert!(drive(&rt, &mut router).is_none(), "it is the answer of no front end");
            if let Some(done) = router.pop_own() {
                break done;
            }
        };
        assert_eq!((done.token, done.result), (5, Ok(())));
        let left: Vec<u64> = router.lanes().shards().flat_map(|(_, _, shard)| shard.blocks.keys().copied().collect::<Vec<_>>()).collect();
        assert_eq!(left, [0]);
    });
}

/// A volume with mirrors in two groups. Each has its shard on a core of its own.
fn over_two_groups(rt: &Rt, pieces: u64) -> TwoCores {
    let mut cores = TwoCores::new(rt, 1, pieces * PIECE_BYTES, 1);
    for (core, router) in cores.planes.iter_mut().enumerate() {
        drop(router.lanes_mut().remove_group(GroupSlot(0)));
        router.lanes_mut().add_shard(GroupSlot(core as u16), 0, LateBlocks::new(core as u64));
        for group in 0..2 {
            router.set_route(GroupSlot(group), Some(GroupRoute { shards: 1, first_core: group as u8 }));
        }
        let mirror = |group, no| {
            let cores = LaneCores::of_group(GroupRoute { shards: 1, first_core: group as u8 }, 2);
            Mirror::of_one(ComponentAt { group: GroupSlot(group), no: ComponentNo(no) }, cores)
        };
        let volume = VolumeLayout { mirrors: vec![mirror(0, 1), mirror(0, 2), mirror(1, 1)], ..served(router) };
        serve(rt, router, Some(volume));
    }
    cores
}

impl TwoCores {
    fn answer(&mut self, rt: &Rt, core: usize, op: IoOp) -> IoDone {
        self.planes[core].submit(rt, IoRequest::new(1, VolumeRef(0), op));
        let mut done = vec![];
        for _ in 0..1_000_000 {
            self.step(rt, &mut done);
            if let Some(done) = done.pop() {
                return done;
            }
        }
        panic!("never answered");
    }
}

#[test]
fn a_volume_over_two_groups_is_trimmed_in_both_and_not_when_one_is_away() {
    rt::sim::block_on(1, async |rt: Rt| {
        const PIECES: u64 = 12;
        for core in 0..2 {
            let trim = || IoOp::Trim { offset: 0, len: PIECES * PIECE_BYTES };
            let mut cores = over_two_groups(&rt, PIECES);
            let write = |cores: &mut TwoCores, core: usize| {
                for offset in (0..PIECES).map(|piece| piece * PIECE_BYTES) {
                    let (of, crossed) = (offset / PIECE_BYTES % 3 / 2, cores.planes[core].stats().crossed);
                    cores.answer(&rt, core, IoOp::Write { offset, data: data(offset, 4096, |_| 9) }).result.unwrap();
                    assert_eq!(cores.planes[core].stats().crossed - crossed, u64::from(of != core as u64), "parts that cross are counted");
                }
            };
            let held =
                |cores: &TwoCores| [0, 1].map(|c: usize| cores.planes[c].lanes().shards().map(|(_, _, s)| s.blocks.len()).sum::<usize>());
            write(&mut cores, core);
            assert_eq!(held(&cores), [8, 4]);
            assert_eq!(cores.answer(&rt, core, trim()).result, Ok(()));
            assert_eq!(held(&cores), [0, 0]);
            // One is closed: nobody says that what it holds is gone.
            write(&mut cores, core);
            for away in 0..2u16 {
                let mut cores = over_two_groups(&rt, PIECES);
                cores.planes.iter_mut().for_each(|router| router.set_route(GroupSlot(away), None));
                assert_eq!(cores.answer(&rt, core, trim()).result, Err(IoError::Failed), "group {away} is closed");
                // Its shard is not there yet, or not any more.
                let mut cores = over_two_groups(&rt, PIECES);
                drop(cores.planes[usize::from(away)].lanes_mut().remove_group(GroupSlot(away)));
                assert_eq!(cores.answer(&rt, core, trim()).result, Err(IoError::Closing), "the shard of group {away} is away");
            }
        }
    });
}

/// A mirror that no copy here serves: what lies on it fails as with a group that is closed, on every core, and what lies on others is done.
#[test]
fn a_mirror_that_is_not_served_fails_and_takes_no_other_with_it() {
    rt::sim::block_on(1, async |rt: Rt| {
        const PIECES: u64 = 12;
        let there = CopyPlace::On { node: base::NodeId::from_bytes([1; 16]), component: base::ComponentId::from_bytes([2; 16]) };
        let here = |state| CopyAt { state, place: CopyPlace::Here(ComponentAt { group: GroupSlot(0), no: ComponentNo(2) }) };
        let stale = here(base::CopyState::Stale);
        // One with a copy in sync elsewhere waits for its owner to serve.
        let absent = CopyAt { state: base::CopyState::Absent, place: there };
        for copies in [vec![], vec![stale], vec![absent, stale]] {
            for core in 0..2 {
                let mut cores = over_two_groups(&rt, PIECES);
                for router in &mut cores.planes {
                    let mut volume = served(router);
                    let lanes = LaneCores::of_group(GroupRoute { shards: 1, first_core: 0 }, 2);
                    volume.mirrors[1] = Mirror::new(copies.clone(), lanes, Some(lanes));
                    serve(&rt, router, Some(volume));
                }
                for offset in (0..PIECES).map(|piece| piece * PIECE_BYTES) {
                    let expected = if offset / PIECE_BYTES % 3 == 1 { Err(IoError::Failed) } else { Ok(()) };
                    assert_eq!(cores.answer(&rt, core, IoOp::Write { offset, data: data(offset, 4096, |_| 9) }).result, expected);
                    assert_eq!(cores.answer(&rt, core, IoOp::Read { offset, len: 4096 }).result, expected);
                }
                let trim = IoOp::Trim { offset: 0, len: PIECES * PIECE_BYTES };
                assert_eq!(cores.answer(&rt, core, trim).result, Err(IoError::Failed), "nobody says that what it holds is gone");
                assert!(cores.planes.iter().all(|router| router.is_idle()));
            }
        }
    });
}
