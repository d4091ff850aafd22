//! Why memory of another program cannot be used, and how much of it can.

/// The longest piece of foreign memory that is mapped, in bytes: more than any guest has.
pub const FOREIGN_BYTES_MAX: u64 = 1 << 42;

/// Why foreign memory was not mapped, or not accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForeignError {
    /// It could be made shorter later, and whoever touches what is gone is killed (SIGBUS).
    #[error(
        "the memory is no memory file that is sealed against being made shorter: use a memfd with F_SEAL_SHRINK (QEMU: memory-backend-memfd)"
    )]
    NotSealed,
    /// Of huge pages: when their pool is empty, a hole that the other program makes kills whoever touches it.
    #[error("the memory is of huge pages, which can vanish: use ordinary ones")]
    HugePages,
    /// The file ends before the piece does.
    #[error("{bytes} bytes at {offset} are not within a file of {size}")]
    BeyondEnd {
        /// Where the piece starts in the file.
        offset: u64,
        /// How long it is.
        bytes: u64,
        /// How long the file is.
        size: u64,
    },
    /// Nothing, or more than [`FOREIGN_BYTES_MAX`].
    #[error("{bytes} bytes cannot be mapped")]
    Length {
        /// How long it would be.
        bytes: u64,
    },
    /// An access that is not within the memory, or not aligned as it must be.
    #[error("an access is not within the memory that was passed")]
    OutOfRange,
    /// The descriptor is of something else.
    #[error("the descriptor is not one of memory")]
    WrongDescriptor,
    /// Anything else that the system says (EINVAL: the offset is not a multiple of the page).
    #[error("the system says error {errno}")]
    Os {
        /// As in errno(3).
        errno: i32,
    },
}
