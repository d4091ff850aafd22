use super::*;

#[test]
fn an_address_has_a_host_a_name_and_options() {
    let a = Address::parse("nvme-tcp://127.0.0.1:14420/nqn.2026-11.io.basalt:default?nsid=3&digests=both&hostnqn=nqn.x").unwrap();
    let o = a.options().unwrap();
    assert_eq!((a.nsid, o.addr.to_string().as_str(), o.subnqn.as_str()), (3, "127.0.0.1:14420", "nqn.2026-11.io.basalt:default"));
    assert!(o.digests.header && o.digests.data && o.host.nqn == "nqn.x");
    let plain = Address::parse("nvme-tcp://10.0.0.1/nqn.a").unwrap();
    assert_eq!((plain.nsid, plain.options().unwrap().addr.port()), (1, 4420));
}

#[test]
fn what_is_no_address_is_refused_with_the_reason() {
    for (text, says) in [
        ("nvme-tcp://", "HOST:PORT"),
        ("nvme-tcp://h/x", "HOST:PORT"),
        ("nvme-tcp://h/nqn.a?nsid=0", "from 1"),
        ("nvme-tcp://h/nqn.a?nsdi=1", "'nsdi' is not known"),
        ("nvme-tcp://h/nqn.a?digests=yes", "none, header"),
    ] {
        let e = Address::parse(text).unwrap_err().to_string();
        assert!(e.contains(says), "{text}: {e}");
    }
    let e = Address::parse("nvme-tcp://127.0.0.1/nqn.a?dhchap-secret-file=/no/such").unwrap().options().unwrap_err().to_string();
    assert!(e.contains("/no/such"), "{e}");
}
