//! Thin, safe wrappers of the system calls that Unix sockets, passed descriptors and events need.
//!
//! Owns: nothing. Returns `errno` on failure. A descriptor that the kernel has made is owned by what is returned, whatever else fails.
//! Never: retries, decides.

use std::io::{self, IoSlice};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::DESCRIPTORS_MAX;

/// Bytes of a path that `sockaddr_un` takes, without the zero at its end.
const PATH_BYTES_MAX: usize = 107;

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

fn done(r: libc::c_int) -> Result<(), i32> {
    if r < 0 { Err(errno()) } else { Ok(()) }
}

/// A new non-blocking Unix stream socket.
pub(super) fn socket() -> Result<OwnedFd, i32> {
    // SAFETY: plain system call.
    let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) };
    done(fd)?;
    // SAFETY: the call made the descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The address of a path; `ENAMETOOLONG` when it does not fit, `EINVAL` when it is empty or holds a zero (that would be another kind of name).
fn address(path: &Path) -> Result<libc::sockaddr_un, i32> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() > PATH_BYTES_MAX {
        return Err(libc::ENAMETOOLONG);
    }
    if bytes.is_empty() || bytes.contains(&0) {
        return Err(libc::EINVAL);
    }
    // SAFETY: all-zero bytes are a valid `sockaddr_un`.
    let mut addr: libc::sockaddr_un = unsafe { zeroed() };
    addr.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in addr.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok(addr)
}

pub(super) fn bind(fd: &OwnedFd, path: &Path) -> Result<(), i32> {
    let addr = address(path)?;
    // SAFETY: the kernel reads one `sockaddr_un` through the pointer, which is valid for that.
    done(unsafe { libc::bind(fd.as_raw_fd(), (&raw const addr).cast(), size_of::<libc::sockaddr_un>() as libc::socklen_t) })
}

/// Connects or fails at once (`EAGAIN`: too many wait to be accepted).
pub(super) fn connect(fd: &OwnedFd, path: &Path) -> Result<(), i32> {
    let addr = address(path)?;
    // SAFETY: as in `bind`.
    done(unsafe { libc::connect(fd.as_raw_fd(), (&raw const addr).cast(), size_of::<libc::sockaddr_un>() as libc::socklen_t) })
}

/// Sets the permission bits that a socket has once it is bound (less what the process's mask takes away).
pub(super) fn set_mode(fd: &OwnedFd, mode: u32) -> Result<(), i32> {
    // SAFETY: plain system call.
    done(unsafe { libc::fchmod(fd.as_raw_fd(), mode as libc::mode_t) })
}

// SAFETY: computes a length from a length.
const RIGHTS_BYTES: usize = unsafe { libc::CMSG_SPACE((DESCRIPTORS_MAX * size_of::<libc::c_int>()) as u32) } as usize;

/// Room for the control data of one message with descriptors, aligned for its header.
#[repr(C, align(8))]
struct Control([u8; RIGHTS_BYTES]);

const _: () = assert!(align_of::<Control>() >= align_of::<libc::cmsghdr>());

/// What one receive brought.
pub(super) struct Received {
    pub(super) bytes: usize,
    pub(super) descriptors: Vec<OwnedFd>,
    /// There were more, or more than the process may have: the kernel has closed those that are not here.
    pub(super) cut: bool,
}

