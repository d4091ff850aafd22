"""Rows of requests that pass through a node that does not own the volume, beside requests to the owner, in one run.

Two nodes of a cluster, one core each, on a processor of its own where there are two: a core stays on one processor, and two of them on the same one
wait for each other. With four processors or more the client has one, too, and its thread never sleeps. With fewer it takes what the nodes leave, and
sleeps when it has nothing to do.
"""
import contextlib
import json
import os
import pathlib
import subprocess
import time

from . import Failed, beside_fio, clients
from .processes import Basalt, processor_seconds, wait_for
from .rows import GIB

ROOT = pathlib.Path(__file__).resolve().parents[2]
APART_MIN = 4  # processors: one for each node and for the client


def etcd_programs():
    """The folder with etcd and etcdctl; None when there is none."""
    for folder in (os.environ.get("ETCD_BIN", ""), "/usr/bin", str(ROOT / "target/tools/etcd/usr/bin")):
        if folder and all(os.access(f"{folder}/{name}", os.X_OK) for name in ("etcd", "etcdctl")):
            return folder
    return None


class Node(Basalt):
    """A node of a cluster, with a disk group and a volume if it is the owner: in memory, or in files on the disk."""

    def __init__(self, o, name, processors, plain, more="", disk=False):
        super().__init__(o.basalt, "memory:1GiB:populated", "memory:1GiB:populated", volume="256MiB", processors=processors, folder=o.dir if disk else None)
        if disk:
            self.cache, self.capacity = f"{self.dir}/cache", f"{self.dir}/capacity"
        self.disk = disk
        self.name = name
        self.more = (f'[node]\nname = "{name}"\n[cluster]\netcd_programs = "{etcd_programs()}"\n'
                     f'plain_links = {"true" if plain else "false"}\n{more}')

    def prepare(self):
        """Groups and volumes come when the cluster is there: until then the daemon begins anew."""

    def admin(self, *words):
        """A node that takes much memory for a group is not heard meanwhile: what was begun may be undone, and the group is there a little later."""
        for attempts_left in range(9, -1, -1):
            try:
                return super().admin(*words)
            except Failed as e:
                if not attempts_left or not any(text in str(e) for text in ("undone since", "there is no disk group")):
                    raise
                time.sleep(1)

    def make_files(self):
        """On the disk, what the group lies in."""
        if self.disk:
            beside_fio.written(self.cache, GIB)
            beside_fio.written(self.capacity, GIB)

    def serve_volume(self):
        self.make_files()
        super().prepare()

    def asked(self, *words):
        done = subprocess.run([self.binary, "--api", self.api, *words], capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else ""

    def is_formed(self, members=1):
        """Whether it is in a cluster, and so many members of etcd vote."""
        said = json.loads(self.asked("cluster", "status", "--json") or "{}")
        return bool(said.get("formed")) and sum(m["votes"] and m["trouble"] is None for m in said["members"]) >= members


@contextlib.contextmanager
def cluster(o, plain, more="", disk=()):
    """The owner of a volume, and another node. `more`: of the section [cluster] of both; `disk`: names of those with their groups on the disk."""
    last = min((os.cpu_count() or 1) - 1, 1)
    with (Node(o, "owner", "0", plain, more, "owner" in disk) as owner,
          Node(o, "other", str(last), plain, more, "other" in disk) as other):
        owner.admin("cluster", "create", "--address", "127.0.0.1:0")
        wait_for(owner.is_formed, "no cluster was made", process=owner.process)
        token = owner.asked("node", "invite").strip()
        other.admin("cluster", "join", token, "--address", "127.0.0.1:0")
        for node in (owner, other):
            wait_for(lambda node=node: node.is_formed(2), "the other node did not join", process=node.process)
        owner.serve_volume()
        wait_for(lambda: other.metric("basalt_peers_links_opened_total") > 0, "no link was opened", process=other.process)
        yield owner, other


def measure(o, rows, runs):
    plain = rows[0].kind == "forward-plain"
    apart = (os.cpu_count() or 1) >= APART_MIN
    run = dict(processors="2", spin=True) if apart else dict(processors=f"0-{(os.cpu_count() or 1) - 1}", spin=False)
    with cluster(o, plain, disk=["owner"] * (rows[0].kind == "forward-disk")) as nodes:
        owner, other = nodes
        clients.lab(o.basalt, [owner.address()], rows[0].load, 0.5, owner.dir, prepare=True, **run)
        # Until the link is there for hosts, the path through the other node does not work.
        wait_for(lambda: clients.tries(lambda: clients.lab(o.basalt, [other.address()], rows[0].load, 0.1, other.dir, **run)), "nothing is forwarded")
        for round_no in range(o.rounds):
            for row in rows:
                cases = [("local", owner), ("forwarded", other)]
                for who, to in cases[::-1] if round_no % 2 else cases:
                    before, began = [processor_seconds(node.process.pid) for node in nodes], time.monotonic()
                    sample = clients.lab(o.basalt, [to.address()], row.load, o.seconds, to.dir, **run)
                    took = time.monotonic() - began
                    sample["node_cores"] = [(processor_seconds(node.process.pid) - b) / took for node, b in zip(nodes, before)]
                    runs.add(round_no, row, who, sample)
                    shares = ", ".join(f"{node.name} {share:.2f}" for node, share in zip(nodes, sample["node_cores"]))
                    print(f"         processors: {shares}, client {sample['client_cores']:.2f}; "
                          f"{sample['iops'] / sum(sample['node_cores']):,.0f} IOPS a core of the nodes", flush=True)
