use super::*;

fn node(n: u8) -> NodeId {
    NodeId::from_bytes([n; 16])
}

fn secret() -> ClusterSecret {
    ClusterSecret::new(SecretBytes::new((0..32).collect())).unwrap()
}

fn identity(hash: Hash) -> PairIdentity {
    PairIdentity::new(hash, ClusterId::from_bytes([0x11; 16]), node(0x33), node(0x22)).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02X}")).collect()
}

/// Made with OpenSSL's command line: `openssl kdf -keylen 32 -kdfopt digest:SHA256 -kdfopt hexkey:0001..1F -kdfopt hexinfo:INFO HKDF`, where INFO is
/// the label, a zero byte, 16 bytes 11h, 16 bytes 22h, 16 bytes 33h; and the same with `-keylen 48 -kdfopt digest:SHA384`.
#[test]
fn keys_are_those_that_another_program_derives() {
    for (hash, key) in [
        (Hash::Sha256, "9C99C11FE704D5376E0BD7E8595B0F3C65A19570E2A8617032DEEC128672DEB9"),
        (Hash::Sha384, "689A3C6C090C6737DA32EA7D931BA82FC66C5747199EC4B646556E3053228DEDC1385C0A536AD94B3B1CF2347AAD300B"),
    ] {
        let psk = identity(hash).key(&secret()).unwrap();
        assert_eq!((psk.hash, hex(&psk.key)), (hash, key.to_owned()));
    }
}

#[test]
fn both_nodes_have_the_same_key_and_nobody_else_has_it() {
    let key = |hash, cluster, a, b| {
        let pair = PairIdentity::new(hash, ClusterId::from_bytes([cluster; 16]), node(a), node(b)).unwrap();
        hex(&pair.key(&secret()).unwrap().key)
    };
    let ours = key(Hash::Sha256, 1, 2, 3);
    assert_eq!(ours, key(Hash::Sha256, 1, 3, 2));
    for other in [key(Hash::Sha256, 9, 2, 3), key(Hash::Sha256, 1, 2, 4), key(Hash::Sha256, 1, 4, 3), key(Hash::Sha384, 1, 2, 3)] {
        assert!(!other.starts_with(&ours[..16]), "{other}");
    }
    let mut another = secret();
    another.0[31] ^= 1;
    assert_ne!(hex(&identity(Hash::Sha256).key(&another).unwrap().key), hex(&identity(Hash::Sha256).key(&secret()).unwrap().key));
}

#[test]
fn an_identity_has_one_form() {
    for hash in [Hash::Sha256, Hash::Sha384] {
        let text = identity(hash).to_string();
        assert_eq!((text.len(), PairIdentity::parse(text.as_bytes())), (PAIR_IDENTITY_BYTES, Some(identity(hash))));
        assert_eq!(PairIdentity::parse(text.to_uppercase().as_bytes()), None);
        assert_eq!(PairIdentity::parse(format!("{text} ").as_bytes()), None);
    }
    let text = identity(Hash::Sha256).to_string();
    let words: Vec<&str> = text.split(' ').collect();
    assert_eq!(words, ["BasaltPeer1R01", "11111111-1111-1111-1111-111111111111", &node(0x22).to_string(), &node(0x33).to_string()]);
    let of = |words: [&str; 4]| PairIdentity::parse(words.join(" ").as_bytes());
    assert_eq!(of([words[0], words[1], words[3], words[2]]), None, "the lower node comes first");
    assert_eq!(of([words[0], words[1], words[2], words[2]]), None, "one node is no pair");
    assert_eq!(of(["BasaltPeer1R03", words[1], words[2], words[3]]), None);
}

#[test]
fn what_makes_no_key_says_why() {
    assert!(matches!(ClusterSecret::new(SecretBytes::zeroed(31)), Err(PairError::Length(31))));
    assert!(matches!(PairIdentity::new(Hash::Sha256, ClusterId::from_bytes([1; 16]), node(1), node(1)), Err(PairError::OneNode)));
    let pair = identity(Hash::Sha256);
    assert_eq!([0x22, 0x33, 0x44].map(|n| pair.peer_of(node(n))), [Some(node(0x33)), Some(node(0x22)), None]);
}
