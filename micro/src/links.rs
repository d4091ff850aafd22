//! Cases of links between nodes: a request that is passed on and its answer, through both ends, plain and over TLS. There is no network between them:
//! what one end sends, the other takes from where it lies.

use crate::{Case, Counted, Draw, measured};
use base::unit::BLOCK_BYTES;
use base::{ClusterId, Duration, HostId, Instant, NodeId, SecretBytes, VolumeId, crc32c};
use connection::{Accepts, Layer, PLAIN_BYTES};
use format::peer::{Hello, Incarnation, Issuer, LinkClass, Revision, SessionNo, Versions, Window};
use object::link::{ForwardOp, ForwardRequest, Held, Link, LinkEvent, Protection, Welcome};
use object::{Data, DataVec, IoOp};
use rt::Buf;
use tls::{ClusterSecret, Context, Engine, Hash, PairIdentity};

const VOLUME_BLOCKS: u64 = 1 << 18;
const REVISION: Revision = Revision(1);
const WINDOW: Window = Window { ops: 64, bytes: 8 << 20 };
const NOW: Instant = Instant(1_000_000_000);
const NODES: [NodeId; 2] = [NodeId::from_bytes([1; 16]), NodeId::from_bytes([2; 16])];
const CLUSTER: ClusterId = ClusterId::from_bytes([9; 16]);

pub(crate) fn cases() -> Vec<Case> {
    let case = |name, what, run| Case { name, what, times: 2048, counted: Counted::Measured, run };
    vec![
        case("link-write", "write of 4 KiB over a link, 32 at once: request and answer, both ends", |n| run(true, false, 32, n)),
        case("link-write-tls", "the same over TLS", |n| run(true, true, 32, n)),
        case("link-write-depth-1", "write of 4 KiB over a link, one at a time", |n| run(true, false, 1, n)),
        case("link-write-depth-1-tls", "the same over TLS", |n| run(true, true, 1, n)),
        case("link-read", "read of 4 KiB over a link, 32 at once: request and answer, both ends", |n| run(false, false, 32, n)),
        case("link-read-tls", "the same over TLS", |n| run(false, true, 32, n)),
    ]
}

/// One end.
struct End {
    link: Link,
    layer: Layer<PairIdentity>,
    plain: Vec<u8>,
}

/// What one end has to send comes to the other. Whether there was something.
fn pass(from: &mut End, to: &mut End) -> bool {
    let mut any = false;
    while let Some(list) = from.layer.next_send(|| from.link.take_output(), false) {
        any = true;
        list.slices(0).for_each(|bytes| to.take(bytes));
        if let Some(list) = from.layer.sent(list) {
            from.link.sent(list);
        }
    }
    any
}

impl End {
    fn take(&mut self, bytes: &[u8]) {
        if matches!(self.layer, Layer::Plain) {
            return self.link.receive(NOW, bytes);
        }
        let keys = |pair: &PairIdentity| vec![pair.key(&secret()).expect("OpenSSL works")];
        self.layer.receive(bytes, Context::shared, keys).expect("nobody changes what is sent");
        while let Some(n @ 1..) = self.layer.read(&mut self.plain).expect("nobody changes what is sent") {
            self.link.receive(NOW, &self.plain[..n]);
        }
    }
}

fn secret() -> ClusterSecret {
    ClusterSecret::new(SecretBytes::new(vec![7; 32])).expect("32 bytes")
}

