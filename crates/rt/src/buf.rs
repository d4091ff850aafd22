//! Buffers that devices and sockets read and write: [`Buf`], and the gather list of a send, [`SendList`].
//!
//! Owns: the free lists of each thread, one a size class.
//! Invariants: a buffer starts on a 4096-byte boundary; its memory is always initialised; each byte of it has exactly one owner, or several of
//! whom none can write ([`Buf::share`]), and while an operation is in flight that owner is the driver. Each free list holds at most
//! [`FREE_BYTES_MAX`].
//! Never: shares a byte that somebody can write (parts of a buffer that was cut do not overlap), shrinks one in place, takes a lock.

use core::{
    cell::{Cell, UnsafeCell},
    fmt,
    mem::ManuallyDrop,
    ops::{Deref, DerefMut, Range},
    ptr::NonNull,
    slice,
};
use smallvec::SmallVec;
use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    sync::Arc,
};

/// Where buffers start, in bytes; also the smallest capacity.
pub const BUF_ALIGN: usize = 4096;
/// The largest buffer, in bytes.
pub const BUF_BYTES_MAX: usize = 1 << 20;
/// Size classes: 4 KiB, 8 KiB, .. 1 MiB.
const CLASSES: usize = 9;
/// What one free list keeps, in bytes; what comes back beyond that is freed.
pub const FREE_BYTES_MAX: usize = 32 << 20;

const _: () = assert!(BUF_ALIGN << (CLASSES - 1) == BUF_BYTES_MAX);

/// The buffers of one vectored device operation, in order.
pub type BufVec = SmallVec<[Buf; 4]>;

/// A block of memory for I/O: 4096-aligned, 4 KiB to 1 MiB, a power of two. Goes back to the free list of the thread that drops it.
/// Or a part of one ([`Buf::cut`]), or one of several owners of the same bytes ([`Buf::share`]): then the memory goes back when the last is
/// dropped.
///
/// To write to shared bytes is a mistake of the program: it panics.
pub struct Buf {
    ptr: NonNull<u8>,
    len: u32,
    /// How long it can be made and written. Of a share 0, so `len <= capacity` says whether its bytes may be written.
    capacity: u32,
    /// Of a part or a share: what it was made from, which keeps the memory. Nobody looks at its bytes as long as there are any.
    whole: Option<Arc<Buf>>,
}

// SAFETY: a Buf is the only owner of its bytes, which are plain memory from the global allocator; parts of one buffer do not overlap. Or there are
// several owners, and all can only read.
unsafe impl Send for Buf {}
// SAFETY: through a shared reference it can only be read.
unsafe impl Sync for Buf {}

struct Pool {
    free: [UnsafeCell<Vec<NonNull<u8>>>; CLASSES],
    outstanding: Cell<isize>,
}

impl Drop for Pool {
    fn drop(&mut self) {
        for (class, list) in self.free.iter_mut().enumerate() {
            for ptr in list.get_mut().drain(..) {
                // SAFETY: what is in the list was allocated with the layout of this class, and nothing else refers to it.
                unsafe { dealloc(ptr.as_ptr(), layout(class)) }
            }
        }
    }
}

thread_local! {
    static POOL: Pool = const { Pool { free: [const { UnsafeCell::new(Vec::new()) }; CLASSES], outstanding: Cell::new(0) } };
}

const fn layout(class: usize) -> Layout {
    match Layout::from_size_align(BUF_ALIGN << class, BUF_ALIGN) {
        Ok(l) => l,
        Err(_) => unreachable!(),
    }
}

/// The smallest class that has room for `len` bytes: 0 up to [`BUF_ALIGN`], and one more each time it is twice as long.
const fn class_of(len: usize) -> usize {
    let pages_before_last = len.saturating_sub(1) / BUF_ALIGN;
    (pages_before_last << 1 | 1).ilog2() as usize
}

const _: () = assert!(class_of(0) == 0 && class_of(BUF_ALIGN) == 0 && class_of(BUF_ALIGN + 1) == 1 && class_of(2 * BUF_ALIGN) == 1);
const _: () = assert!(class_of(2 * BUF_ALIGN + 1) == 2 && class_of(BUF_BYTES_MAX) == CLASSES - 1);

