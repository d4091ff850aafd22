//! What the `openssl` crate does not offer: external PSKs with any hash, by OpenSSL's session callbacks (SSL_CTX_set_psk_find_session_callback(3),
//! SSL_CTX_set_psk_use_session_callback(3)).
//!
//! Owns: all unsafe code of this crate.
//! Invariants: the callbacks read what [`install`] put into the connection and nothing else, and do not panic; a session that is handed to
//! OpenSSL is OpenSSL's to free.

use crate::psk::TlsPsk;
use foreign_types_shared::ForeignTypeRef;
use openssl::error::ErrorStack;
use openssl::ex_data::Index;
use openssl::ssl::{Ssl, SslContextBuilder, SslRef};
use openssl_sys::{EVP_MD, SSL, SSL_CIPHER, SSL_CTX, SSL_SESSION, SSL_SESSION_free};
use std::ffi::{c_int, c_uchar};
use std::ptr;
use std::sync::OnceLock;

type FindSession = unsafe extern "C" fn(*mut SSL, *const c_uchar, usize, *mut *mut SSL_SESSION) -> c_int;
type UseSession = unsafe extern "C" fn(*mut SSL, *const EVP_MD, *mut *const c_uchar, *mut usize, *mut *mut SSL_SESSION) -> c_int;

const TLS1_3: c_int = 0x0304;
/// The other end keeps its own keys for now.
const SSL_KEY_UPDATE_NOT_REQUESTED: c_int = 0;

// As in openssl/ssl.h of OpenSSL 3.
unsafe extern "C" {
    fn SSL_CTX_set_psk_find_session_callback(ctx: *mut SSL_CTX, callback: Option<FindSession>);
    fn SSL_CTX_set_psk_use_session_callback(ctx: *mut SSL_CTX, callback: Option<UseSession>);
    fn SSL_SESSION_new() -> *mut SSL_SESSION;
    fn SSL_SESSION_set1_master_key(session: *mut SSL_SESSION, key: *const c_uchar, len: usize) -> c_int;
    fn SSL_SESSION_set_cipher(session: *mut SSL_SESSION, cipher: *const SSL_CIPHER) -> c_int;
    fn SSL_SESSION_set_protocol_version(session: *mut SSL_SESSION, version: c_int) -> c_int;
    fn SSL_key_update(ssl: *mut SSL, updatetype: c_int) -> c_int;
    fn SSL_CIPHER_find(ssl: *mut SSL, number: *const c_uchar) -> *const SSL_CIPHER;
}

/// The one key of a connection.
struct Installed {
    identity: Vec<u8>,
    psk: TlsPsk,
}

fn index() -> Result<Index<Ssl, Installed>, ErrorStack> {
    static INDEX: OnceLock<Index<Ssl, Installed>> = OnceLock::new();
    match INDEX.get() {
        Some(index) => Ok(*index),
        // Two threads may both make one; the first stays, the other is never used.
        None => Ssl::new_ex_index().map(|made| *INDEX.get_or_init(|| made)),
    }
}

/// Makes connections of this context use their installed key: as a server for its identity, as a client always.
pub(crate) fn use_psks(ctx: &mut SslContextBuilder) {
    // SAFETY: the builder's pointer is valid while it lives; the callbacks have the types that OpenSSL documents and live for ever.
    unsafe {
        SSL_CTX_set_psk_find_session_callback(ctx.as_ptr(), Some(find));
        SSL_CTX_set_psk_use_session_callback(ctx.as_ptr(), Some(offer));
    }
}

/// Gives a connection its key.
pub(crate) fn install(ssl: &mut Ssl, identity: Vec<u8>, psk: TlsPsk) -> Result<(), ErrorStack> {
    ssl.set_ex_data(index()?, Installed { identity, psk });
    Ok(())
}

/// Encrypts with new keys from the next write on; a KeyUpdate goes before it.
pub(crate) fn update_key(ssl: &SslRef) -> Result<(), ErrorStack> {
    // SAFETY: the connection is live as long as the reference; OpenSSL notes it in the connection and keeps nothing else.
    match unsafe { SSL_key_update(ssl.as_ptr(), SSL_KEY_UPDATE_NOT_REQUESTED) } {
        1 => Ok(()),
        _ => Err(ErrorStack::get()),
    }
}

/// A session that holds the key, as OpenSSL wants external PSKs; null when it could not be made.
fn session(ssl: *mut SSL, psk: &TlsPsk) -> *mut SSL_SESSION {
    let suite = psk.hash.suite();
    // SAFETY: `ssl` is the connection that OpenSSL called back for; `suite` and the key outlive the calls, which copy them; a session that
    // could not be filled is freed here and nowhere else.
    unsafe {
        let cipher = SSL_CIPHER_find(ssl, suite.as_ptr());
        let session = SSL_SESSION_new();
        if session.is_null() {
            return session;
        }
        let filled = !cipher.is_null()
            && SSL_SESSION_set1_master_key(session, psk.key.as_ptr(), psk.key.len()) == 1
            && SSL_SESSION_set_cipher(session, cipher) == 1
            && SSL_SESSION_set_protocol_version(session, TLS1_3) == 1;
        if !filled {
            SSL_SESSION_free(session);
            return ptr::null_mut();
        }
        session
    }
}

/// What is installed in the connection that OpenSSL calls back for.
///
/// # Safety
/// `ssl` must be a live connection, and the reference must not be kept after the callback.
unsafe fn installed<'a>(ssl: *mut SSL) -> Option<&'a Installed> {
    let index = index().ok()?;
    // SAFETY: the caller says that it is live; only `install` writes at this index, before the handshake begins.
    unsafe { SslRef::from_ptr(ssl) }.ex_data(index)
}

/// The server's callback: the key of an identity. Success without a session when it is not the installed one.
unsafe extern "C" fn find(ssl: *mut SSL, identity: *const c_uchar, len: usize, out: *mut *mut SSL_SESSION) -> c_int {
    // SAFETY: OpenSSL calls with a live connection, `len` readable bytes at `identity` and room for a pointer at `out`.
    unsafe {
        *out = ptr::null_mut();
        if identity.is_null() {
            return 1;
        }
        let asked = std::slice::from_raw_parts(identity, len);
        if let Some(mine) = installed(ssl).filter(|i| i.identity == asked) {
            *out = session(ssl, &mine.psk);
            return c_int::from(!(*out).is_null());
        }
        1
    }
}

/// The client's callback: the installed key. OpenSSL leaves it out by itself when the server's cipher suite has another hash.
unsafe extern "C" fn offer(
    ssl: *mut SSL,
    _md: *const EVP_MD,
    identity: *mut *const c_uchar,
    len: *mut usize,
    out: *mut *mut SSL_SESSION,
) -> c_int {
    // SAFETY: OpenSSL calls with a live connection and room behind each pointer; the identity stays where it is as long as the connection.
    unsafe {
        *out = ptr::null_mut();
        if let Some(mine) = installed(ssl) {
            *identity = mine.identity.as_ptr();
            *len = mine.identity.len();
            *out = session(ssl, &mine.psk);
            return c_int::from(!(*out).is_null());
        }
        1
    }
}
