//! Telling the service manager how things are: the protocol of sd_notify(3), a datagram to the socket in NOTIFY_SOCKET.

use std::os::{
    linux::net::SocketAddrExt,
    unix::{
        ffi::OsStrExt,
        net::{SocketAddr, UnixDatagram},
    },
};

/// Sends a state such as `READY=1`. Without a service manager nothing happens.
pub fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&path),
    };
    let sent = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = sent {
        tracing::warn!(%error, "the service manager could not be informed");
    }
}
