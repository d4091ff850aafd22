//! Thin, safe wrappers of the system calls that sockets and sleeping need.
//!
//! Owns: nothing. Every function is one system call (or one per option), and returns `errno` on failure.
//! Never: retries except when interrupted, decides.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The errno of the last failed call.
fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

fn owned(fd: libc::c_int) -> Result<OwnedFd, i32> {
    if fd < 0 {
        return Err(errno());
    }
    // SAFETY: the caller passes the result of a call that makes a new descriptor, which nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn done(r: libc::c_int) -> Result<(), i32> {
    if r < 0 { Err(errno()) } else { Ok(()) }
}

/// An address as the kernel takes it.
pub(super) struct RawAddr {
    storage: libc::sockaddr_storage,
    len: libc::socklen_t,
}

impl RawAddr {
    fn empty() -> RawAddr {
        // SAFETY: all-zero bytes are a valid `sockaddr_storage`.
        RawAddr { storage: unsafe { zeroed() }, len: size_of::<libc::sockaddr_storage>() as libc::socklen_t }
    }

    fn from(addr: SocketAddr) -> RawAddr {
        let mut raw = RawAddr::empty();
        match addr {
            SocketAddr::V4(a) => {
                // SAFETY: `sockaddr_storage` is large and aligned enough for every address family.
                let sin = unsafe { &mut *(&raw mut raw.storage).cast::<libc::sockaddr_in>() };
                sin.sin_family = libc::AF_INET as libc::sa_family_t;
                sin.sin_port = a.port().to_be();
                sin.sin_addr.s_addr = u32::from_ne_bytes(a.ip().octets());
                raw.len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            }
            SocketAddr::V6(a) => {
                // SAFETY: as above.
                let sin = unsafe { &mut *(&raw mut raw.storage).cast::<libc::sockaddr_in6>() };
                sin.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                sin.sin6_port = a.port().to_be();
                sin.sin6_addr.s6_addr = a.ip().octets();
                sin.sin6_flowinfo = a.flowinfo();
                sin.sin6_scope_id = a.scope_id();
                raw.len = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
            }
        }
        raw
    }

    /// The address; an unknown family (which TCP sockets never have) is the unspecified one. IPv4 peers of a dual-stack listener come out
    /// as IPv4.
    fn to_addr(&self) -> SocketAddr {
        match libc::c_int::from(self.storage.ss_family) {
            libc::AF_INET => {
                // SAFETY: the family says that the kernel wrote a `sockaddr_in`.
                let sin = unsafe { &*(&raw const self.storage).cast::<libc::sockaddr_in>() };
                SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::from(sin.sin_addr.s_addr.to_ne_bytes()), u16::from_be(sin.sin_port)))
            }
            libc::AF_INET6 => {
                // SAFETY: the family says that the kernel wrote a `sockaddr_in6`.
                let sin = unsafe { &*(&raw const self.storage).cast::<libc::sockaddr_in6>() };
                let (ip, port) = (Ipv6Addr::from(sin.sin6_addr.s6_addr), u16::from_be(sin.sin6_port));
                match ip.to_ipv4_mapped() {
                    Some(v4) => SocketAddr::V4(SocketAddrV4::new(v4, port)),
                    None => SocketAddr::V6(SocketAddrV6::new(ip, port, sin.sin6_flowinfo, sin.sin6_scope_id)),
                }
            }
            _ => SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)),
        }
    }
}

/// A new non-blocking TCP socket for the family of `addr`.
pub(super) fn tcp_socket(addr: SocketAddr) -> Result<OwnedFd, i32> {
    let family = if addr.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: plain system call.
    owned(unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) })
}

/// Sets an integer option.
pub(super) fn set_option(fd: RawFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> Result<(), i32> {
    // SAFETY: the kernel reads one int through the pointer, which is valid for that.
    done(unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), size_of::<libc::c_int>() as libc::socklen_t) })
}

/// Reads an integer option.
pub(super) fn option(fd: RawFd, level: libc::c_int, name: libc::c_int) -> Result<libc::c_int, i32> {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes one int and its length through the pointers, which are valid for that.
    done(unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &mut len) })?;
    Ok(value)
}

/// The pending error of a socket, which this clears: how a connect ended.
pub(super) fn take_error(fd: RawFd) -> Result<(), i32> {
    match option(fd, libc::SOL_SOCKET, libc::SO_ERROR)? {
        0 => Ok(()),
        errno => Err(errno),
    }
}

