use super::*;
use proptest::prelude::*;

#[test]
fn buffers_are_aligned_and_their_capacity_is_the_next_power_of_two() {
    for (len, capacity) in [(0, 4096), (1, 4096), (4096, 4096), (4097, 8192), (100_000, 131_072), (BUF_BYTES_MAX, BUF_BYTES_MAX)] {
        let buf = Buf::alloc(len);
        assert_eq!((buf.len(), buf.capacity(), buf.as_raw() as usize % BUF_ALIGN), (len, capacity, 0));
    }
}

#[test]
#[should_panic(expected = "above the limit")]
fn a_buffer_above_the_limit_is_refused() {
    Buf::alloc(BUF_BYTES_MAX + 1);
}

#[test]
#[should_panic(expected = "does not fit")]
fn a_length_above_the_capacity_is_refused() {
    Buf::alloc(1).set_len(4097);
}

#[test]
fn a_recycled_buffer_is_the_same_memory_and_zeroed_ones_are_zero() {
    let mut buf = Buf::alloc(8192);
    buf.fill(7);
    let at = buf.as_raw();
    drop(buf);
    let again = Buf::zeroed(5000);
    assert_eq!(again.as_raw(), at);
    assert!(again.iter().all(|b| *b == 0));
}

#[test]
fn the_free_list_is_bounded() {
    let n = FREE_BYTES_MAX / BUF_BYTES_MAX + 5;
    let many: Vec<Buf> = (0..n).map(|_| Buf::alloc(BUF_BYTES_MAX)).collect();
    drop(many);
    let kept = POOL.with(|p| {
        // SAFETY: nobody else uses this thread's pool now.
        unsafe { (*p.free[CLASSES - 1].get()).len() }
    });
    assert_eq!(kept, FREE_BYTES_MAX / BUF_BYTES_MAX);
}

#[test]
fn buffers_are_counted_by_the_thread_that_holds_them() {
    let before = buffers_outstanding();
    let a = Buf::alloc(1);
    let b = Buf::zeroed(1);
    assert_eq!(buffers_outstanding(), before + 2);
    drop((a, b));
    assert_eq!(buffers_outstanding(), before);
}

#[test]
#[allow(clippy::disallowed_methods)] // that buffers cross threads is the point
fn a_buffer_may_be_dropped_by_another_thread() {
    let mut buf = Buf::alloc(4096);
    buf.fill(3);
    let sum = std::thread::spawn(move || buf.iter().map(|b| u32::from(*b)).sum::<u32>()).join().unwrap();
    assert_eq!(sum, 3 * 4096);
}

#[test]
fn a_cleared_list_is_empty_and_has_all_its_room_again() {
    let mut list = SendList::new();
    list.push_header(&[1; 100]);
    list.push_data(Buf::zeroed(4096), 10..20);
    assert_eq!((list.len_bytes(), list.header_room(), list.segments()), (110, SEND_HEADER_BYTES_MAX - 100, 2));
    list.clear();
    assert!(list.is_empty());
    assert_eq!((list.header_room(), list.slices(0).count()), (SEND_HEADER_BYTES_MAX, 0));
}

#[test]
#[should_panic(expected = "no room")]
fn headers_beyond_the_room_are_refused() {
    let mut list = SendList::new();
    list.push_header(&[0; SEND_HEADER_BYTES_MAX]);
    list.push_header(&[0]);
}

proptest! {
    #[test]
    fn a_list_gives_its_bytes_in_order_from_any_point(
        parts in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..300), 0..50usize), 0..20),
        skip in 0..4000usize,
    ) {
        let mut list = SendList::new();
        let mut whole = Vec::<u8>::new();
        for (is_header, bytes, cut) in &parts {
            if *is_header {
                list.push_header(bytes);
                whole.extend(bytes);
            } else {
                let cut = (*cut).min(bytes.len());
                list.push_data(Buf::copy_of(bytes), cut..bytes.len());
                whole.extend(&bytes[cut..]);
            }
        }
        prop_assert_eq!(list.len_bytes(), whole.len());
        let skip = skip.min(whole.len());
        let pieces: Vec<&[u8]> = list.slices(skip).collect();
        prop_assert!(pieces.iter().all(|p| !p.is_empty()));
        prop_assert_eq!(pieces.concat(), &whole[skip..]);
        let data = parts.iter().filter(|p| !p.0).count();
        prop_assert_eq!(list.drain_data().count(), data);
        prop_assert!(list.is_empty());
    }
}

