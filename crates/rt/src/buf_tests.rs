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
        let mut whole = Vec::new();
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
