"""Rows over iSCSI: beside SPDK's target and beside tgt; and the initiators beside each other.

As beside SPDK over NVMe/TCP: targets run on processor 0, the client on processor 1, over loopback, on a volume of 1 GiB in memory of 4096-byte blocks
that is written once before anything counts. The client is the lab, which never sleeps, for every target. tgt has a file of /dev/shm through its
default backing store; its daemon and its threads are on processor 0.
"""
import os
import shutil
import subprocess
import time

from . import Failed, clients
from .processes import Basalt, Spdk, Target, free_port, wait_for
from .rows import GIB, KIB, Load

FILL = Load(8, 128 * KIB, 0.0, random=False)
MEMORY = "/dev/shm"
IQN = "iqn.2026-11.io.basalt:bench"


def disk(port, iqn, lun):
    return f"iscsi://127.0.0.1:{port}/{iqn}/{lun}"


class BasaltIscsi(Basalt):
    """The daemon of the other rows, whose subsystem is a target too."""

    def start(self):
        self.iscsi_port = free_port()
        self.more = f'[[listeners]]\naddr = "127.0.0.1:{self.iscsi_port}"\nkind = "iscsi"\n'
        super().start()
        self.admin("subsystem", "set", "default", "--iqn", IQN)

    def address(self, n=1):
        return disk(self.iscsi_port, IQN, n)


class SpdkIscsi(Spdk):
    """SPDK's iscsi_tgt with a malloc device. It takes 64 commands a session unless more are asked for."""

    program, waits = "iscsi_tgt", True
    iqn = "iqn.2016-06.io.spdk:bench"

    def requests(self):
        devices, served = self.devices()
        return [["iscsi_set_options", "-q", "256"], ["framework_start_init"], *devices,
                ["iscsi_create_portal_group", "1", f"127.0.0.1:{self.port}"], ["iscsi_create_initiator_group", "1", "ANY", "ANY"],
                ["iscsi_create_target_node", "bench", "bench", f"{served}:0", "1:1", "256", "-d"]]

    def address(self, n=0):
        return disk(self.port, self.iqn, n)


class Tgt(Target):
    """tgtd with one target and one disk."""

    iqn = "iqn.2001-04.com.example:bench"

    def __init__(self):
        super().__init__("tgt", MEMORY)
        self.control = str(os.getpid() % 32000)  # the number in the name of its socket; at most 32767

    def start(self):
        file = f"{self.dir}/disk"
        with open(file, "wb") as f:
            f.truncate(GIB)
        self.process = subprocess.Popen(["taskset", "-c", "0", "tgtd", "-f", "-C", self.control, "--iscsi", f"portal=127.0.0.1:{self.port}"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: self.admin("--mode", "sys", "--op", "show").returncode == 0, "tgtd did not start", process=self.process)
        for words in (["--mode", "target", "--op", "new", "--tid", "1", "--targetname", self.iqn],
                      ["--mode", "logicalunit", "--op", "new", "--tid", "1", "--lun", "1", "--backing-store", file, "--blocksize", "4096"],
                      ["--mode", "target", "--op", "bind", "--tid", "1", "--initiator-address", "ALL"]):
            done = self.admin(*words)
            if done.returncode:
                raise Failed(f"tgtadm {' '.join(words)}: {done.stderr.strip()}")

    def admin(self, *words):
        return subprocess.run(["tgtadm", "-C", self.control, "--lld", "iscsi", *words], capture_output=True, text=True)

    def address(self, n=1):
        return disk(self.port, self.iqn, n)


def lacks_tgt():
    """What of tgt is not there; None when all is."""
    absent = [name for name in ("tgtd", "tgtadm") if not shutil.which(name)]
    return f"no {', '.join(absent)} (apt install tgt)" if absent else None


def targets(o, rows, runs):
    peer = ("tgt", Tgt) if rows[0].kind == "iscsi-tgt" else ("spdk", lambda: SpdkIscsi(o.spdk))
    makers = [("basalt", lambda: BasaltIscsi.in_memory(o, shards=o.shards)), peer]
    for round_no in range(o.rounds):
        for who, make in makers[::-1] if round_no % 2 else makers:
            with make() as target:
                lab = lambda load, seconds, **more: clients.lab(o.basalt, [target.address()], load, seconds, target.dir, **more)  # noqa: B023, E731
                wait_for(lambda: clients.tries(lambda: lab(FILL, 0.1)), f"{target.name} does not serve")  # noqa: B023
                lab(FILL, 0.5, prepare=True)
                for row in rows:
                    runs.add(round_no, row, who, lab(row.load, o.seconds))


def both_clients(o, rows, runs):
    """Reads, as iscsi-perf does nothing else."""
    with SpdkIscsi(o.spdk) as target:
        lab = lambda load, seconds, **more: clients.lab(o.basalt, [target.address()], load, seconds, target.dir, **more)  # noqa: E731
        time.sleep(1)
        lab(FILL, 0.5, prepare=True)
        measure = {"basalt lab": lab, "iscsi-perf": lambda load, seconds: clients.iscsi_perf(target.address(), load, seconds)}
        for round_no in range(o.rounds):
            for row in (row for row in rows if row.load.reads == 1):
                for who in sorted(measure, reverse=round_no % 2 == 0):
                    runs.add(round_no, row, who, measure[who](row.load, o.seconds))
