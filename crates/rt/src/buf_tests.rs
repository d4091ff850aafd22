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