pub(super) fn bind(fd: RawFd, addr: SocketAddr) -> Result<(), i32> {
    let raw = RawAddr::from(addr);
    // SAFETY: `raw` holds `len` valid bytes of address.
    done(unsafe { libc::bind(fd, (&raw const raw.storage).cast(), raw.len) })
}

pub(super) fn listen(fd: RawFd, backlog: libc::c_int) -> Result<(), i32> {
    // SAFETY: plain system call.
    done(unsafe { libc::listen(fd, backlog) })
}

/// Starts to connect; `EINPROGRESS` is not an error.
pub(super) fn connect(fd: RawFd, addr: SocketAddr) -> Result<(), i32> {
    let raw = RawAddr::from(addr);
    // SAFETY: `raw` holds `len` valid bytes of address.
    match done(unsafe { libc::connect(fd, (&raw const raw.storage).cast(), raw.len) }) {
        Err(libc::EINPROGRESS | libc::EINTR) => Ok(()),
        other => other,
    }
}

pub(super) fn local_addr(fd: RawFd) -> Result<SocketAddr, i32> {
    let mut raw = RawAddr::empty();
    // SAFETY: the kernel writes at most `len` bytes to `storage`, which has that size.
    done(unsafe { libc::getsockname(fd, (&raw mut raw.storage).cast(), &mut raw.len) })?;
    Ok(raw.to_addr())
}

/// The next connection of a listener, non-blocking.
pub(super) fn accept(fd: RawFd) -> Result<(OwnedFd, SocketAddr), i32> {
    let mut raw = RawAddr::empty();
    // SAFETY: the kernel writes at most `len` bytes to `storage`, which has that size.
    let conn = owned(unsafe { libc::accept4(fd, (&raw mut raw.storage).cast(), &mut raw.len, libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) })?;
    Ok((conn, raw.to_addr()))
}

/// Receives what is there into `to`; 0 says that the peer sends no more.
pub(super) fn recv(fd: RawFd, to: &mut [u8]) -> Result<usize, i32> {
    // SAFETY: the kernel writes at most `len` bytes to the slice during the call.
    let n = unsafe { libc::recv(fd, to.as_mut_ptr().cast(), to.len(), libc::MSG_DONTWAIT) };
    if n < 0 { Err(errno()) } else { Ok(n as usize) }
}

/// Sends as much as the socket takes of the memory in `iovecs`.
///
/// # Safety
/// Every vector must describe memory that is valid for reads during the call.
pub(super) unsafe fn send(fd: RawFd, iovecs: &[libc::iovec]) -> Result<usize, i32> {
    // SAFETY: all-zero bytes are a valid `msghdr`.
    let mut msg: libc::msghdr = unsafe { zeroed() };
    msg.msg_iov = iovecs.as_ptr().cast_mut();
    msg.msg_iovlen = iovecs.len() as _;
    // SAFETY: the caller vouches for the memory; the kernel only reads it, and only during the call.
    let n = unsafe { libc::sendmsg(fd, &msg, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    if n < 0 { Err(errno()) } else { Ok(n as usize) }
}

/// Says to the peer that nothing more is sent.
pub(super) fn shutdown_write(fd: RawFd) {
    // SAFETY: plain system call; a failure means that the connection is gone already.
    unsafe { libc::shutdown(fd, libc::SHUT_WR) };
}

pub(super) fn epoll() -> Result<OwnedFd, i32> {
    // SAFETY: plain system call.
    owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })
}

fn epoll_ctl(ep: &OwnedFd, op: libc::c_int, fd: RawFd, events: u32, token: u64) -> Result<(), i32> {
    let mut event = libc::epoll_event { events, u64: token };
    // SAFETY: the kernel reads one event through the pointer, which is valid for that.
    done(unsafe { libc::epoll_ctl(ep.as_raw_fd(), op, fd, &mut event) })
}

pub(super) fn epoll_add(ep: &OwnedFd, fd: RawFd, events: u32, token: u64) -> Result<(), i32> {
    epoll_ctl(ep, libc::EPOLL_CTL_ADD, fd, events, token)
}

pub(super) fn epoll_modify(ep: &OwnedFd, fd: RawFd, events: u32, token: u64) -> Result<(), i32> {
    epoll_ctl(ep, libc::EPOLL_CTL_MOD, fd, events, token)
}

pub(super) fn epoll_remove(ep: &OwnedFd, fd: RawFd) -> Result<(), i32> {
    epoll_ctl(ep, libc::EPOLL_CTL_DEL, fd, 0, 0)
}

