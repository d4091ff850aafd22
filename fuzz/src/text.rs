//! What people write: secrets, keys, sizes, the configuration file.

use crate::input::{Choices, mode};
use auth::Secret;
use base::{ByteSize, VolumeId};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use cluster::check_name;
use control::config::{Config, ConfigError, Listen};
use format::token::{JoinToken, TOKEN_ADDRESSES_MAX, TOKEN_CHARS_MAX, TOKEN_PREFIX, TOKEN_SECRET_BYTES};
use std::str::from_utf8;
use tls::{ConfiguredPsk, HostIdentity, IDENTITY_BYTES_MAX, PskIdentity};

/// A DH-HMAC-CHAP secret: what is accepted is what would be written.
pub fn auth_secret(data: &[u8]) {
    let Ok(text) = from_utf8(data) else { return };
    let Ok(secret) = Secret::parse(text) else { return };
    assert_eq!(*secret.expose(), text.trim(), "a secret has one form");
    let body = text.trim().split(':').nth(2).unwrap_or_default();
    assert!(body.len() >= 48 && !format!("{secret:?}").contains(&body[..8]), "a secret is not shown");
    assert!(secret.key_for("nqn.2014-08.org.nvmexpress:uuid:1").is_ok());
}

/// A TLS PSK in the interchange format: what is accepted is what would be written.
pub fn tls_psk(data: &[u8]) {
    let Ok(text) = from_utf8(data) else { return };
    let Ok(psk) = ConfiguredPsk::parse(text) else { return };
    assert_eq!(psk.to_interchange()[..], *text.trim().as_bytes(), "a key has one form");
    assert_eq!(psk.hash().bytes().max(32), psk.hash().bytes());
}

/// A PSK identity, and the keys that it may mean.
pub fn tls_identity(data: &[u8]) {
    let Some(identity) = HostIdentity::parse(data) else { return };
    assert!(data.len() <= IDENTITY_BYTES_MAX);
    assert_eq!(identity.to_string().as_bytes(), data, "an identity has one form");
    let psk = ConfiguredPsk::parse(PSK).expect("a key");
    let keys = psk.keys_for(&identity).expect("the library works");
    // An identity of version 0 is of any key; one of version 1 of the key whose digest it carries.
    assert!(keys.len() <= 3 && keys.iter().all(|k| k.hash == identity.hash));
    assert!(identity.digest.is_some() || !keys.is_empty());
    let mine = psk.identity(&identity.host_nqn, &identity.subsystem_nqn, tls::Derivation::Standard).expect("the library works");
    assert_eq!(psk.keys_for(&mine).map(|k| k.is_empty()).ok(), Some(false));
}

/// A join token. Mode 0: a text; otherwise the bytes that one is made of, to which their checksum is put.
pub fn join_token(data: &[u8]) {
    let (how, rest) = mode(data);
    let made = [rest, &base::crc32c(rest).to_le_bytes()].concat();
    let made = format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(made));
    let text = if how == 0 { from_utf8(rest) } else { Ok(&made[..]) };
    let Ok(text) = text else { return };
    let token = match JoinToken::parse(text) {
        Ok(token) => token,
        Err(refused) => return assert!(!refused.to_string().is_empty()),
    };
    assert!((1..=TOKEN_ADDRESSES_MAX).contains(&token.addresses.len()) && token.secret.len() == TOKEN_SECRET_BYTES);
    assert!(text.trim().len() <= TOKEN_CHARS_MAX);
    let again = token.build();
    assert_eq!(again.expose(), text.trim(), "a token has one form");
    assert!(JoinToken::parse(&format!(" {}\n", again.expose())).as_ref() == Ok(&token), "space around it does not matter");
    let shown = format!("{token:?}{again:?}");
    assert!(!shown.contains(&again.expose()[TOKEN_PREFIX.len()..]), "a token is not shown");
    // One character that is wrong is noticed.
    let mut wrong = again.expose().as_bytes().to_vec();
    let at = TOKEN_PREFIX.len() + usize::from(how) % (wrong.len() - TOKEN_PREFIX.len());
    wrong[at] = if wrong[at] == b'A' { b'B' } else { b'A' };
    assert!(from_utf8(&wrong).is_ok_and(|wrong| JoinToken::parse(wrong).is_err()));
}