#[test]
fn a_buffer_is_cut_and_joined_with_what_its_parts_have_become() {
    let before = buffers_outstanding();
    let mut buf = Buf::alloc(3 * BUF_ALIGN + 100);
    buf.fill(9);
    let at = buf.as_raw() as usize;
    let mut parts = buf.cut([BUF_ALIGN, 2 * BUF_ALIGN, 100]);
    assert_eq!(
        parts.iter().map(|p| (p.as_raw() as usize - at, p.len(), p.capacity())).collect::<Vec<_>>(),
        [(0, 4096, 4096), (4096, 8192, 8192), (12288, 100, 100)]
    );
    assert_eq!(buffers_outstanding(), before + 1, "the parts are not buffers of their own");
    parts[1].fill(1);
    parts[2][99] = 2;
    parts[0].set_len(1);
    let whole = Buf::join(parts);
    assert_eq!((whole.as_raw() as usize, whole.len(), whole.capacity()), (at, 3 * BUF_ALIGN + 100, 16384));
    assert!(
        whole[..4096].iter().chain(&whole[12288..12387]).all(|b| *b == 9)
            && whole[4096..12288].iter().all(|b| *b == 1)
            && whole[12387] == 2
    );
    drop(whole);
    assert_eq!(buffers_outstanding(), before);
}

#[test]
fn the_memory_of_a_buffer_that_was_cut_goes_back_with_its_last_part() {
    let buf = Buf::alloc(2 * BUF_ALIGN);
    let (at, before) = (buf.as_raw(), buffers_outstanding());
    let mut parts = buf.cut([BUF_ALIGN, BUF_ALIGN]);
    let last = parts.remove(0);
    drop(parts);
    assert_ne!(Buf::alloc(2 * BUF_ALIGN).as_raw(), at);
    drop(last);
    assert_eq!(buffers_outstanding(), before - 1);
    assert_eq!(Buf::alloc(2 * BUF_ALIGN).as_raw(), at);
}

#[test]
fn parts_that_are_not_one_buffer_are_refused() {
    let cut = || Buf::alloc(3 * BUF_ALIGN).cut([BUF_ALIGN; 3]);
    let refused = |parts: BufVec| assert!(std::panic::catch_unwind(move || Buf::join(parts)).is_err());
    let (mut missing, mut swapped, mut mixed) = (cut(), cut(), cut());
    missing.pop();
    refused(missing);
    swapped.swap(1, 2);
    refused(swapped);
    mixed[1] = cut().remove(1);
    refused(mixed);
    refused(BufVec::from_iter([Buf::alloc(1)]));
    for lens in [[BUF_ALIGN, BUF_ALIGN], [100, 2 * BUF_ALIGN - 100], [BUF_ALIGN, 2 * BUF_ALIGN]] {
        assert!(std::panic::catch_unwind(|| Buf::alloc(2 * BUF_ALIGN + 1).cut(lens)).is_err());
    }
}

#[test]
fn several_owners_read_the_same_bytes_and_the_memory_goes_back_with_the_last() {
    let before = buffers_outstanding();
    let mut a = Buf::copy_of(&[7; 5000]);
    let at = a.as_raw();
    let mut b = a.share();
    let c = b.share();
    for share in [&a, &b, &c] {
        assert_eq!((share.as_raw(), share.len(), share.capacity(), share.is_shared()), (at, 5000, 0, true));
        assert!(share.iter().all(|b| *b == 7));
    }
    assert_eq!(buffers_outstanding(), before + 1, "a share is no buffer of its own");
    drop((a, b));
    assert_eq!(buffers_outstanding(), before + 1);
    drop(c);
    assert_eq!(buffers_outstanding(), before);
    assert_eq!(Buf::alloc(5000).as_raw(), at);
}

#[test]
fn the_last_owner_can_have_the_buffer_back_as_it_was() {
    let mut a = Buf::copy_of(&[7; 5000]);
    a.set_len(4999);
    let b = a.share();
    let a = a.reclaim().expect_err("there are two owners");
    assert!(a.is_shared());
    drop(b);
    assert!(a.is_shared(), "nobody may write before the buffer was claimed");
    let mut a = a.reclaim().expect("the last owner");
    assert_eq!((a.len(), a.capacity(), a.is_shared()), (4999, 8192, false));
    a.fill(1);
    let mut a = a.reclaim().expect("a buffer that nobody shares");
    a.set_len(8192);
}

