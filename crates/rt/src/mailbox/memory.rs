//! The memory that rings and sleepers share between cores; the tests (`model_tests`) put a model of it in its place.
//!
//! Never: decides who may touch a cell, or when.

pub(super) use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

/// A cell whose users agree among themselves who may touch it.
pub(super) struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(super) fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }
    #[inline]
    pub(super) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}