/// An open link: who passes requests on, and the owner.
fn open(tls: bool) -> [End; 2] {
    let protection = if tls { Protection::Tls } else { Protection::Plain };
    let hello = Hello {
        cluster: CLUSTER,
        from: NODES[0],
        to: NODES[1],
        incarnation: Incarnation(3),
        clock: NOW,
        versions: Versions::OURS,
        class: LinkClass::Foreground,
        lane: 0,
        lanes: 1,
        window: WINDOW,
    };
    let layers = if tls {
        let identity = PairIdentity::new(Hash::Sha256, CLUSTER, NODES[0], NODES[1]).expect("two nodes");
        let (context, key) = (Context::shared().expect("OpenSSL has TLS 1.3"), identity.key(&secret()).expect("OpenSSL works"));
        [Layer::client(Engine::client(&context, &identity, key).expect("OpenSSL works")), Layer::accepted(Accepts::Tls)]
    } else {
        [Layer::Plain, Layer::Plain]
    };
    let links = [Link::dial(NOW, hello, SessionNo(1), Held::default(), Incarnation(8), protection), Link::accept(NOW, protection)];
    let mut at = links.into_iter().zip(layers).map(|(link, layer)| End { link, layer, plain: vec![0; PLAIN_BYTES] });
    let mut ends = [(); 2].map(|()| at.next().expect("two"));
    let [a, b] = &mut ends;
    while pass(a, b) | pass(b, a) {
        if let Some(LinkEvent::Greeted(..)) = b.link.pop_event() {
            b.link.admit(NOW, &Welcome { from: NODES[1], incarnation: Incarnation(8), version: 1, window: WINDOW, left: Held::default() });
        }
    }
    ends.iter_mut().for_each(|end| while end.link.pop_event().is_some() {});
    assert!(ends.iter().all(|end| end.link.is_open()));
    ends
}

/// Answers everything that has come to the owner; the blocks of reads are those that were written last.
fn serve(owner: &mut End, blocks: &mut Vec<Data>) {
    while let Some(event) = owner.link.pop_event() {
        let LinkEvent::Forwarded(forwarded) = event else { panic!("{event:?}") };
        let back = match forwarded.op {
            ForwardOp::Io(IoOp::Write { data, .. }) => {
                blocks.extend(data);
                DataVec::new()
            }
            ForwardOp::Io(IoOp::Read { .. }) => DataVec::from_iter(blocks.pop()),
            other => panic!("{other:?}"),
        };
        owner.link.may_begin(forwarded.id, NOW, REVISION).expect("it is fresh");
        owner.link.answer(forwarded.id, Ok(()), back);
    }
}

fn run(write: bool, tls: bool, depth: u64, times: u64) -> Duration {
    let [mut a, mut b] = open(tls);
    let block = || {
        let mut buf = Buf::zeroed(BLOCK_BYTES);
        buf.fill(7);
        let mut data = Data { buf, crcs: Default::default() };
        data.crcs.push(crc32c(&data.buf));
        data
    };
    // Buffers go round: what one end has got, it sends next.
    let (mut draw, mut blocks, mut answered) = (Draw::new(), (0..depth).map(|_| block()).collect::<Vec<_>>(), 0);
    let mut round = |a: &mut End, b: &mut End, ops: u64| {
        for token in 0..ops {
            let offset = draw.below(VOLUME_BLOCKS) * BLOCK_BYTES as u64;
            let op = match write {
                true => IoOp::Write { offset, data: DataVec::from_iter(blocks.pop()) },
                false => IoOp::Read { offset, len: BLOCK_BYTES as u32 },
            };
            let issuer = Issuer { host: HostId::from_bytes([7; 16]), controller: 3 };
            let (volume, stamp) = (VolumeId::from_bytes([5; 16]), a.link.stamp().expect("it is open"));
            a.link.submit(ForwardRequest { token, volume, revision: REVISION, stamp, issuer, op: ForwardOp::Io(op) });
        }
        while pass(a, b) | pass(b, a) {
            serve(b, &mut blocks);
            while let Some(event) = a.link.pop_event() {
                let LinkEvent::Answered(done) = event else { panic!("{event:?}") };
                done.result.expect("it was done");
                blocks.extend(done.data);
                answered += 1;
            }
        }
    };
    (0..4).for_each(|_| round(&mut a, &mut b, depth)); // the lists of free memory are filled
    let took = measured(&mut || {
        let mut left = times;
        while left > 0 {
            round(&mut a, &mut b, depth.min(left));
            left -= depth.min(left);
        }
    });
    assert!(answered == times + 4 * depth && a.link.is_open() && b.link.is_open());
    took
}