/// A key: 32 bytes of 0x11.
pub(crate) const PSK: &str = "NVMeTLSkey-1:01:ERERERERERERERERERERERERERERERERERERERERERHYIEm8:";

/// Sizes, names and identifiers.
pub fn size(data: &[u8]) {
    let Ok(text) = from_utf8(data) else { return };
    if let Ok(size) = text.parse::<ByteSize>() {
        let again: ByteSize = size.to_string().parse().unwrap_or_else(|e| panic!("what is printed is read: {e}"));
        // Printed with two decimals.
        assert!(size.0.abs_diff(again.0) <= size.0 / 200 + 1, "{} and {}", size.0, again.0);
        assert!(!size.0.is_power_of_two() || size == again);
    }
    if let Ok(id) = text.parse::<VolumeId>() {
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!(check_name(text).is_err() || text.len() > 63, "a name is never an id");
    }
    if check_name(text).is_ok() {
        assert!((1..=63).contains(&text.len()) && text.is_ascii());
    }
}

/// A key of the configuration, with values and whether each is good.
type Key = (&'static str, &'static [(&'static str, bool)]);

/// The keys of each section. Those whose values must fit each other stand together on one line.
const SECTIONS: &[(&str, &[Key])] = &[
    ("[node]", &[("name", NAMES), ("fault_domain", NAMES)]),
    (
        "[cores]",
        &[
            ("count", &[("1", true), ("64", true), ("0", false), ("65", false), ("-1", false), ("9223372036854775807", false)]),
            ("pin", BOOLS),
        ],
    ),
    (
        "[api]",
        &[
            ("socket", &[("\"/run/x.sock\"", true), ("\"\"", false), ("[]", false)]),
            ("socket_mode", &[("\"0600\"", true), ("\"0660\"", true), ("\"0777\"", false), ("0o600", false)]),
            (
                "listen",
                &[
                    ("\"[::1]:1\"\ntoken_file = \"t\"", true),
                    ("\"[::1]:1\"", false),
                    ("\"1.2.3.4\"", false),
                    ("\"x:1\"\ntoken_file = \"t\"", false),
                ],
            ),
        ],
    ),
    ("[log]", &[("format", &[("\"text\"", true), ("\"json\"", true), ("\"xml\"", false)]), ("level", LEVELS)]),
    (
        "[store]",
        &[(
            "destage_low_percent",
            &[
                ("1\ndestage_high_percent = 2", true),
                ("98\ndestage_high_percent = 99", true),
                ("50\ndestage_high_percent = 50", false),
                ("99\ndestage_high_percent = 100", false),
                ("0", false),
                ("-1", false),
                ("256", false),
                ("1.5", false),
            ],
        )],
    ),
    (
        "[target]",
        &[
            (
                "controller_ids",
                &[
                    ("\"1-65519\"", true),
                    ("\"1-65520\"", false),
                    ("\"9-1\"", false),
                    ("\"0-200\"", false),
                    ("\"1-2-3\"", false),
                    ("\"\"", false),
                ],
            ),
            ("host_connections_max", LIMITS),
            ("host_memory_mib", MEBIBYTES),
            ("memory_mib", MEBIBYTES),
            ("address_handshakes_max", LIMITS),
        ],
    ),
    (
        "[[listeners]]",
        &[
            (
                "addr",
                &[
                    ("\"127.0.0.1:0\"", true),
                    ("\"::\"", true),
                    ("\"[::1]:65535\"", true),
                    ("\"[::]:65536\"", false),
                    ("\"host:1\"", false),
                    ("4420", false),
                ],
            ),
            ("kind", &[("\"io\"", true), ("\"discovery\"", true), ("\"iscsi\"", false)]),
            ("advertise", &[("\"1.2.3.4:1\"", true), ("\"1.2.3.4\"", false)]),
            ("security", &[("\"plain\"", true), ("\"encrypted\"", true), ("\"none\"", false)]),
        ],
    ),
    (
        "[[referrals]]",
        &[
            ("addr", &[("\"1.2.3.4\"", true), ("\"[::]:1\"", true), ("\"\"", false)]),
            ("nqn", &[("\"nqn.2026-11.x:y\"", true), ("\"iqn.x\"", false), ("\"\"", false)]),
        ],
    ),
    ("[unheard_of]", &[("x", &[("1", false)])]),
];
const NAMES: &[(&str, bool)] =
    &[("\"a\"", true), ("\"h-1.x_y\"", true), ("\"\"", false), ("\"a b\"", false), ("\"\\u0000\"", false), ("7", false)];
const BOOLS: &[(&str, bool)] = &[("true", true), ("false", true), ("1", false), ("\"true\"", false)];
const LEVELS: &[(&str, bool)] =
    &[("\"info\"", true), ("\"off\"", true), ("\"info,store=debug\"", true), ("\"loud\"", false), ("\"=info\"", false), ("\"\"", false)];
const LIMITS: &[(&str, bool)] = &[("4", true), ("1048576", true), ("3", false), ("1048577", false), ("-9223372036854775808", false)];
const MEBIBYTES: &[(&str, bool)] = &[("1", true), ("1048576", true), ("0", false), ("1048577", false), ("4294967296", false)];

/// The configuration file, put together of keys that there are: it is refused exactly when something in it is wrong.
pub fn config_keys(data: &[u8]) {
    let mut c = Choices::new(data);
    let (mut text, mut good) = (String::from("data_dir = \"/x\"\n"), true);
    for (section, keys) in SECTIONS {
        if *section == "[unheard_of]" && !c.once_in(64) || !c.once_in(2) {
            continue;
        }
        text += &format!("{section}\n");
        for (key, values) in *keys {
            // The first key of an element of a list is needed.
            let needed = section.starts_with("[[") && *key == "addr";
            if !c.once_in(2) {
                good &= !needed;
                continue;
            }
            let fair: Vec<_> = values.iter().filter(|v| v.1).copied().collect();
            let (value, fine) = if c.once_in(8) || fair.is_empty() { c.of(values) } else { c.of(&fair) };
            text += &format!("{key} = {value}\n");
            good &= fine;
            if c.once_in(64) {
                text += &format!("{key} = {value}\n"); // a key twice
                good = false;
            }
        }
        good &= *section != "[unheard_of]";
    }
    let parsed = Config::parse(&text, "x");
    assert_eq!(parsed.is_ok(), good, "{text}\n{:?}", parsed.err());
    config(text.as_bytes());
}

/// The configuration file: it is refused with a place in it, or all that is made of it can be made.
pub fn config(data: &[u8]) {
    let Ok(text) = from_utf8(data) else { return };
    match Config::parse(text, "x") {
        Ok(c) => {
            let options = c.target_options(base::NodeSlot::FIRST);
            assert!(options.referrals.len() <= c.referrals.len() && !c.api_socket().as_os_str().is_empty());
            for l in &c.listeners {
                let addr = match l.spec() {
                    Listen::Nvme(spec) => spec.addr,
                    Listen::Iscsi(spec) => spec.addr,
                };
                assert_eq!(addr, l.address());
            }
            assert!(c.store.destage_low_percent < c.store.destage_high_percent);
            assert!(c.cores.count.is_none_or(|n| (1..=64).contains(&n)));
        }
        Err(ConfigError::At { line, column, message, .. }) => {
            assert!(line >= 1 && column >= 1 && !message.is_empty());
            assert!(line <= text.split('\n').count(), "line {line}");
            assert!(column <= text.split('\n').nth(line - 1).map_or(0, |l| l.chars().count()) + 1, "column {column}");
        }
        Err(ConfigError::Keys { key, message, .. }) => assert!(!key.is_empty() && !message.is_empty()),
        Err(e) => panic!("no file was read: {e}"),
    }
}
