"""Rows of a volume with a copy on each of two nodes, RAM-backed: beside SPDK's RAID-1 of a malloc device and another one over NVMe/TCP, and beside the
same nodes' volume with one copy.

SPDK has both devices in one process that polls on processor 0: of the arrangements on one processor that is the fastest. Ours are two daemons, each on
a processor of its own; with four processors or more the client has one, too.
"""
import os
import time
import uuid

from . import clients
from .forward import APART_MIN, cluster
from .processes import Spdk, free_port, processor_seconds, wait_for

class SpdkMirror(Spdk):
    """RAID-1 of a malloc device and of one that is reached over NVMe/TCP."""

    mirror_mib = 512

    def devices(self):
        far, nqn = free_port(), f"{self.nqn}-far"
        # With an NGUID of its own: else M1 and what is reached over NVMe/TCP have the same name, and one process cannot have both.
        mib = str(self.mirror_mib)
        return (["bdev_malloc_create", "-b", "M0", mib, "4096"], ["bdev_malloc_create", "-b", "M1", mib, "4096"],
                ["nvmf_create_subsystem", nqn, "-a"], ["nvmf_subsystem_add_ns", nqn, "M1", "--nguid", uuid.uuid4().hex],
                ["nvmf_subsystem_add_listener", nqn, "-t", "tcp", "-a", "127.0.0.1", "-s", str(far)],
                ["bdev_nvme_attach_controller", "-b", "N0", "-t", "tcp", "-a", "127.0.0.1", "-f", "ipv4", "-s", str(far), "-n", nqn],
                ["bdev_raid_create", "-n", "R0", "-r", "raid1", "-b", "M0 N0n1"]), "R0"


def make_mirror(owner, other):
    """Beside the owner's volume of one copy, namespace 1, one with two copies that the same node owns, namespace 2."""
    other.make_files()
    other.admin("group", "create", "other", "--shards", "1", "--cache", other.cache, "--capacity", other.capacity)
    owner.admin("policy", "create", "two", "--failures-to-tolerate", "1")
    # Until the other node has said what it has, there is no room for a second copy.
    wait_for(lambda: owner.tries("volume", "create", "both", "--size", owner.volume, "--policy", "two"), "a volume with two copies cannot be made")
    owner.admin("volume", "set", "both", "--owner", owner.name)


def ours(o, rows, runs, round_no):
    apart = (os.cpu_count() or 1) >= APART_MIN
    run = dict(processors="2", spin=True) if apart else dict(processors=f"0-{(os.cpu_count() or 1) - 1}", spin=False)
    with cluster(o, rows[0].kind == "mirror-plain", "balance = false\n") as nodes:
        owner, other = nodes
        make_mirror(owner, other)
        for namespace in (1, 2):
            # A moment after its creation it is served.
            prepare = lambda: clients.tries(lambda: clients.lab(o.basalt, [owner.address(namespace)], rows[0].load, 0.5, owner.dir, prepare=True, **run))  # noqa: B023, E731
            wait_for(prepare, f"namespace {namespace} is not served")
        for who, namespace in [("one copy", 1), ("two copies", 2)][:: -1 if round_no % 2 else 1]:
            for row in rows:
                before, began = [processor_seconds(node.process.pid) for node in nodes], time.monotonic()
                sample = clients.lab(o.basalt, [owner.address(namespace)], row.load, o.seconds, owner.dir, **run)
                took = time.monotonic() - began
                sample["node_cores"] = [(processor_seconds(node.process.pid) - b) / took for node, b in zip(nodes, before)]
                runs.add(round_no, row, who, sample)
                print(f"         processors: {', '.join(f'{share:.2f}' for share in sample['node_cores'])}, client {sample['client_cores']:.2f}", flush=True)


def theirs(o, rows, runs, round_no):
    with SpdkMirror(o.spdk) as spdk:
        for row in rows:
            runs.add(round_no, row, "spdk", clients.lab(o.basalt, [spdk.address()], row.load, o.seconds, spdk.dir, prepare=row is rows[0]))


def measure(o, rows, runs):
    for round_no in range(o.rounds):
        for who in [ours, theirs][:: -1 if round_no % 2 else 1]:
            if who is ours or rows[0].kind == "mirror":
                who(o, rows, runs, round_no)