/// Buffers that this thread has handed out and not got back. A buffer that moves between threads counts for the one
/// that made it and against the one that drops it, so this is exact only where one thread does both (the simulator).
pub fn buffers_outstanding() -> usize {
    POOL.with(|p| p.outstanding.get().max(0) as usize)
}

impl Buf {
    /// A buffer of `len` bytes, whose contents are whatever they were.
    ///
    /// # Panics
    /// When `len` is above [`BUF_BYTES_MAX`].
    pub fn alloc(len: usize) -> Buf {
        Self::take(len).0
    }

    /// A buffer of `len` zeroes.
    ///
    /// # Panics
    /// When `len` is above [`BUF_BYTES_MAX`].
    pub fn zeroed(len: usize) -> Buf {
        let (mut buf, fresh) = Self::take(len);
        if !fresh {
            buf.fill(0);
        }
        buf
    }

    /// A buffer that holds a copy of `bytes`.
    ///
    /// # Panics
    /// When there are more than [`BUF_BYTES_MAX`].
    pub fn copy_of(bytes: &[u8]) -> Buf {
        let mut buf = Self::alloc(bytes.len());
        buf.copy_from_slice(bytes);
        buf
    }

    /// The buffer, and whether its memory is new (all zeroes).
    fn take(len: usize) -> (Buf, bool) {
        assert!(len <= BUF_BYTES_MAX, "a buffer of {len} bytes is above the limit of {BUF_BYTES_MAX}");
        let class = class_of(len);
        let recycled = POOL
            .try_with(|p| {
                p.outstanding.set(p.outstanding.get() + 1);
                // SAFETY: the pool belongs to this thread and no code that could come back here runs while the reference lives.
                unsafe { (*p.free[class].get()).pop() }
            })
            .ok()
            .flatten();
        let fresh = recycled.is_none();
        let ptr = recycled.unwrap_or_else(|| {
            // SAFETY: the layout's size is not zero.
            let raw = unsafe { alloc_zeroed(layout(class)) };
            NonNull::new(raw).unwrap_or_else(|| handle_alloc_error(layout(class)))
        });
        (Buf { ptr, len: len as u32, capacity: (BUF_ALIGN << class) as u32, whole: None }, fresh)
    }

    /// How long it can be made, in bytes: a power of two, or the length that a part was cut to. Of a share 0.
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// Another owner of the same bytes. Both can be read, written to devices and sent, on any core; neither can be written to or read into, until
    /// the other is gone and [`Buf::reclaim`] says so. A share can be shared again, and cut.
    pub fn share(&mut self) -> Buf {
        let whole = match &self.whole {
            Some(whole) if self.is_shared() => Arc::clone(whole),
            _ if self.len == 0 => return Buf::alloc(0), // no byte is shared
            _ => {
                // From here on the memory has two owners, for as long as it takes to put one into the other; nothing in between can panic.
                let own = Buf { ptr: self.ptr, len: self.len, capacity: self.capacity, whole: self.whole.take() };
                let whole = Arc::new(own);
                (self.capacity, self.whole) = (0, Some(Arc::clone(&whole)));
                whole
            }
        };
        Buf { ptr: self.ptr, len: self.len, capacity: 0, whole: Some(whole) }
    }

    /// Whether it is a share, even if the last one: nobody can write to it.
    pub fn is_shared(&self) -> bool {
        self.len > self.capacity
    }

    /// Makes the last share the buffer that it was before it was shared; nothing to do for a buffer that is not shared.
    ///
    /// # Errors
    /// The share, when it is not the last.
    pub fn reclaim(mut self) -> Result<Buf, Buf> {
        if !self.is_shared() {
            return Ok(self);
        }
        let whole = self.whole.take().expect("a share is of something");
        // Not dropped without what keeps its memory: it is no owner of it.
        let mut share = ManuallyDrop::new(self);
        Arc::try_unwrap(whole).map_err(|whole| {
            share.whole = Some(whole);
            ManuallyDrop::into_inner(share)
        })
    }

