"""Rows of a volume with a copy on each of two nodes beside an image of Ceph with a copy on each of two OSDs, in memory or on the disk.

Ours are two daemons of one core each, with TLS between them and checksums of every block. Theirs are a monitor and two OSDs of BlueStore, each on a file
as long as the two files of a node of ours together; in memory that is a file of /dev/shm. What is not Ceph's default is in CONFIG: all of it is there so
that two OSDs of one machine work, or helps Ceph. There is no authentication and nothing is encrypted. The client keeps no cache: a write is answered when
both copies have it, as ours is. A manager is not needed for this, so there is none that takes processor time.

With four processors or more each of our daemons has one of its own; Ceph's processes run where they like on all of them. All files and all blocks of the
volume and the image are written before anything counts. The sides take turns, and who begins changes with every round.

"IOPS a core" is of the processor time of both daemons, or of both OSDs, at the load. The monitor's is said beside it and not counted, as etcd's is
not.
"""
import os
import shutil
import subprocess
import uuid

from . import Failed, beside_fio, clients
from .forward import APART_MIN, cluster
from .mirrored import make_mirror
from .processes import Target, Watch, end, wait_for
from .rows import GIB, KIB, Load

PROGRAMS = ("ceph", "ceph-mon", "ceph-osd", "monmaptool", "rbd", "fio")
PACKAGES = "ceph-mon ceph-osd ceph-common fio"
MEMORY = "/dev/shm"
BLOCK_BYTES = 2 * GIB  # of an OSD
IMAGE_MIB = 256  # as large as the volume of forward.Node
PLACEMENT_GROUPS = 128  # about 100 an OSD are what Ceph's documentation asks for
FILL = Load(8, 1024 * KIB, 0.0, random=False)
CONFIG = """[global]
fsid = {fsid}
mon_host = v2:127.0.0.1:{port}
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_bind_msgr1 = false
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
osd_objectstore = bluestore
osd_crush_chooseleaf_type = 0
rbd_cache = false
run_dir = {folder}
crash_dir = {folder}
admin_socket =
keyring = {folder}/keyring
mon_data = {folder}/$name
osd_data = {folder}/$name
log_file = {folder}/$name.log
mon_cluster_log_file = {folder}/cluster.log
"""


def lacks():
    """What of Ceph is not there, as a text; None when all is."""
    absent = [name for name in PROGRAMS if not shutil.which(name)]
    if absent:
        return f"no {', '.join(absent)}"
    engines = subprocess.run(["fio", "--enghelp"], capture_output=True, text=True).stdout.split()
    return None if "rbd" in engines else "fio has no engine rbd"


def refuse_disk():
    """BlueStore wants files past the page cache; in memory such are there since Linux 6.6."""
    if not os.path.isdir(MEMORY) or shutil.disk_usage(MEMORY).free < 2 * BLOCK_BYTES + GIB:
        raise Failed(f"{MEMORY}: {(2 * BLOCK_BYTES + GIB) / GIB:.0f} GiB of files in memory are needed")
    try:
        file = os.open(MEMORY, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT, 0o600)
    except OSError as e:
        raise Failed(f"{MEMORY}: no files with O_DIRECT, {e.strerror}") from e
    os.close(file)


