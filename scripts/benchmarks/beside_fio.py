"""Rows beside fio on a real disk.

Ours go through NVMe/TCP to a target on processor 0 whose disk group lies in files of the disk. The lab's client runs on
processor 1 and polls for answers all the time, as spdk_nvme_perf does. fio works on a file of the same file system, on
processor 1. All files have every block written before anything counts: what a file system does at the first write of a
block is nobody's gain. The daemon is stopped (SIGSTOP) while fio is measured, so that destaging takes nothing from the
disk. Who begins changes with every round.
"""
import os
import shutil
import subprocess
import tempfile
import time

from . import Failed, clients
from .processes import Basalt
from .rows import GIB, KIB, MIB, Load

FILE_BYTES = GIB  # what fio works on, and the volume
CAPACITY_BYTES = 2 * GIB
BUFFER_BYTES = 4 * GIB  # below 30 % of it nothing is destaged
SMALL_BUFFER_BYTES = 256 * MIB
NOT_FULL = 0.10  # of the buffer, when a measurement begins
FULL = 0.50
# Files in memory have no data sync worth the name.
IN_MEMORY = ("tmpfs", "ramfs")


def refuse_memory(folder):
    kind = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True, check=True).stdout.strip()
    if kind in IN_MEMORY:
        raise Failed(f"{folder} lies in memory ({kind}): give a folder on a disk with --dir")
    need, room = BUFFER_BYTES + CAPACITY_BYTES + FILE_BYTES + GIB, shutil.disk_usage(folder).free
    if room < need:
        raise Failed(f"{folder}: {need / GIB:.0f} GiB are needed, {room / GIB:.1f} GiB are free: give another folder with --dir")
    return kind


def measure(o, kind, rows, runs):
    folder = tempfile.mkdtemp(prefix="basalt-bench-", dir=o.dir)
    try:
        file = f"{folder}/fio"
        written(file, FILE_BYTES)
        small = kind != "buffer"
        with files_of_ours(o, folder, SMALL_BUFFER_BYTES if small else BUFFER_BYTES) as target:
            begin(o, target, kind)
            for round_no in range(o.rounds):
                for row in rows_by_load(rows):
                    one_round(o, kind, target, file, row, runs, round_no)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def rows_by_load(rows):
    """Rows that look at the same load are measured once: lists of rows."""
    by = {}
    for row in rows:
        by.setdefault(row.load, []).append(row)
    return by.values()


def one_round(o, kind, target, file, rows, runs, round_no):
    load = rows[0].load
    samples = {}
    for who in ("basalt", "fio") if round_no % 2 == 0 else ("fio", "basalt"):
        if who == "fio":
            with target.frozen():
                samples[who] = clients.fio(file, load, o.seconds)
            continue
        fill_level(o, target, kind, load)
        before = target.metric("basalt_store_destaged_bytes_total")
        sample = clients.lab(o.basalt, [target.address()], load, o.seconds, target.dir)
        sample["fill_after"] = round(target.fill(), 3)
        sample["destaged_mib"] = round((target.metric("basalt_store_destaged_bytes_total") - before) / MIB)
        samples[who] = sample
    for row in rows:
        for who, sample in samples.items():
            runs.add(round_no, row, who, sample)


def fill_level(o, target, kind, load):
    """Brings the buffer to where this kind of rows wants it."""
    if kind == "buffer":
        target.wait_until_drained(NOT_FULL)
    elif kind == "sustained":
        end = time.monotonic() + 300
        while target.fill() < FULL:
            if time.monotonic() > end:
                raise Failed(f"the buffer does not fill: {target.fill():.0%} after 300 s")
            clients.lab(o.basalt, [target.address()], Load(32, 4 * KIB, 0.0), 1, target.dir)


def begin(o, target, kind):
    """Every block of the volume is written; for reads from capacity, it is there and nowhere else."""
    clients.lab(o.basalt, [target.address()], Load(8, 128 * KIB, 1.0, random=False), 0.5, target.dir, prepare=True)
    if kind == "capacity":
        target.wait_until_destaged()
        end = time.monotonic() + 120
        while from_buffer(o, target) > 0:  # segments that wait for a checkpoint still serve reads
            if time.monotonic() > end:
                raise Failed("the buffer still serves reads 120 s after everything was destaged")
            time.sleep(1)


def from_buffer(o, target):
    """Blocks that a short burst of reads found in the buffer."""
    before = target.metric("basalt_store_read_buffer_blocks_total")
    clients.lab(o.basalt, [target.address()], Load(32, 4 * KIB, 1.0), 0.5, target.dir)
    return target.metric("basalt_store_read_buffer_blocks_total") - before


def files_of_ours(o, folder, buffer_bytes):
    cache, capacity = f"{folder}/cache", f"{folder}/capacity"
    written(cache, buffer_bytes)
    written(capacity, CAPACITY_BYTES)
    return Basalt(o.basalt, cache, capacity, shards=o.shards, folder=folder)


def written(path, length):
    """A file whose every block was written and is on the disk."""
    zeroes = bytes(4 * MIB)
    with open(path, "wb", buffering=0) as f:
        for _ in range(length // len(zeroes)):
            f.write(zeroes)
        os.fsync(f.fileno())