    /// Of a part: how many bytes were cut for it.
    fn extent(&self) -> usize {
        self.len.max(self.capacity) as usize
    }

    /// How many bytes an operation may write to: its length, or 0 when others read them.
    pub(crate) fn room(&self) -> usize {
        if self.is_shared() { 0 } else { self.len() }
    }

    /// Cuts it into parts of these lengths, in order, that go their own ways: each may be with another operation. [`Buf::join`] makes it whole again.
    /// Parts of a share are shares.
    ///
    /// # Panics
    /// When the lengths do not add up to its own, or one but the last is not a multiple of [`BUF_ALIGN`].
    pub fn cut(self, lens: impl IntoIterator<Item = usize>) -> BufVec {
        let (start, total, shared) = (self.ptr, self.len(), self.is_shared());
        let whole = Arc::new(self);
        let mut at = 0;
        let parts: BufVec = lens
            .into_iter()
            .map(|len| {
                assert!(at % BUF_ALIGN == 0 && len <= total - at, "a part of {len} bytes at {at} of {total}");
                // SAFETY: `at` is at most the length of the whole, so this is within its memory or one past the end.
                let ptr = unsafe { start.add(at) };
                at += len;
                Buf { ptr, len: len as u32, capacity: if shared { 0 } else { len as u32 }, whole: Some(Arc::clone(&whole)) }
            })
            .collect();
        assert!(at == total, "parts of {at} bytes cut from {total}");
        parts
    }

    /// The buffer that these parts were cut from.
    ///
    /// # Panics
    /// When they are not all its parts, in order, or one of them is shared still.
    pub fn join(parts: impl IntoIterator<Item = Buf>) -> Buf {
        let mut parts = parts.into_iter();
        // Not dropped: once it has handed over what keeps its memory, it is no owner of it.
        let mut first = ManuallyDrop::new(parts.next().expect("parts of a buffer"));
        let whole = first.whole.take().expect("a part of a buffer");
        let mut at = first.extent();
        assert!(first.ptr == whole.ptr, "the first part comes first");
        for part in parts {
            let same = part.whole.as_ref().is_some_and(|w| Arc::ptr_eq(w, &whole));
            assert!(same && part.ptr.as_ptr() as usize == whole.ptr.as_ptr() as usize + at, "parts of one buffer, in order");
            at += part.extent();
        }
        Arc::into_inner(whole).filter(|whole| at == whole.len()).expect("every part of the buffer")
    }

    /// Makes it `len` bytes long. Bytes that come to light are whatever they were.
    ///
    /// # Panics
    /// When `len` is above [`Buf::capacity`]: a share keeps its length.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "a length of {len} does not fit in a buffer of {}", self.capacity());
        self.len = len as u32;
    }

    /// Its first byte, for the drivers: stays where it is however the `Buf` moves.
    pub(crate) fn as_raw(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        if self.whole.is_some() {
            return;
        }
        // Its capacity is that of a class: the one that it was taken from.
        let (ptr, class) = (self.ptr, (self.capacity.trailing_zeros() - BUF_ALIGN.trailing_zeros()) as usize);
        let kept = POOL.try_with(|p| {
            p.outstanding.set(p.outstanding.get() - 1);
            // SAFETY: as in `take`; pushing may allocate, which does not come back here.
            let list = unsafe { &mut *p.free[class].get() };
            if list.len() < FREE_BYTES_MAX / (BUF_ALIGN << class) {
                list.push(ptr);
                return true;
            }
            false
        });
        if kept != Ok(true) {
            // SAFETY: allocated with this layout, and this was its only owner.
            unsafe { dealloc(ptr.as_ptr(), layout(class)) }
        }
    }
}