/// Receives what is there into `to`, with descriptors that are closed on exec; no bytes say that the peer sends no more.
pub(super) fn receive(fd: RawFd, to: &mut [u8]) -> Result<Received, i32> {
    let mut control = Control([0; RIGHTS_BYTES]);
    let mut iovec = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    // SAFETY: all-zero bytes are a valid `msghdr`.
    let mut msg: libc::msghdr = unsafe { zeroed() };
    msg.msg_iov = &raw mut iovec;
    msg.msg_iovlen = 1;
    msg.msg_control = (&raw mut control).cast();
    msg.msg_controllen = RIGHTS_BYTES as _;
    // SAFETY: the kernel writes at most the lengths given to `to` and `control`, and only during the call.
    let n = unsafe { libc::recvmsg(fd, &raw mut msg, libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC) };
    if n < 0 {
        return Err(errno());
    }
    let mut descriptors = Vec::new();
    // SAFETY: `msg` describes the control data as the kernel has left it; the macros stay within its length.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const msg) };
    while !header.is_null() {
        // SAFETY: the macros give headers that lie in `control` as a whole and are aligned as it is; the kernel has written them.
        let (level, kind, len) = unsafe { ((*header).cmsg_level, (*header).cmsg_type, (*header).cmsg_len as usize) };
        if (level, kind) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            // SAFETY: computes where the data of the header starts.
            let (data, start) = unsafe { (libc::CMSG_DATA(header).cast::<libc::c_int>(), libc::CMSG_LEN(0) as usize) };
            for i in 0..len.saturating_sub(start) / size_of::<libc::c_int>() {
                // SAFETY: the kernel says that so many descriptors follow the header; it made each for this process, so nobody else owns it.
                descriptors.push(unsafe { OwnedFd::from_raw_fd(data.add(i).read_unaligned()) });
            }
        }
        // SAFETY: as for the first.
        header = unsafe { libc::CMSG_NXTHDR(&raw const msg, header) };
    }
    Ok(Received { bytes: n as usize, descriptors, cut: msg.msg_flags & libc::MSG_CTRUNC != 0 })
}

/// Sends as much as the socket takes of `pieces`, and the descriptors with the first byte.
///
/// # Panics
/// When there are more than [`DESCRIPTORS_MAX`] descriptors.
pub(super) fn send(fd: RawFd, pieces: &[IoSlice<'_>], descriptors: &[RawFd]) -> Result<usize, i32> {
    assert!(descriptors.len() <= DESCRIPTORS_MAX, "more descriptors than there is room for");
    let mut control = Control([0; RIGHTS_BYTES]);
    // SAFETY: all-zero bytes are a valid `msghdr`.
    let mut msg: libc::msghdr = unsafe { zeroed() };
    msg.msg_iov = pieces.as_ptr().cast_mut().cast(); // an `IoSlice` is an `iovec` by contract
    msg.msg_iovlen = pieces.len() as _;
    if !descriptors.is_empty() {
        let bytes = size_of_val(descriptors) as u32;
        msg.msg_control = (&raw mut control).cast();
        // SAFETY: computes a length from a length.
        msg.msg_controllen = unsafe { libc::CMSG_SPACE(bytes) } as _;
        // SAFETY: `control` has room for a header and DESCRIPTORS_MAX descriptors, and there are no more; it is aligned for the header.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const msg);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(bytes) as _;
            let data = libc::CMSG_DATA(header).cast::<libc::c_int>();
            for (i, fd) in descriptors.iter().enumerate() {
                data.add(i).write_unaligned(*fd);
            }
        }
    }
    // SAFETY: the kernel only reads what the slices and `control` hold, and only during the call.
    let n = unsafe { libc::sendmsg(fd, &raw const msg, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    if n < 0 { Err(errno()) } else { Ok(n as usize) }
}

/// Makes a descriptor non-blocking, for all who have it.
pub(super) fn set_nonblocking(fd: &OwnedFd) -> Result<(), i32> {
    // SAFETY: plain system calls.
    unsafe {
        let flags = libc::fcntl(fd.as_raw_fd(), libc::F_GETFL);
        done(flags)?;
        done(libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK))
    }
}

/// Takes the count of an eventfd. `EAGAIN` when it is 0, even if somebody else has made the descriptor blocking.
pub(super) fn take_count(fd: &OwnedFd) -> Result<u64, i32> {
    let mut count = 0u64;
    let iovec = libc::iovec { iov_base: (&raw mut count).cast(), iov_len: size_of::<u64>() };
    // SAFETY: the kernel writes at most eight bytes to `count`, during the call. Offset -1: no position.
    let n = unsafe { libc::preadv2(fd.as_raw_fd(), &raw const iovec, 1, -1, libc::RWF_NOWAIT) };
    if n < 0 {
        return Err(errno());
    }
    if n as usize == size_of::<u64>() { Ok(count) } else { Err(libc::EIO) }
}
