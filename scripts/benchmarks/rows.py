"""Every row of the table. A row says what is done, beside what, which goal it has, and which module measures it."""
from dataclasses import dataclass

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
TOLERANCE = 0.03  # rows within 3 % of the goal count as reached


@dataclass(frozen=True)
class Load:
    """What a client does: in a closed loop, `depth` operations under way."""

    depth: int
    size: int
    reads: float  # share of the operations; the rest are writes
    random: bool = True
    digests: bool = False


@dataclass(frozen=True)
class Row:
    work: str
    kind: str  # which module measures it: see KINDS
    reference: str
    goal: float  # of the ratio ours / theirs; of the value for rows without a peer; 0: none is set
    load: Load = None
    figure: str = "iops"  # what is compared: "iops", "us" (mean), "p99_9_us", "iops_a_core"
    unit: str = "IOPS"
    at_most: bool = False  # the goal is an upper bound

    def reached(self, value):
        """Whether a measured value is as good as the goal; None without a goal."""
        if not self.goal:
            return None
        return value <= self.goal * (1 + TOLERANCE) if self.at_most else value >= self.goal * (1 - TOLERANCE)

    def goal_text(self):
        return "-" if not self.goal else f"{'at most ' if self.at_most else ''}{self.goal:.3g}{'' if self.load else ' ' + self.unit}"


KINDS = {
    "spdk": "Beside SPDK's target: malloc device without checksums; ours RAM-backed, through the write buffer, checksums computed and verified",
    "digests": "Beside SPDK's target, header and data digests on both",
    "iscsi": "Over iSCSI, beside SPDK's target: malloc device without checksums; ours RAM-backed, checksums computed and verified",
    "iscsi-tgt": "Over iSCSI, beside tgt: a file in memory; ours RAM-backed, checksums computed and verified",
    "buffer": "Beside fio on the disk: durable writes, buffer not full",
    "sustained": "Beside fio on the disk: durable writes, sustained past the buffer, destaging all the time",
    "capacity": "Beside fio on the disk: reads of a warm map, data on capacity",
    "cores": "Two cores of the target beside one",
    "forward": "Through a node that passes requests on to the owner over TLS, beside the owner itself; RAM-backed, a core each",
    "forward-plain": "The same with plain links",
    "forward-disk": "The same over TLS with the volume on the disk: durable writes, reads of the disk",
    "mirror": "Two copies on two nodes, TLS between them, beside SPDK's RAID-1 of a malloc device and one over NVMe/TCP in one process; RAM-backed",
    "mirror-plain": "Two copies on two nodes beside one copy, plain links; RAM-backed",
    "resync": "A volume with two copies, RAM-backed, at half of its highest rate: while one of them is made anew, over the same with the resync paused",
    "ceph": "Two copies on two nodes, TLS between them, beside Ceph with two OSDs and two copies; RAM-backed",
    "ceph-disk": "The same with both sides on the disk",
    "idle": "Processor time at rest",
    "memory": "Resident memory",
    "growth": "The write buffer as it grows",
}

_WORK = [("4 KiB random read, depth 1", Load(1, 4 * KIB, 1.0), 0.95),
         ("4 KiB random read, depth 32", Load(32, 4 * KIB, 1.0), 1.0),
         ("4 KiB random read, depth 128", Load(128, 4 * KIB, 1.0), 1.0),
         ("4 KiB random write, depth 1", Load(1, 4 * KIB, 0.0), 0.95),
         ("4 KiB random write, depth 32", Load(32, 4 * KIB, 0.0), 1.0),
         ("4 KiB random write, depth 128", Load(128, 4 * KIB, 0.0), 1.0),
         ("4 KiB random 70/30, depth 32", Load(32, 4 * KIB, 0.7), 1.0),
         ("128 KiB read, depth 8", Load(8, 128 * KIB, 1.0, random=False), 1.0),
         ("256 KiB write, depth 8", Load(8, 256 * KIB, 0.0, random=False), 1.0)]
_ISCSI_WORK = [*((f"4 KiB random {what}, depth {depth}", Load(depth, 4 * KIB, reads))
                 for what, reads in (("read", 1.0), ("write", 0.0), ("70/30", 0.7)) for depth in (1, 32, 128)),
               *((f"{size} KiB {what}, depth {depth}", Load(depth, size * KIB, reads, random=False))
                 for size, what, reads in ((128, "read", 1.0), (256, "write", 0.0)) for depth in (1, 32, 128))]
_SPDK = "SPDK, malloc device"
_WRITE = "fio, io_uring, O_DIRECT and O_DSYNC, a file on the same disk"
_CEPH = {"ceph": "BlueStore on files in memory", "ceph-disk": "BlueStore on files of the same disk"}
_READ = "fio, io_uring, O_DIRECT, a file on the same file system"