#[test]
fn what_would_change_shared_bytes_is_refused() {
    fn refused(name: &str, f: impl FnOnce(Buf)) {
        let mut buf = Buf::copy_of(&[7; 2 * BUF_ALIGN]);
        let other = buf.share();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f(buf)));
        assert!(result.is_err(), "{name} was not refused");
        assert!(other.iter().all(|b| *b == 7), "{name}");
        assert!(other.reclaim().is_ok(), "{name}: the other owner is left alone");
    }
    refused("a write", |mut b| b[0] = 1);
    refused("a fill", |mut b| b.fill(1));
    refused("an empty slice", |mut b| b[..0].fill(1));
    refused("another length", |mut b| b.set_len(1));
    refused("a longer one", |mut b| b.set_len(2 * BUF_ALIGN + 1));
    refused("a write to a part", |b| b.cut([BUF_ALIGN, BUF_ALIGN])[1].fill(1));
    refused("a join", |b| drop(Buf::join([b])));
    refused("a join with a share of a part", |b| {
        let mut parts = Buf::alloc(2 * BUF_ALIGN).cut([BUF_ALIGN, BUF_ALIGN]);
        parts[0] = parts[1].share();
        drop((b, Buf::join(parts)));
    });
}

#[test]
fn a_buffer_without_bytes_is_shared_as_one_of_its_own() {
    let mut a = Buf::alloc(0);
    let mut b = a.share();
    assert!(!a.is_shared() && !b.is_shared());
    a.set_len(10);
    b.set_len(10);
    a.fill(1);
    b.fill(2);
    assert_eq!((a[9], b[9]), (1, 2));
    // A share that was made empty owns no byte either.
    let mut c = a.share();
    c.set_len(0);
    assert!(c.is_empty() && c.share().is_empty() && a.is_shared());
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| c.set_len(1))).is_err());
}

#[test]
fn parts_are_shared_and_shares_are_cut() {
    let before = buffers_outstanding();
    let mut parts = Buf::copy_of(&[7; 3 * BUF_ALIGN]).cut([BUF_ALIGN, 2 * BUF_ALIGN]);
    let share = parts[1].share();
    parts[0].fill(1);
    let pieces = share.cut([BUF_ALIGN, BUF_ALIGN]);
    assert!(pieces.iter().all(|p| p.is_shared() && p.iter().all(|b| *b == 7)));
    assert!(pieces[0].as_raw() == parts[1].as_raw());
    let share = Buf::join(pieces);
    assert!(share.is_shared() && share.len() == 2 * BUF_ALIGN);
    let last = parts.pop().unwrap();
    let last = last.reclaim().expect_err("there is another owner");
    drop(share);
    parts.push(last.reclaim().expect("the last owner"));
    let whole = Buf::join(parts);
    assert!(whole[..BUF_ALIGN].iter().all(|b| *b == 1) && whole[BUF_ALIGN..].iter().all(|b| *b == 7));
    drop(whole);
    assert_eq!(buffers_outstanding(), before);
}

#[test]
fn a_list_carries_shared_bytes_and_gives_them_back() {
    let mut data = Buf::copy_of(&[7; 100]);
    let mut list = SendList::new();
    list.push_header(&[1; 4]);
    list.push_data(data.share(), 10..20);
    assert_eq!(list.slices(0).collect::<Vec<_>>().concat(), [[1u8; 4].as_slice(), &[7; 10]].concat());
    let data = data.reclaim().expect_err("the list has the other");
    let back: Vec<Buf> = list.drain_data().collect();
    assert!(back[0].is_shared());
    drop(back);
    assert!(data.reclaim().is_ok());
}

#[test]
#[allow(clippy::disallowed_methods)] // that shares cross threads is the point
fn shares_are_read_dropped_and_claimed_by_threads_and_one_at_most_gets_the_buffer() {
    for _ in 0..if cfg!(miri) { 3 } else { 200 } {
        let mut first = Buf::copy_of(&[3; 8192]);
        let mut shares: Vec<Buf> = (0..3).map(|_| first.share()).collect();
        shares.push(first);
        let threads: Vec<_> = shares
            .into_iter()
            .map(|share| {
                std::thread::spawn(move || {
                    assert!(share.iter().all(|b| *b == 3));
                    share.reclaim().is_ok_and(|mut own| {
                        own.fill(4);
                        true
                    })
                })
            })
            .collect();
        let got = threads.into_iter().map(|t| usize::from(t.join().unwrap())).sum::<usize>();
        assert!(got <= 1, "{got} threads got the buffer");
    }
}

