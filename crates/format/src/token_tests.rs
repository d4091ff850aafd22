use super::*;
use proptest::prelude::*;

fn token() -> JoinToken {
    JoinToken {
        role: NodeRole::Data,
        cluster: ClusterId::from_bytes([1; 16]),
        secret: SecretBytes::new(vec![2; 32]),
        fingerprint: [3; 32],
        expires_unix_s: 1_800_000_000,
        addresses: vec!["192.0.2.1:4460".parse().unwrap(), "[2001:db8::1]:4461".parse().unwrap()],
    }
}

fn tokens() -> impl Strategy<Value = JoinToken> {
    let addresses = prop::collection::vec(any::<(IpAddr, u16)>().prop_map(SocketAddr::from), 1..=TOKEN_ADDRESSES_MAX);
    (any::<bool>(), any::<([u8; 16], [u8; 32], [u8; 32], u64)>(), addresses).prop_map(
        |(node, (cluster, secret, fingerprint, expires_unix_s), addresses)| JoinToken {
            role: if node { NodeRole::Data } else { NodeRole::Witness },
            cluster: ClusterId::from_bytes(cluster),
            secret: SecretBytes::new(secret.to_vec()),
            fingerprint,
            expires_unix_s,
            addresses,
        },
    )
}

#[test]
fn its_bytes_are_where_the_table_says() {
    let text = token().build();
    let bytes = URL_SAFE_NO_PAD.decode(text.expose().strip_prefix("basalt-join-1.").unwrap()).unwrap();
    assert_eq!((bytes[0], bytes[1]), (1, 2));
    assert_eq!(bytes[2..10], [0; 8]);
    assert_eq!(bytes[10..26], [1; 16]);
    assert_eq!(bytes[26..58], [2; 32]);
    assert_eq!(bytes[58..90], [3; 32]);
    assert_eq!(bytes[90..98], 1_800_000_000u64.to_le_bytes());
    assert_eq!(bytes[98..105], [4, 192, 0, 2, 1, 0x6C, 0x11]);
    assert_eq!(bytes.len(), 98 + 7 + 19 + 4);
}

#[test]
fn a_text_that_is_no_token_says_why() {
    let text = token().build();
    let text = text.expose();
    assert_eq!(JoinToken::parse(&format!("  {text}\n")), Ok(token()), "space around it");
    assert_eq!(JoinToken::parse(""), Err(TokenError::NotAToken));
    assert_eq!(JoinToken::parse("basalt-join-x."), Err(TokenError::NotAToken));
    assert_eq!(JoinToken::parse(&text.replace("join-1", "join-2")), Err(TokenError::OtherVersion));
    assert_eq!(JoinToken::parse(&text[..text.len() - 4]), Err(TokenError::Damaged));
    assert_eq!(JoinToken::parse(&format!("{text}AAAA")), Err(TokenError::Damaged));
    assert_eq!(JoinToken::parse(&format!("{TOKEN_PREFIX}{}", "A".repeat(100_000))), Err(TokenError::Damaged));
    assert_eq!(JoinToken::parse(TOKEN_PREFIX), Err(TokenError::Damaged));
}

#[test]
fn reserved_bytes_and_counts_are_checked() {
    let text = token().build();
    let good = URL_SAFE_NO_PAD.decode(&text.expose()[TOKEN_PREFIX.len()..]).unwrap();
    for (at, value) in [(0, 0), (0, 3), (1, 0), (1, 1), (1, 3), (1, 9), (2, 1), (9, 1), (98, 5)] {
        let mut bytes = good[..good.len() - CRC_BYTES].to_vec();
        bytes[at] = value;
        bytes.extend(crc32c(&bytes).to_le_bytes());
        let text = format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(&bytes));
        assert_eq!(JoinToken::parse(&text), Err(TokenError::Damaged), "byte {at} is {value}");
    }
}

#[test]
fn its_secret_is_not_shown() {
    let shown = format!("{:?} {:?}", token(), token().build());
    assert!(!shown.contains("AgIC") && !shown.contains("2, 2"), "{shown}");
}

proptest! {
    #[test]
    fn what_is_built_is_read(token in tokens()) {
        let text = token.build();
        prop_assert!(text.expose().len() <= TOKEN_CHARS_MAX);
        prop_assert_eq!(JoinToken::parse(text.expose()), Ok(token));
    }

    #[test]
    fn a_wrong_character_is_noticed(token in tokens(), at: prop::sample::Index, by in 1u8..64) {
        let text = token.build();
        let mut text = text.expose().as_bytes().to_vec();
        let at = TOKEN_PREFIX.len() + at.index(text.len() - TOKEN_PREFIX.len());
        const CHARS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let was = CHARS.iter().position(|c| *c == text[at]).expect("a character of base64url");
        text[at] = CHARS[(was + usize::from(by)) % 64];
        prop_assert_eq!(JoinToken::parse(std::str::from_utf8(&text).unwrap()), Err(TokenError::Damaged));
    }
}
