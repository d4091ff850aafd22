use super::*;
use std::net::TcpListener;

fn connect(addr: std::net::SocketAddr) -> LabError {
    let disk = format!("nvme-tcp://{addr}/nqn.2026-11.io.example:one");
    NvmeTcp::connect(&[disk], RemoteOptions { workers: 1, destroy: false, spin: false }).err().expect("nobody answers")
}

#[test]
fn a_target_that_is_not_there_or_goes_away_is_a_failure_and_no_refusal() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let closes = std::thread::spawn(move || drop(listener.accept().unwrap()));
    let goes = connect(addr);
    closes.join().unwrap();
    assert!(matches!(&goes, LabError::Engine { .. }), "{goes}");
    let gone = connect(addr);
    assert!(matches!(&gone, LabError::Engine { .. }) && gone.to_string().contains("cannot connect"), "{gone}");
}