/// What is ready now; never waits. Interruptions count as nothing.
pub(super) fn epoll_poll(ep: &OwnedFd, events: &mut [libc::epoll_event]) -> usize {
    // SAFETY: the kernel writes at most `len` events to the slice.
    let n = unsafe { libc::epoll_wait(ep.as_raw_fd(), events.as_mut_ptr(), events.len() as libc::c_int, 0) };
    n.max(0) as usize
}

pub(super) fn eventfd() -> Result<OwnedFd, i32> {
    // SAFETY: plain system call.
    owned(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })
}

/// Rings an eventfd.
pub(super) fn eventfd_ring(fd: &OwnedFd) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: the kernel reads eight bytes from the array. It fails only when the counter is full, and then the fd is readable anyway.
    unsafe { libc::write(fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
}

/// The monotonic clock, in nanoseconds.
#[inline]
pub(super) fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// The clock that goes on while the machine is suspended, in nanoseconds.
pub(super) fn boot_ns() -> u64 {
    clock_ns(libc::CLOCK_BOOTTIME)
}

#[inline]
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `timespec` through the pointer, which is valid for that. Linux has had both clocks since 2.6.39.
    unsafe { libc::clock_gettime(clock, &mut ts) };
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}

/// A number from the operating system's generator.
pub(super) fn random_seed() -> u64 {
    let mut bytes = [0u8; 8];
    random_fill(&mut bytes);
    u64::from_ne_bytes(bytes)
}

/// Bytes from the operating system's generator.
pub(super) fn random_fill(out: &mut [u8]) {
    // Reads of up to 256 bytes are never cut short once the generator is seeded (getrandom(2)).
    for part in out.chunks_mut(256) {
        // SAFETY: the kernel writes at most `part.len()` bytes to where `part` lies, which is ours to write.
        let n = unsafe { libc::getrandom(part.as_mut_ptr().cast(), part.len(), 0) };
        assert_eq!(n, part.len() as isize, "getrandom failed: {}", io::Error::last_os_error());
    }
}

/// Keeps the calling thread on processor `cpu`.
pub(super) fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: all-zero bytes are an empty `cpu_set_t`; `cpu` is within its size.
    let set = unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        libc::CPU_SET(cpu, &mut set);
        set
    };
    // SAFETY: the kernel reads one `cpu_set_t` through the pointer. Thread 0 is the caller.
    if unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The processors that the calling thread may use, lowest first; none where the kernel does not say.
pub fn allowed_processors() -> Vec<usize> {
    // SAFETY: all-zero bytes are an empty `cpu_set_t`.
    let mut set: libc::cpu_set_t = unsafe { zeroed() };
    // SAFETY: the kernel writes at most one `cpu_set_t` through the pointer. Thread 0 is the caller.
    if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) } != 0 {
        return Vec::new();
    }
    // SAFETY: each number is within the size of the set.
    (0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect()
}

/// Prepares a core's thread: signals go to the other threads of the process, and timers end on time rather than up to 50 us late.
pub(super) fn prepare_thread() {
    // SAFETY: plain calls on the calling thread; `set` is a valid, filled signal set.
    unsafe {
        let mut set: libc::sigset_t = zeroed();
        libc::sigfillset(&mut set);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        libc::prctl(libc::PR_SET_TIMERSLACK, 1000 as libc::c_ulong, 0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_way_to_the_kernel_and_back() {
        for text in ["127.0.0.1:4420", "[::1]:8009", "[fe80::1%3]:1", "255.254.253.252:65535"] {
            let addr: SocketAddr = text.parse().unwrap();
            assert_eq!(RawAddr::from(addr).to_addr(), addr);
        }
    }

    #[test]
    fn an_ipv4_peer_of_a_dual_stack_listener_is_an_ipv4_address() {
        assert_eq!(RawAddr::from("[::ffff:10.0.0.1]:7".parse().unwrap()).to_addr(), "10.0.0.1:7".parse().unwrap());
    }

    #[test]
    fn the_clock_that_counts_suspension_is_not_behind_the_other() {
        let monotonic = now_ns();
        let boot = boot_ns();
        assert!(boot >= monotonic && boot_ns() >= boot);
    }

    #[test]
    fn a_processor_that_does_not_exist_is_refused() {
        assert!(pin(1 << 20).is_err());
    }

    #[test]
    fn what_a_thread_may_use_is_what_it_was_bound_to() {
        std::thread::spawn(|| {
            let all = allowed_processors();
            let last = *all.last().unwrap();
            pin(last).unwrap();
            assert_eq!(allowed_processors(), [last]);
        })
        .join()
        .unwrap();
    }
}
