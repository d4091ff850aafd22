use super::*;
use crate::identity::PskIdentity;
use proptest::prelude::*;

/// Key, interchange format: from libnvme's tests (test/psk.c), values only.
const KEY: [u8; 32] = [
    0x55, 0x12, 0xDB, 0xB6, 0x73, 0x7D, 0x01, 0x06, 0xF6, 0x59, 0x75, 0xB7, 0x73, 0xDF, 0xB0, 0x11, 0xFF, 0xC3, 0x44, 0xBC, 0xF4, 0x42,
    0xE2, 0xDD, 0x6D, 0x8B, 0xC4, 0x87, 0x0B, 0x5D, 0x5B, 0x03,
];
const TEXT_PLAIN: &str = "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
const TEXT_256: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
const TEXT_384: &str = "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:";
const HOST: &str = "nqn.psk-test-host";
const SUBSYSTEM: &str = "nqn.psk-test-subsys";

#[test]
fn the_interchange_format_is_read_and_written() {
    let long: Vec<u8> = [&KEY[..], &KEY[16..]].concat();
    for (text, hash, key) in
        [(TEXT_PLAIN, None, &KEY[..]), (TEXT_256, Some(Hash::Sha256), &KEY[..]), (TEXT_384, Some(Hash::Sha384), &long[..])]
    {
        let psk = ConfiguredPsk::parse(&format!("{text}\n")).unwrap();
        assert_eq!((psk.hash, &*psk.key), (hash, key));
        assert_eq!(&*psk.to_interchange(), text.as_bytes());
    }
}

#[test]
fn a_text_that_is_no_key_says_what_is_wrong() {
    let err = |t: &str| ConfiguredPsk::parse(t).unwrap_err();
    assert!(matches!(err(""), PskError::Format));
    assert!(matches!(err("DHHC-1:00:VRLb:"), PskError::Format));
    assert!(matches!(err(&TEXT_256.replace("01:", "03:")), PskError::Hash));
    assert!(matches!(err(TEXT_256.trim_end_matches(':')), PskError::Format));
    assert!(matches!(err(&TEXT_256.replace("VRLb", "VRLc")), PskError::Checksum));
    assert!(matches!(err("NVMeTLSkey-1:01:AAAAAAAAAAAAAAAA:"), PskError::Length(8)));
    assert!(matches!(err("NVMeTLSkey-1:01:****:"), PskError::Format));
    assert!(matches!(err(&"x".repeat(1000)), PskError::Format));
}

#[test]
fn nothing_that_is_shown_holds_the_key() {
    let psk = ConfiguredPsk::parse(TEXT_256).unwrap();
    let tls = psk.key_for(&psk.identity(HOST, SUBSYSTEM, Derivation::Standard).unwrap(), Derivation::Standard).unwrap();
    for shown in [format!("{psk:?}"), format!("{tls:?}"), format!("{:?}", psk.to_interchange())] {
        assert!(shown.contains("not shown") && !shown.contains("85, 18") && !shown.contains("VRLb"), "{shown}");
    }
}

/// Identities of libnvme 1.15 and later, and of earlier ones (test/psk.c): their digests go through both derivations of the retained PSK.
#[test]
fn identities_are_those_of_libnvme_new_and_old() {
    let identity = |text, how| ConfiguredPsk::parse(text).unwrap().identity(HOST, SUBSYSTEM, how).unwrap().to_string();
    let head = |v| format!("NVMe1R{v} {HOST} {SUBSYSTEM} ");
    assert_eq!(identity(TEXT_256, Derivation::Standard), head("01") + "iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA+X5lEU=");
    assert_eq!(identity(TEXT_384, Derivation::Standard), head("02") + "QhW2+Rp6RzHlNtCslyRxMnwJ11tKKhz8JCAQpQ+XUD8f9td1VeH5h53yz2wKJG1a");
    assert_eq!(identity(TEXT_256, Derivation::Libnvme), head("01") + "66GuqV08TsAGII39teWUfwQwizjv06Jy8jOcX3NAAzM=");
    assert_eq!(identity(TEXT_384, Derivation::Libnvme), head("02") + "RsKmYJ3nAn1ApjjMloJFbAkLPivONDAX/xW327YBUsn2eGShXSjCZvBaOxscLqmz");
}