ROWS = [
    *(Row(work, "spdk", _SPDK, goal, load) for work, load, goal in _WORK),
    *(Row(f"{work}, digests", "digests", f"{_SPDK}, digests", 1.1, Load(load.depth, load.size, load.reads, load.random, True))
      for work, load, _ in _WORK),
    *(Row(work, kind, peer, goal, load) for kind, peer, goal in (("iscsi", _SPDK, 1.0), ("iscsi-tgt", "tgt, a file in memory", 3.0))
      for work, load in _ISCSI_WORK),
    Row("4 KiB random write, durable, depth 1", "buffer", _WRITE, 0.8, Load(1, 4 * KIB, 0.0)),
    Row("4 KiB random write, durable, depth 32", "buffer", _WRITE, 2.0, Load(32, 4 * KIB, 0.0)),
    # At depth 1 there is no goal for sustained writes: the row stands without one.
    Row("4 KiB random write, sustained, depth 1", "sustained", _WRITE, 0, Load(1, 4 * KIB, 0.0)),
    Row("4 KiB random write, sustained, depth 32", "sustained", _WRITE, 0.9, Load(32, 4 * KIB, 0.0)),
    Row("4 KiB random write, sustained, depth 32, p99.9", "sustained", _WRITE, 1.0, Load(32, 4 * KIB, 0.0), "p99_9_us", "us", True),
    Row("4 KiB random read, on capacity, depth 1", "capacity", _READ, 0.7, Load(1, 4 * KIB, 1.0)),
    Row("4 KiB random read, on capacity, depth 32", "capacity", _READ, 0.9, Load(32, 4 * KIB, 1.0)),
    Row("4 KiB random read, two cores over one, depth 4 x 32", "cores", "itself on one core", 1.5, Load(32, 4 * KIB, 1.0)),
    # At depth 1 the latency is to be at most 1.6 times that of the owner.
    *(Row(f"4 KiB random {what}, depth {depth}", kind, "the node that owns the volume", 1 / 1.6 if depth == 1 else 0, Load(depth, 4 * KIB, reads))
      for kind in ("forward", "forward-plain", "forward-disk") for what, reads in (("read", 1.0), ("write", 0.0)) for depth in (1, 32)),
    # At depth 1 the latency is to be at most 1.25 times SPDK's.
    *(Row(f"4 KiB random {what}, depth {depth}, two copies", kind, "SPDK, RAID-1" if kind == "mirror" else "the same nodes, one copy",
          {1: 1 / 1.25, 32: 0.9}[depth] if kind == "mirror" and what == "write" else 0, Load(depth, 4 * KIB, reads))
      for kind in ("mirror", "mirror-plain") for what, reads in (("write", 0.0), ("read", 1.0)) for depth in (1, 32)),
    # At the usual pace a resync is to cost at most a third of p99.
    *(Row(f"4 KiB random 70/30, depth 32, p99, resync {pace}", "resync", "the same, resync paused", goal, Load(32, 4 * KIB, 0.7), "p99_us", "times", True)
      for pace, goal in (("low", 4 / 3), ("normal", 4 / 3), ("high", 0))),
    # For the same processor time 30 times as much as Ceph; at depth 1 a fifteenth of its latency.
    *(Row(f"4 KiB random {what}, depth {depth}{figure}", kind, f"Ceph, {_CEPH[kind]}", goal, Load(depth, 4 * KIB, reads), key, unit, key == "us")
      for kind in ("ceph", "ceph-disk") for what, reads in (("write", 0.0), ("read", 1.0)) for depth in (1, 32)
      for figure, key, unit, goal in (("", "iops", "IOPS", 0), (", mean latency", "us", "us", 1 / 15 if depth == 1 else 0),
                                      (", IOPS a core", "iops_a_core", "IOPS", 30))),
    Row("idle, 32 hosts connected", "idle", "", 1.0, unit="% of a core", at_most=True),
    Row("1 TiB, 20 % of the chunks (64 KiB) in use", "memory", "", 1.5, unit="GiB", at_most=True),
    Row("1 TiB, 20 % of the blocks (4 KiB) written at random", "memory", "", 1.5, unit="GiB", at_most=True),
    Row("a read of the buffer, time in the store, largest buffer over smallest", "growth", "the smallest buffer", 1.2, unit="times", at_most=True),
    Row("a read of the map, time in the store, largest buffer over smallest", "growth", "the smallest buffer", 1.2, unit="times", at_most=True),
    Row("a write, time in the store, largest buffer over smallest", "growth", "the smallest buffer", 1.2, unit="times", at_most=True),
    Row("recovery, processor time a GiB, largest buffer over smallest", "growth", "the smallest buffer", 1.2, unit="times", at_most=True),
]
