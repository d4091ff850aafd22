use super::*;

#[test]
fn an_address_has_a_host_a_target_a_unit_and_options() {
    let a = Address::parse("iscsi://127.0.0.1:13260/iqn.2026-11.io.basalt:default/3?digests=both&host=iqn.2026-11.example:x").unwrap();
    let o = a.options().unwrap();
    assert_eq!((o.lun, o.addr.to_string().as_str(), o.login.target.as_str()), (3, "127.0.0.1:13260", "iqn.2026-11.io.basalt:default"));
    assert!(o.login.header_digest && o.login.data_digest && o.login.host == "iqn.2026-11.example:x" && o.login.chap.is_none());
    let plain = Address::parse("iscsi://10.0.0.1/iqn.2026-11.a/0").unwrap().options().unwrap();
    assert_eq!((plain.lun, plain.addr.port(), plain.login.host.as_str()), (0, 3260, HOST));
}

#[test]
fn secrets_come_from_files_without_the_end_of_their_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("secret");
    std::fs::write(&path, "secret-of-host-1\n").unwrap();
    let a = Address::parse(&format!("iscsi://127.0.0.1/iqn.2026-11.a/1?chap-user=u&chap-secret-file={}", path.display())).unwrap();
    let chap = a.options().unwrap().login.chap.unwrap();
    assert!(chap.user == "u" && chap.secret.is(b"secret-of-host-1") && chap.target_secret.is_none());
}

#[test]
fn what_is_no_address_is_refused_with_the_reason() {
    for (text, says) in [
        ("iscsi://", "HOST:PORT"),
        ("iscsi://h/iqn.a", "HOST:PORT"),
        ("iscsi://h/x/1", "HOST:PORT"),
        ("iscsi://h/iqn.2026-11.a/x", "HOST:PORT"),
        ("iscsi://h/iqn.2026-11.a/1?digest=both", "'digest' is not known"),
        ("iscsi://h/iqn.2026-11.a/1?digests=yes", "none, header"),
        ("iscsi://h/iqn.2026-11.a/1?host=me", "begins with iqn."),
        ("iscsi://h/iqn.2026-11.a/1?chap-user=me", "chap-secret-file"),
    ] {
        let e = Address::parse(text).unwrap_err().to_string();
        assert!(e.contains(says), "{text}: {e}");
    }
    let e = Address::parse("iscsi://127.0.0.1/iqn.2026-11.a/1?chap-secret-file=/no/such").unwrap().options().unwrap_err().to_string();
    assert!(e.contains("/no/such"), "{e}");
}
