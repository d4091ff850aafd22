//! Hooks for the simulator: deliberate bugs that it must find, and marks on rare branches that it must reach.
//!
//! Owns: the two lists, and, with the feature `hooks`, which bug is planted and which marks were passed on this thread.
//! Invariant: without the feature (production) nothing is ever planted, and both calls compile to nothing.
//! Never: changes what the code does when no bug is planted.

macro_rules! listed {
    ($(#[$meta:meta])* $name:ident { $( $(#[doc = $text:literal])+ $item:ident, )* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $( $(#[doc = $text])+ $item, )* }
        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$( $name::$item, )*];
            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $( $name::$item => stringify!($item), )* }
            }
            /// What it is, in words.
            pub const fn text(self) -> &'static str {
                match self { $( $name::$item => concat!($($text),+).trim_ascii(), )* }
            }
            /// By its name.
            pub fn named(name: &str) -> Option<$name> {
                match name { $( stringify!($item) => Some($name::$item), )* _ => None }
            }
        }
    };
}

listed! {
    /// A bug that can be planted.
    Bug {
        /// The tail of the log moves on without a checkpoint.
        EarlyTail,
        /// Batches are acknowledged while they are still in the volatile cache of the device.
        VolatileBatch,
        /// Recovery takes the last batch without looking at its data.
        TornBatchTaken,
        /// Recovery does not replay trims.
        ForgottenTrim,
        /// Recovery does not replay what was declared uncorrectable.
        ForgottenMark,
    }
}

listed! {
    /// A rare branch.
    Mark {
        /// A segment of the log is used again while a read of its old content is under way.
        SegmentReusedUnderRead,
    }
}

#[cfg(feature = "hooks")]
mod on {
    use super::{Bug, Mark};
    use core::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
        static PASSED: Cell<[u64; 2]> = const { Cell::new([0; 2]) };
    }
    const _: () = assert!(Mark::ALL.len() <= 128);

    /// Plants a bug on this thread, or none.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }
    /// Whether it is planted.
    #[inline]
    pub fn planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
    /// This branch was taken.
    #[inline]
    pub fn mark(mark: Mark) {
        let mut passed = PASSED.get();
        passed[mark as usize / 64] |= 1 << (mark as usize % 64);
        PASSED.set(passed);
    }
    /// The marks that were passed on this thread since the last call.
    pub fn take_marks() -> Vec<Mark> {
        let passed = PASSED.replace([0; 2]);
        Mark::ALL.iter().copied().filter(|m| passed[*m as usize / 64] >> (*m as usize % 64) & 1 != 0).collect()
    }
}
#[cfg(feature = "hooks")]
pub use on::{mark, plant, planted, take_marks};

/// Never: nothing can be planted in this build.
#[cfg(not(feature = "hooks"))]
#[inline(always)]
pub const fn planted(_: Bug) -> bool {
    false
}
/// Does nothing in this build.
#[cfg(not(feature = "hooks"))]
#[inline(always)]
pub const fn mark(_: Mark) {}