/// What may be done to buffers, each with which of those that there are.
#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc(u8),
    Share(usize),
    Cut(usize),
    Join(usize),
    Reclaim(usize),
    Write(usize, u8),
    Drop(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        any::<u8>().prop_map(Step::Alloc),
        any::<usize>().prop_map(Step::Share),
        any::<usize>().prop_map(Step::Cut),
        any::<usize>().prop_map(Step::Join),
        any::<usize>().prop_map(Step::Reclaim),
        (any::<usize>(), any::<u8>()).prop_map(|(i, b)| Step::Write(i, b)),
        any::<usize>().prop_map(Step::Drop),
    ]
}

/// Two halves of one buffer, and what they hold.
type Halves = (BufVec, [u8; 2]);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 512 }))]

    /// Whatever is done, in whatever order: nobody sees other bytes than those that he had or wrote, and all memory goes back.
    #[test]
    fn shared_bytes_never_change_and_all_memory_goes_back(steps in prop::collection::vec(step(), 0..60)) {
        const HALF: usize = BUF_ALIGN;
        let before = buffers_outstanding();
        let mut bufs: Vec<(Buf, [u8; 2])> = Vec::new();
        let mut halves: Vec<Halves> = Vec::new();
        for step in steps {
            let n = bufs.len().max(1);
            match step {
                Step::Alloc(b) => {
                    let mut buf = Buf::alloc(2 * HALF);
                    buf.fill(b);
                    bufs.push((buf, [b; 2]));
                }
                Step::Share(i) if i % 2 == 0 && !halves.is_empty() => {
                    // Of a half: it lives on its own from here.
                    let n = halves.len();
                    let (parts, holds) = &mut halves[i / 2 % n];
                    let half = parts[1].share();
                    prop_assert!(half.iter().all(|b| *b == holds[1]));
                    prop_assert!(parts[1].is_shared());
                }
                Step::Share(i) if !bufs.is_empty() => {
                    let (buf, holds) = &mut bufs[i % n];
                    let new = (buf.share(), *holds);
                    bufs.push(new);
                }
                Step::Cut(i) if !bufs.is_empty() => {
                    let (buf, holds) = bufs.swap_remove(i % n);
                    let shared = buf.is_shared();
                    let parts = buf.cut([HALF, HALF]);
                    prop_assert!(parts.iter().all(|p| p.is_shared() == shared));
                    halves.push((parts, holds));
                }
                Step::Join(i) if !halves.is_empty() => {
                    let n = halves.len();
                    let (parts, holds) = halves.swap_remove(i % n);
                    // A half that was shared is the last of its owners by now; one that was cut from a share is its half still.
                    let [first, second] = <[Buf; 2]>::try_from(parts.into_vec()).unwrap();
                    let second = if first.is_shared() { second } else { second.reclaim().expect("the last") };
                    bufs.push((Buf::join([first, second]), holds));
                }
                Step::Reclaim(i) if !bufs.is_empty() => {
                    let (buf, holds) = bufs.swap_remove(i % n);
                    let shared = buf.is_shared();
                    match buf.reclaim() {
                        Ok(own) => {
                            prop_assert_eq!((own.len(), own.capacity()), (2 * HALF, 2 * HALF));
                            bufs.push((own, holds));
                        }
                        Err(share) => {
                            prop_assert!(shared && share.is_shared());
                            bufs.push((share, holds));
                        }
                    }
                }
                Step::Write(i, b) if !bufs.is_empty() => {
                    let (buf, holds) = &mut bufs[i % n];
                    if !buf.is_shared() {
                        buf[HALF..].fill(b);
                        holds[1] = b;
                    }
                }
                Step::Drop(i) if !bufs.is_empty() => drop(bufs.swap_remove(i % n)),
                _ => {}
            }
            for (buf, holds) in &bufs {
                prop_assert!(buf[..HALF].iter().all(|b| *b == holds[0]) && buf[HALF..].iter().all(|b| *b == holds[1]));
            }
            for (parts, holds) in &halves {
                prop_assert!(parts.iter().zip(holds).all(|(p, h)| p.iter().all(|b| b == h)));
            }
        }
        drop((bufs, halves));
        prop_assert_eq!(buffers_outstanding(), before);
    }
}