fn unhex(text: &str) -> Vec<u8> {
    text.as_bytes().chunks(2).map(|c| u8::from_str_radix(std::str::from_utf8(c).unwrap(), 16).unwrap()).collect()
}

/// Digest and TLS PSK as Linux derives them from a retained PSK (drivers/nvme/common/tests/auth_kunit.c), values only.
#[test]
fn tls_keys_are_those_of_linux() {
    let cases = [
        (
            Hash::Sha256,
            "1733c59fa7f48fcf37f5f26fc4ff0268ad4f78e030f4f3b0bfd1d47e7bb1447a",
            "OldoKuTfKddMuyCznAZojkWD7P4D9/AtzDzLimtOxqI=",
            "3c17da628474a04d2247c4cab47968c915388193f7c071bd9489cc3666cd7cc8",
        ),
        (
            Hash::Sha384,
            "f14b2dd3234c459694d3bc63f8968bd6b37c2c6de849e22e118749001ce4bbe8640b9e3a748cb11ce4b1d71d359cce39",
            "cffMWk8TSS7HOQebjgYEIkrPrjWPV4JE5cdPB8WhEvY4JBW5YynKyv66XscN4A9n",
            "277475323353 7b3fa50eb7d16a8e43457d85f4906c005b2236616c5d80939d0898fff15bb8b77119d2be0aac423e7590",
        ),
    ];
    for (hash, retained, digest, tls) in cases {
        let psk = ConfiguredPsk { hash: None, key: SecretBytes::new(unhex(retained)) };
        let identity = psk.identity("hostnqn", "subsysnqn", Derivation::Standard).unwrap();
        assert_eq!((identity.hash, identity.digest.as_deref()), (hash, Some(digest)));
        let key = psk.key_for(&identity, Derivation::Standard).unwrap().unwrap();
        assert_eq!(&*key.key, unhex(&tls.replace(' ', "")));
    }
}

#[test]
fn an_identity_with_a_digest_names_its_key_and_derivation() {
    let (mine, other) = (ConfiguredPsk::parse(TEXT_256).unwrap(), ConfiguredPsk::generate(Hash::Sha256).unwrap());
    for how in Derivation::ALL {
        let identity = mine.identity(HOST, SUBSYSTEM, how).unwrap();
        assert_eq!(mine.keys_for(&identity).unwrap(), [mine.key_for(&identity, how).unwrap().unwrap()]);
        assert_eq!(other.keys_for(&identity).unwrap(), []);
        assert_eq!(mine.keys_for(&HostIdentity { host_nqn: "nqn.other".into(), ..identity }).unwrap(), []);
    }
    let anonymous = HostIdentity { digest: None, ..mine.identity(HOST, SUBSYSTEM, Derivation::Standard).unwrap() };
    assert_eq!(mine.keys_for(&anonymous).unwrap().len(), 3, "without a digest it may be any");
    let long = HostIdentity { host_nqn: "h".repeat(223), subsystem_nqn: "s".repeat(223), ..anonymous };
    assert_eq!(mine.keys_for(&long).unwrap().len(), 2, "the standard has no key for an identity above 255 bytes");
}

#[test]
fn identities_are_read_as_they_are_written() {
    for text in ["NVMe0R01 a b", "NVMe0R02 a b", "NVMe1R01 a b ZGln", "NVMe1R02 a b ZGln"] {
        assert_eq!(HostIdentity::parse(text.as_bytes()).unwrap().to_string(), text);
    }
    let long = format!("NVMe0R01 {} b", "a".repeat(224));
    for text in ["", "NVMe0R01", "NVMe0R01 a", "NVMe0R01 a b c", "NVMe1R01 a b", "NVMe1R01 a b c d", "NVMe0R03 a b", "NVMe2R01 a b c"] {
        assert_eq!(HostIdentity::parse(text.as_bytes()), None, "{text}");
    }
    for text in [long.as_str(), "NVMe0R01  b", "NVMe0R01 a ", "NVMe0R01 a\0 b"] {
        assert_eq!(HostIdentity::parse(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn crc32_is_the_one_of_everybody() {
    assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,140}", tail in "[A-Za-z0-9+/=:]{0,100}") {
        let _ = ConfiguredPsk::parse(&text);
        let _ = ConfiguredPsk::parse(&format!("NVMeTLSkey-1:01:{tail}"));
        let _ = HostIdentity::parse(text.as_bytes());
    }
}
