use super::*;
use crate::rng::Rng;
use format::nvme::io::flush_sqe;
use format::nvme_tcp::DataPdu;

const BOTH: Digests = Digests { header: true, data: true };

fn open(lend_bytes: u32, digests: Digests) -> ClientQueue {
    let mut q = ClientQueue::new(QueueOptions { lend_bytes, digests, in_capsule_bytes: 0, ..QueueOptions::default() });
    let n = q.outgoing().len();
    q.sent(n);
    q.receive(&IcResp { cpda: 0, digests, maxh2cdata: 16 << 10 }.to_bytes()).unwrap();
    q
}

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

/// Takes all that is to be sent, in pieces and sends of any length.
fn drain(q: &mut ClientQueue, rng: &mut Rng) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let mut slices = [IoSlice::new(&[]); 5];
        let n = q.outgoing_slices(&mut slices);
        let there: Vec<u8> = slices[..n].iter().flat_map(|s| s.iter().copied()).collect();
        assert_eq!(there.is_empty(), q.outgoing().is_empty());
        assert!(there.starts_with(q.outgoing()));
        if there.is_empty() {
            return all;
        }
        let some = 1 + rng.below(there.len() as u64) as usize;
        all.extend_from_slice(&there[..some]);
        q.sent(some);
    }
}

fn ask(q: &mut ClientQueue, cid: u16, data: usize, digests: Digests) {
    let mut r2t = [0; R2t::BYTES_MAX];
    let n = R2t { cccid: cid, ttag: 7, offset: 0, bytes: data as u32 }.write(digests, &mut r2t);
    q.receive(&r2t[..n]).unwrap();
}

fn answer(q: &mut ClientQueue, cid: u16, digests: Digests) -> Completed {
    let mut resp = [0; CapsuleResp::BYTES_MAX];
    let cqe = Cqe { result: 0, sqhd: 1, sqid: 0, cid, status: Status::SUCCESS };
    let n = CapsuleResp { cqe }.write(digests, &mut resp);
    q.receive(&resp[..n]).unwrap();
    q.pop().expect("it was answered")
}

fn write_request(data: &[u8]) -> Request {
    Request { sqe: flush_sqe(0, 1), payload: Payload::Out(data.to_vec()), tag: 3 }
}

#[test]
fn lent_data_goes_out_as_copied_data_does() {
    let mut rng = Rng::new(1);
    for round in 0..50 {
        let digests = if round % 2 == 0 { BOTH } else { Digests::default() };
        let data = [bytes(round, 1 + rng.below(60_000) as usize), bytes(round + 1000, 1 + rng.below(60_000) as usize)];
        let mut streams = [u32::MAX, 4096].map(|lend_bytes| {
            let mut q = open(lend_bytes, digests);
            let cids: Vec<u16> = data.iter().map(|d| q.submit(write_request(d)).unwrap()).collect();
            cids.iter().zip(&data).for_each(|(cid, d)| ask(&mut q, *cid, d.len(), digests));
            let out = drain(&mut q, &mut rng);
            for (cid, d) in cids.iter().zip(&data) {
                assert_eq!(answer(&mut q, *cid, digests).payload, Payload::Out(d.clone()), "the buffer comes back");
            }
            out
        });
        let lent = streams[1].split_off(0);
        assert!(streams[0] == lent, "round {round}");
    }
}

#[test]
fn a_command_that_ends_before_its_data_was_sent_sends_it_all_the_same() {
    let mut rng = Rng::new(2);
    let data = bytes(1, 50_000);
    let mut expected = open(u32::MAX, BOTH);
    let cid = expected.submit(write_request(&data)).unwrap();
    ask(&mut expected, cid, data.len(), BOTH);
    let expected = drain(&mut expected, &mut rng);
    let mut q = open(4096, BOTH);
    let cid = q.submit(write_request(&data)).unwrap();
    ask(&mut q, cid, data.len(), BOTH);
    let mut out = q.outgoing()[..10].to_vec();
    q.sent(10);
    assert_eq!(answer(&mut q, cid, BOTH).payload, Payload::Out(data.clone()));
    // Its place is taken by another command meanwhile.
    q.submit(write_request(&bytes(9, 9))).unwrap();
    out.extend(drain(&mut q, &mut rng));
    assert!(out.starts_with(&expected));
}

#[test]
fn data_that_lands_where_it_belongs_is_checked_like_copied_data() {
    let (mut rng, mut all_landed) = (Rng::new(3), 0);
    for round in 0..60 {
        let digests = if round % 3 == 0 { Digests::default() } else { BOTH };
        let data = bytes(round, 4096 + rng.below(80_000) as usize);
        let mut q = open(4096, digests);
        let read = Request { sqe: flush_sqe(0, 1), payload: Payload::In(vec![0; data.len()]), tag: 5 };
        let cid = q.submit(read).unwrap();
        assert_eq!(q.reads_large(), data.len() >= LARGE_READ_BYTES);
        let cut = 1 + rng.below(data.len() as u64 - 1) as usize;
        let mut wire = Vec::new();
        for (from, to) in [(0, cut), (cut, data.len())] {
            let pdu =
                DataPdu { cccid: cid, ttag: 0, offset: from as u32, bytes: (to - from) as u32, last: to == data.len(), success: false };
            pdu.append(PduType::C2hData, &data[from..to], digests, 0, &mut wire);
        }
        let broken = digests.data && round % 5 == 1;
        if broken {
            let at = wire.len() - 5; // the last byte of data
            wire[at] ^= 1;
        }
        let (mut left, mut result, mut landed) = (&wire[..], Ok(()), 0);
        while !left.is_empty() && result.is_ok() {
            let some = 1 + rng.below(left.len() as u64) as usize;
            if let Some(place) = q.landing() {
                let n = some.min(place.len());
                place[..n].copy_from_slice(&left[..n]);
                (result, left, landed) = (q.landed(n), &left[n..], landed + n);
            } else {
                (result, left) = (q.receive(&left[..some]), &left[some..]);
            }
        }
        all_landed += landed;
        if broken {
            assert!(matches!(result, Err(QueueError::DataDigest(_))), "{result:?}");
            continue;
        }
        result.unwrap();
        assert_eq!(answer(&mut q, cid, digests).payload, Payload::In(data));
        assert!(!q.reads_large());
    }
    assert!(all_landed > 100_000, "{all_landed}");
}
