//! Where the API is served: a Unix socket, and TCP when configured.
//!
//! Invariants: the socket has its mode before anyone can connect; a socket that another daemon serves is never taken away.

use super::{
    audited::{Administrator, audited},
    auth::{self, Guard, Token},
    router::{BODY_BYTES_MAX, router},
};
use crate::engine::Control;
use std::{
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::{
    net::{TcpListener, UnixListener},
    sync::watch,
};

/// How long requests that are under way may take when the daemon ends.
const DRAIN: std::time::Duration = std::time::Duration::from_secs(5);
/// The longest path of a Unix socket, in bytes (`sockaddr_un`).
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Why the API cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another process serves this socket.
    #[error("the API socket {} is served by another daemon; stop that one, or set api.socket to another path", .0.display())]
    SocketInUse(PathBuf),
    /// Longer than the system can take.
    #[error("the path of the API socket has {} bytes, more than 107; set api.socket to a shorter one", .0.as_os_str().len())]
    SocketPath(PathBuf),
    /// The socket cannot be made.
    #[error("the API socket {} cannot be made: {cause}; make its directory writable, or set api.socket to another path", .path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// The listener for other nodes.
    #[error(transparent)]
    Cluster(Box<crate::formation::FormationError>),
    /// The address cannot be listened on.
    #[error("the API cannot listen on {addr}: {cause}; free the address, or set api.listen to another")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// Why.
        cause: std::io::Error,
    },
}

/// Makes the socket. It is made beside its place, given its mode, and then moved there.
pub fn bind_unix(path: &Path, mode: u32) -> Result<std::os::unix::net::UnixListener, ServeError> {
    let fail = |cause| ServeError::Socket { path: path.into(), cause };
    let beside = PathBuf::from(format!("{}.{}", path.display(), std::process::id()));
    if beside.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
        return Err(ServeError::SocketPath(path.into()));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => return Err(ServeError::SocketInUse(path.into())),
        Err(_) if path.exists() && !is_socket(path) => {
            return Err(fail(std::io::Error::other("something that is no socket is there")));
        }
        Err(_) => {}
    }
    let _ = std::fs::remove_file(&beside);
    let listener = std::os::unix::net::UnixListener::bind(&beside).map_err(fail)?;
    let moved = std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(mode)).and_then(|()| std::fs::rename(&beside, path));
    if let Err(cause) = moved {
        let _ = std::fs::remove_file(&beside);
        return Err(fail(cause));
    }
    listener.set_nonblocking(true).map_err(fail)?;
    Ok(listener)
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket())
}

/// A running API.
pub struct Served {
    /// The TCP address, if there is one.
    pub tcp: Option<SocketAddr>,
    stop: watch::Sender<bool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Served {
    /// Tasks that end when `stop` says so.
    pub(crate) fn new(tcp: SocketAddr, stop: watch::Sender<bool>, tasks: Vec<tokio::task::JoinHandle<()>>) -> Self {
        Self { tcp: Some(tcp), stop, tasks }
    }
    /// No new requests; waits a little for those under way.
    pub async fn stop(self) {
        let _ = self.stop.send(true);
        let until = tokio::time::Instant::now() + DRAIN;
        for task in self.tasks {
            let abort = task.abort_handle();
            if tokio::time::timeout_at(until, task).await.is_err() {
                abort.abort();
            }
        }
    }
}

/// Serves a router on the socket only.
pub(crate) fn serve_unix(router: axum::Router, unix: std::os::unix::net::UnixListener) -> Result<Served, ServeError> {
    let (stop, mut stopped) = watch::channel(false);
    let unix = UnixListener::from_std(unix).map_err(|cause| ServeError::Socket { path: PathBuf::new(), cause })?;
    let serving = axum::serve(unix, router).with_graceful_shutdown(async move { drop(stopped.wait_for(|s| *s).await) });
    Ok(Served { tcp: None, stop, tasks: vec![tokio::spawn(async move { drop(serving.await) })] })
}

/// Serves the API on the socket and, with a token, on TCP.
pub async fn serve(
    control: Arc<Control>,
    unix: std::os::unix::net::UnixListener,
    tcp: Option<(SocketAddr, Token)>,
) -> Result<Served, ServeError> {
    let (router, _) = router(control.clone());
    let router = router.layer(axum::middleware::from_fn_with_state((control.clone(), BODY_BYTES_MAX), audited));
    let (stop, stopped) = watch::channel(false);
    let until = |mut stopped: watch::Receiver<bool>| async move {
        let _ = stopped.wait_for(|s| *s).await;
    };
    let unix = UnixListener::from_std(unix).map_err(|cause| ServeError::Socket { path: PathBuf::new(), cause })?;
    let on_unix = axum::serve(unix, router.clone().into_make_service_with_connect_info::<Administrator>())
        .with_graceful_shutdown(until(stopped.clone()));
    let mut tasks = vec![tokio::spawn(async move { drop(on_unix.await) })];
    let mut bound = None;
    if let Some((addr, token)) = tcp {
        let fail = |cause| ServeError::Listen { addr, cause };
        let listener = TcpListener::bind(addr).await.map_err(fail)?;
        bound = Some(listener.local_addr().map_err(fail)?);
        let guarded = router.layer(axum::middleware::from_fn_with_state(Guard::new(token, control), auth::require));
        let on_tcp =
            axum::serve(listener, guarded.into_make_service_with_connect_info::<Administrator>()).with_graceful_shutdown(until(stopped));
        tasks.push(tokio::spawn(async move { drop(on_tcp.await) }));
    }
    Ok(Served { tcp: bound, stop, tasks })
}