impl Deref for Buf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` is at most the capacity; the memory is initialised and ours.
        unsafe { slice::from_raw_parts(self.ptr.as_ptr(), self.len as usize) }
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // Whoever shares can only read. (A length that was just set is known to fit, so the compiler seldom asks.)
        assert!(self.len <= self.capacity, "a write to shared bytes");
        // SAFETY: as in `deref`; it is no share, and `&mut self` says that nobody else looks.
        unsafe { slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len as usize) }
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_shared() {
            return write!(f, "Buf({} bytes, shared)", self.len);
        }
        write!(f, "Buf({} of {} bytes)", self.len, self.capacity())
    }
}

/// How many header bytes a [`SendList`] takes.
pub const SEND_HEADER_BYTES_MAX: usize = 8192;

enum Segment {
    Header(Range<u32>),
    Data { buf: Buf, range: Range<u32> },
}

impl Segment {
    fn len(&self) -> usize {
        let (Segment::Header(range) | Segment::Data { range, .. }) = self;
        (range.end - range.start) as usize
    }
}

/// What one send hands to the network, in order: short headers, gathered in a buffer of its own, and data where it lies.
/// Comes back when it was sent; [`SendList::clear`] makes it ready for the next time without giving up its memory.
#[derive(Default)]
pub struct SendList {
    header: Option<Buf>,
    segments: Vec<Segment>,
    bytes: usize,
}

impl SendList {
    /// An empty list.
    pub fn new() -> SendList {
        SendList::default()
    }

    /// Adds a copy of `bytes`.
    ///
    /// # Panics
    /// When `bytes` is longer than [`SendList::header_room`].
    pub fn push_header(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        assert!(bytes.len() <= self.header_room(), "no room for {} header bytes", bytes.len());
        let header = self.header.get_or_insert_with(|| {
            let mut buf = Buf::alloc(SEND_HEADER_BYTES_MAX);
            buf.set_len(0);
            buf
        });
        let start = header.len();
        let end = start + bytes.len();
        header.set_len(end);
        header[start..].copy_from_slice(bytes);
        match self.segments.last_mut() {
            Some(Segment::Header(range)) => range.end = end as u32,
            _ => self.segments.push(Segment::Header(start as u32..end as u32)),
        }
        self.bytes += bytes.len();
    }

    /// Adds `range` of `buf`, which the list keeps until it is cleared or dropped.
    ///
    /// # Panics
    /// When the range does not lie within the buffer.
    pub fn push_data(&mut self, buf: Buf, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= buf.len(), "{range:?} does not lie in {buf:?}");
        self.bytes += range.len();
        self.segments.push(Segment::Data { range: range.start as u32..range.end as u32, buf });
    }

    /// How many bytes it holds, headers and data.
    pub fn len_bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it holds no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// How many header bytes it can still take.
    pub fn header_room(&self) -> usize {
        SEND_HEADER_BYTES_MAX - self.header.as_ref().map_or(0, |b| b.len())
    }

    /// How many pieces of memory it refers to (the drivers cut long lists).
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Empties it: data buffers are dropped, its own memory is kept.
    pub fn clear(&mut self) {
        self.segments.clear();
        self.bytes = 0;
        if let Some(h) = &mut self.header {
            h.set_len(0);
        }
    }

    /// Its bytes from `skip` on, as pieces in order, none empty.
    pub fn slices(&self, skip: usize) -> impl Iterator<Item = &[u8]> {
        let header = self.header.as_deref().unwrap_or(&[]);
        let mut skip = skip;
        self.segments.iter().filter_map(move |segment| {
            let cut = skip.min(segment.len());
            skip -= cut;
            let (whole, range) = match segment {
                Segment::Header(range) => (header, range),
                Segment::Data { buf, range } => (&**buf, range),
            };
            let piece = &whole[range.start as usize + cut..range.end as usize];
            (!piece.is_empty()).then_some(piece)
        })
    }

    /// Takes the data buffers out, in order, and empties the list.
    pub fn drain_data(&mut self) -> impl Iterator<Item = Buf> + '_ {
        self.bytes = 0;
        if let Some(h) = &mut self.header {
            h.set_len(0);
        }
        self.segments.drain(..).filter_map(|s| match s {
            Segment::Data { buf, .. } => Some(buf),
            Segment::Header(_) => None,
        })
    }
}

impl fmt::Debug for SendList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SendList({} bytes in {} segments)", self.bytes, self.segments.len())
    }
}

#[cfg(test)]
#[path = "buf_tests.rs"]
mod tests;