class Ceph(Target):
    """A monitor, two OSDs, and a pool of two copies with an image."""

    pool, image = "bench", "image"

    def __init__(self, folder):
        super().__init__("ceph", folder)
        self.conf, self.osds = f"{self.dir}/ceph.conf", []

    def start(self):
        fsid = str(uuid.uuid4())
        with open(self.conf, "w") as f:
            f.write(CONFIG.format(fsid=fsid, port=self.port, folder=self.dir))
        address = f"v2:127.0.0.1:{self.port}"
        self.run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", f"[{address}]", f"{self.dir}/monmap")
        os.mkdir(f"{self.dir}/mon.a")
        self.run("ceph-mon", "--mkfs", "-i", "a", "--monmap", f"{self.dir}/monmap")
        self.process = self.daemon("ceph-mon", "a", "--public-addr", address)
        for n in range(2):
            osd = str(uuid.uuid4())
            self.run("ceph", "osd", "new", osd, str(n))
            os.mkdir(f"{self.dir}/osd.{n}")
            beside_fio.written(f"{self.dir}/osd.{n}/block", BLOCK_BYTES)
            self.run("ceph-osd", "--mkfs", "-i", str(n), "--osd-uuid", osd)
            self.osds.append(self.daemon("ceph-osd", str(n)))
        wait_for(lambda: "2 up" in self.run("ceph", "osd", "stat"), "Ceph's OSDs did not start")
        self.run("ceph", "osd", "pool", "create", self.pool, str(PLACEMENT_GROUPS), "--size", "2")
        self.run("ceph", "osd", "pool", "set", self.pool, "min_size", "1")
        self.run("rbd", "create", f"{self.pool}/{self.image}", "--size", f"{IMAGE_MIB}M")
        self.load(FILL, 0, prepare=True)

    def stop(self):
        for osd in self.osds:
            end(osd)
        super().stop()

    def daemon(self, program, name, *more):
        return subprocess.Popen([program, "-f", "--conf", self.conf, "-i", name, *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def run(self, *words):
        """A command of Ceph's; gives what it printed."""
        try:
            done = subprocess.run([words[0], "--conf", self.conf, *words[1:]], capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired as e:
            raise Failed(f"{' '.join(words)} had no answer in {e.timeout:.0f} s") from e
        if done.returncode:
            raise Failed(f"{' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def load(self, load, seconds, prepare=False):
        return clients.fio_rbd(self.conf, self.pool, self.image, load, seconds, prepare)


def ours(o, by_load, runs, round_no, disk):
    apart = (os.cpu_count() or 1) >= APART_MIN
    run = dict(processors="2", spin=True) if apart else dict(processors=f"0-{(os.cpu_count() or 1) - 1}", spin=False)
    with cluster(o, False, "balance = false\n", ("owner", "other") if disk else ()) as nodes:
        owner, _ = nodes
        make_mirror(*nodes)
        lab = lambda load, seconds, **more: clients.lab(o.basalt, [owner.address(2)], load, seconds, owner.dir, **run, **more)
        # A moment after its creation it is served.
        wait_for(lambda: clients.tries(lambda: lab(by_load[0][0].load, 0.5, prepare=True)), "the volume with two copies is not served")
        for rows in by_load:
            one(o, rows, runs, round_no, "basalt", lambda: lab(rows[0].load, o.seconds), {node.name: node.process for node in nodes})  # noqa: B023


def theirs(o, by_load, runs, round_no, disk):
    with Ceph(o.dir if disk else MEMORY) as ceph:
        processes = {"osd 0": ceph.osds[0], "osd 1": ceph.osds[1], "monitor": ceph.process}
        for rows in by_load:
            one(o, rows, runs, round_no, "ceph", lambda: ceph.load(rows[0].load, o.seconds), processes)  # noqa: B023


def one(o, rows, runs, round_no, who, load, processes):
    """One load, for all rows that look at it. The first two of `processes` are the storage."""
    with Watch([process.pid for process in processes.values()], o.seconds) as watch:
        sample = load()
    ended = [name for name, process in processes.items() if process.poll() is not None]
    if ended:
        raise Failed(f"{who}: {', '.join(ended)} ended under load")
    cores = watch.cores()
    sample["cores"] = dict(zip(processes, cores))
    sample["iops_a_core"] = sample["iops"] / sum(cores[:2])
    for row in rows:
        runs.add(round_no, row, who, sample)
    shares = ", ".join(f"{name} {share:.2f}" for name, share in sample["cores"].items())
    print(f"         processors: {shares}; {sample['iops_a_core']:,.0f} IOPS a core of the storage", flush=True)


def measure(o, rows, runs):
    by_load = list(beside_fio.rows_by_load(rows))
    for round_no in range(o.rounds):
        for who in [ours, theirs][:: -1 if round_no % 2 else 1]:
            who(o, by_load, runs, round_no, rows[0].kind == "ceph-disk")
