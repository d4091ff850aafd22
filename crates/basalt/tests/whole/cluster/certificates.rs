//! Certificates of nodes are renewed while everything goes on.

use super::*;
use authority::{Authority, Identity, UnixSeconds};
use etcd::fixture::now;
use openssl::ssl::{SslConnector, SslMethod, SslVerifyMode};
use openssl::x509::X509;

const YEAR_S: i64 = 365 * 24 * 3600;

impl Daemon {
    fn identity(&self) -> Identity {
        Identity::load(&self.path("data/cluster")).expect("its files")
    }
    /// The certificate that is shown there.
    fn shown(&self, at: SocketAddr) -> Vec<u8> {
        let mut builder = SslConnector::builder(SslMethod::tls_client()).expect("TLS");
        builder.set_verify(SslVerifyMode::NONE);
        let tcp = std::net::TcpStream::connect(at).expect("it listens");
        let stream = builder.build().configure().and_then(|c| c.verify_hostname(false).into_ssl("node")).expect("TLS").connect(tcp);
        let certificate = stream.expect("a handshake").ssl().peer_certificate().expect("one is shown");
        certificate.to_pem().expect("PEM")
    }
    fn file(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.path("data/cluster.json")).expect("its membership")).expect("JSON")
    }
    fn at_cluster(&self) -> SocketAddr {
        self.file()["address"].as_str().expect("text").parse().expect("an address")
    }
    fn at_etcd(&self) -> SocketAddr {
        self.file()["member"]["client"].as_str().expect("text").parse().expect("an address")
    }
    /// Gives it a certificate that was made a year and a half ago: a new one is due. It is stopped.
    fn age(&self, authority: &Authority) {
        let old = self.identity();
        let name = self.file()["node"].as_str().expect("text").to_owned();
        let aged = authority.renew(&old, &name, Vec::new(), UnixSeconds(now().0 - YEAR_S * 3 / 2)).expect("a certificate");
        aged.save_certificate(&self.path("data/cluster")).expect("it is saved");
        assert!(self.is_due());
    }
    fn is_due(&self) -> bool {
        self.identity().validity().expect("a certificate").renewal_is_due(now())
    }
}

fn same(pem: &[u8], file: &Identity) -> bool {
    X509::from_pem(pem).and_then(|a| a.to_der()).expect("DER") == X509::from_pem(&file.certificate).and_then(|b| b.to_der()).expect("DER")
}

#[test]
fn certificates_are_renewed_by_hand_and_by_themselves_without_a_restart() {
    let (mut a, mut b, mut w) = (alone("a"), alone("b"), alone("w"));
    a.create_cluster();
    b.join(&a, "");
    b.wait_voters(2);
    w.join_as_witness(&a);
    a.wait_voters(3);

    // By hand: the listener for nodes and the member of etcd show the new one.
    let (before, process) = (a.identity(), a.id());
    assert!(same(&a.shown(a.at_cluster()), &before));
    a.ok("node renew-certificate");
    let after = a.identity();
    assert!(after.certificate != before.certificate && after.key == before.key);
    assert!(same(&a.shown(a.at_cluster()), &after) && same(&a.shown(a.at_etcd()), &after));
    let until_s = after.validity().expect("a certificate").until.0;
    assert_eq!(a.json("cluster status")["certificate_until_unix_s"], until_s);
    let before = w.identity();
    w.ok("node renew-certificate");
    assert!(w.identity().certificate != before.certificate && w.identity().key == before.key);
    assert!(same(&w.shown(w.at_etcd()), &w.identity()));
    assert_eq!(a.id(), process);

    // By itself: a node with data at its start, a witness, which has to ask, while it runs.
    let authority = Authority::load(&a.path("data/cluster")).expect("a node with data has it");
    b.stop();
    b.age(&authority);
    b.start();
    assert!(!b.is_due());
    w.stop();
    w.age(&authority);
    w.start();
    let process = w.id();
    until("its certificate is renewed", || (!w.is_due()).then_some(()));
    assert!(same(&w.shown(w.at_etcd()), &w.identity()));
    assert_eq!(w.id(), process);
    a.wait_voters(3);
    b.ok("policy create p");
    assert_eq!(a.policies(), ["default", "p"]);

    // Nobody can sign: health says so, and what to do.
    w.stop();
    w.age(&authority);
    for node in [&a, &b] {
        std::fs::rename(node.path("data/cluster/authority.key"), node.path("authority.key")).expect("it is moved");
    }
    w.start();
    let says = |d: &Daemon| d.json("cluster status")["checks"].to_string();
    until("the witness says so", || (says(&w).contains("could not be renewed") && says(&w).contains("renew-certificate")).then_some(()));
    assert!(w.fails("node renew-certificate", 1).contains("no node with data has signed"));
    assert!(a.fails("node renew-certificate", 1).contains("authority.key"));
    for node in [&a, &b] {
        std::fs::rename(node.path("authority.key"), node.path("data/cluster/authority.key")).expect("it is moved back");
    }
    w.ok("node renew-certificate");
    a.ok("node renew-certificate");
    assert!(!says(&w).contains("could not be renewed") && !says(&a).contains("could not be renewed"));
    for node in [&mut w, &mut b, &mut a] {
        node.stop();
    }
}
