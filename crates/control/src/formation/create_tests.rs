use super::*;

#[test]
fn an_address_with_a_port_has_the_two_after_it_for_etcd() {
    let ip = etcd::fixture::own_address();
    let port = etcd::fixture::free_port(ip);
    let all = Addresses::of(&format!("{ip}:{port}")).unwrap();
    assert_eq!((all.cluster.port(), all.client.port(), all.peer.port()), (port, port + 1, port + 2));
    assert_eq!(all.names(), ["127.0.0.1".parse::<IpAddr>().unwrap(), ip]);
    let chosen = Addresses::of(&format!("{ip}:0")).unwrap();
    assert!(chosen.cluster.port() > 0 && chosen.client != chosen.peer && chosen.cluster != chosen.peer);
}

#[test]
fn an_address_that_is_none_or_is_taken_is_refused() {
    let ip = etcd::fixture::own_address();
    let listener = TcpListener::bind((ip, 0)).unwrap();
    let taken = listener.local_addr().unwrap();
    for (text, code) in [
        ("here".to_owned(), crate::Code::Invalid),
        ("0.0.0.0".into(), crate::Code::Invalid),
        ("224.0.0.1:7420".into(), crate::Code::Invalid),
        (format!("{ip}:65534"), crate::Code::Invalid),
        (taken.to_string(), crate::Code::Unavailable),
        ("192.0.2.77:7420".into(), crate::Code::Invalid),
    ] {
        let refused = Addresses::of(&text).unwrap_err();
        assert!(refused.code == code, "{text}: {refused:?}");
    }
}
