"""Rows of the node itself: a second core, rest, memory, and the write buffer as it grows."""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

from . import Failed, clients
from .processes import Basalt, processor_seconds, resident_bytes, wait_for
from .rows import GIB, KIB, TIB, Load

CORES_VOLUMES = 4
IDLE_HOSTS = 32
IDLE_SECONDS = 15
CHUNK_BYTES = 64 * KIB
PIECE_CHUNKS = 16  # of an object, 1 MiB: they get neighbouring places in the chunk table
# Chunks in use at which memory is looked at: enough to tell chunks and pieces apart, few enough for minutes.
MEMORY_CHUNKS = (20_000, 60_000, 130_000, 250_000, 400_000, 600_000)
MEMORY_SLOWLY = 130_000  # up to here pieces are added, and one command at a time is written: many would pass the points by
MEMORY_VOLUME_GIB = 64  # on a device of 1 TiB
MEMORY_BUFFER_GIB = 16  # sparse; all that is written stays below 30 % of it, so no destaging slows it down
MEMORY_FREE = 8 * GIB
GROWTH_GIB = (1, 4, 16, 64)
GROWTH_BYTES_A_GIB = 48 << 20  # of this machine's memory, for the simulated buffer and what the store knows of it


def cores(o, rows, runs):
    """One core and two in turn, four volumes at once, the client free on two processors, sleeping when it has nothing to do."""
    row, = rows
    for round_no in range(o.rounds):
        cases = [("one core", 1, "0"), ("two cores", 2, "0,1")]
        for who, count, processors in cases[::-1] if round_no % 2 else cases:
            with Basalt.in_memory(o, volumes=CORES_VOLUMES, volume="256MiB", shards=4, cores=count, processors=processors) as target:
                disks = [target.address(n + 1) for n in range(CORES_VOLUMES)]
                run = dict(workers=2, processors="0,1", spin=False)
                clients.lab(o.basalt, disks, row.load, 0.5, target.dir, prepare=True, **run)
                before, began = processor_seconds(target.process.pid), time.monotonic()
                sample = clients.lab(o.basalt, disks, row.load, o.seconds, target.dir, **run)
                sample["target_cores"] = (processor_seconds(target.process.pid) - before) / (time.monotonic() - began)
                runs.add(round_no, row, who, sample)
                print(f"         the client took {sample['client_cores']:.2f} processors, the target {sample['target_cores']:.2f}", flush=True)


def idle(o, rows, runs):
    """Hosts connected, each with an admin and an I/O connection and keep-alives; a core for each processor."""
    row, = rows
    client = pathlib.Path(o.basalt).parent / "basalt-client"
    count = min(os.cpu_count() or 1, 16)
    with Basalt.in_memory(o, shards=16, cores=count, processors=f"0-{(os.cpu_count() or 1) - 1}") as target:
        hold = subprocess.Popen([client, "hold", "--addr", f"127.0.0.1:{target.port}", "--nqn", target.nqn, "--hosts", str(IDLE_HOSTS),
                                 "--queues", "1", "--seconds", "600"], stdout=subprocess.DEVNULL)
        try:
            wait_for(lambda: target.metric("basalt_sessions") == IDLE_HOSTS, f"not all of {IDLE_HOSTS} hosts could connect", process=hold)
            time.sleep(3)
            shares = []
            for _ in range(max(1, min(o.rounds, 3))):
                before, began = processor_seconds(target.process.pid), time.monotonic()
                time.sleep(IDLE_SECONDS)
                shares.append(100 * (processor_seconds(target.process.pid) - before) / (time.monotonic() - began))
            if target.metric("basalt_sessions") != IDLE_HOSTS:
                raise Failed("hosts were disconnected while at rest")
        finally:
            hold.kill()
            hold.wait()
    note = (f"{IDLE_HOSTS} hosts, {2 * IDLE_HOSTS} TCP connections, {count} cores of the target; {len(shares)} times {IDLE_SECONDS} s, "
            f"{min(shares):.2f} to {max(shares):.2f} %")
    runs.value(row, statistics.median(shares), note, {"percent": shares})


def memory(o, rows, runs):
    """Random 4 KiB writes over a volume of 64 GiB on a sparse device of 1 TiB. What the chunk table takes for a piece (1 MiB) with anything in it, and
    what the map takes for a chunk, follow from how memory grows while first the pieces and then the chunks fill up. What the index of the
    buffer takes, which grows with the buffer and not with the device, is left out."""
    # Sparse files in memory are not the daemon's memory, and fast.
    in_memory = available_bytes() >= MEMORY_FREE and os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free >= MEMORY_FREE // 2
    folder = tempfile.mkdtemp(prefix="basalt-bench-", dir="/dev/shm" if in_memory else o.dir)
    points = []
    try:
        for name, length in (("cache", MEMORY_BUFFER_GIB * GIB), ("capacity", TIB)):
            with open(f"{folder}/{name}", "wb") as f:
                f.truncate(length)
        with Basalt(o.basalt, f"{folder}/cache", f"{folder}/capacity", volume=f"{MEMORY_VOLUME_GIB}GiB", shards=4,
                    folder=folder, processors="0") as target:
            chunks = lambda: target.metric("basalt_capacity_used_bytes") / CHUNK_BYTES
            for goal in MEMORY_CHUNKS:
                while chunks() < goal:
                    depth = 1 if goal <= MEMORY_SLOWLY else 256
                    clients.lab(o.basalt, [target.address()], Load(depth, 4 * KIB, 0.0), 0.2, target.dir)
                points.append({"chunks": chunks(), "pieces": pieces(chunks(), MEMORY_VOLUME_GIB * GIB // CHUNK_BYTES),
                               "resident_bytes": resident_bytes(target.process.pid),
                               "index_bytes": target.metric("basalt_store_index_memory_bytes")})
                print("chunks in use {chunks:,.0f}, pieces {pieces:,.0f}: {resident_bytes:,.0f} bytes resident, {index_bytes:,.0f} of them the "
                      "buffer's index".format(**points[-1]), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    base, a_piece, a_chunk = plane([(p["pieces"], p["chunks"], p["resident_bytes"] - p["index_bytes"]) for p in points])
    off = max(abs(base + a_piece * p["pieces"] + a_chunk * p["chunks"] - p["resident_bytes"] + p["index_bytes"]) for p in points)
    total = TIB // CHUNK_BYTES
    shares = {"20 % of the chunks": 0.2, "20 % of the blocks": 1 - 0.8 ** (CHUNK_BYTES // (4 * KIB))}
    for row in rows:
        count = total * next(s for text, s in shares.items() if text in row.work)
        value = base + a_piece * pieces(count, total) + a_chunk * count
        note = (f"extrapolated, without the buffer's index: {base / 2**20:.0f} MiB, {a_piece:.0f} bytes a piece with anything in it and {a_chunk:.0f} a "
                f"chunk in use, from {len(points)} measured points up to {points[-1]['chunks']:,.0f} chunks (off by at most {off / 2**20:.1f} "
                f"MiB), to {count:,.0f} chunks in {pieces(count, total):,.0f} pieces")
        runs.value(row, value / GIB, note, {"points": points, "base_bytes": base, "bytes_a_piece": a_piece, "bytes_a_chunk": a_chunk})


def pieces(chunks, total):
    """How many pieces of 16 chunks have any of `chunks` in them that were chosen at random among `total`."""
    return total / PIECE_CHUNKS * (1 - (1 - chunks / total) ** PIECE_CHUNKS)


def plane(points):
    """Least squares: z = a + b x + c y for points (x, y, z), by the normal equations."""
    terms = [(1.0, x, y) for x, y, _ in points]
    rows = [[sum(t[i] * t[j] for t in terms) for j in range(3)] + [sum(t[i] * p[2] for t, p in zip(terms, points))] for i in range(3)]
    for i in range(3):
        rows[i] = [v / rows[i][i] for v in rows[i]]
        for k in range(3):
            if k != i:
                rows[k] = [v - rows[k][i] * u for v, u in zip(rows[k], rows[i])]
    return tuple(row[3] for row in rows)


def available_bytes():
    with open("/proc/meminfo") as f:
        return next(int(l.split()[1]) << 10 for l in f if l.startswith("MemAvailable"))


def growth(o, rows, runs):
    """One shard with buffers of several sizes, devices simulated (equal blocks are kept once), the store's own code and processor time."""
    program = pathlib.Path(o.basalt).parent / "examples/buffer_growth"
    sizes = [gib for gib in GROWTH_GIB if gib * GROWTH_BYTES_A_GIB < available_bytes()]
    if len(sizes) < 2:
        raise Failed("too little memory to let the write buffer grow")
    by_size = {gib: [] for gib in sizes}
    for round_no in range(min(o.rounds, 3)):  # the largest takes a minute
        for gib in sizes if round_no % 2 == 0 else sizes[::-1]:
            done = subprocess.run(["taskset", "-c", "1", program, str(gib)], capture_output=True, text=True, timeout=1800)
            if done.returncode:
                raise Failed(f"{program} {gib}: {done.stderr}")
            by_size[gib].append(json.loads(done.stdout))
            print(f"round {round_no + 1}  {gib:3} GiB  {done.stdout.strip()}", flush=True)
    figures = {"a read of the buffer": "read_buffer_ns", "a read of the map": "read_map_ns", "a write": "write_ns",
               "recovery": "recovery_ms_a_gib"}
    for row in rows:
        key = next(k for text, k in figures.items() if row.work.startswith(text + ","))
        medians = {gib: statistics.median(s[key] for s in samples) for gib, samples in by_size.items()}
        ratios = sorted(b[key] / a[key] for a, b in zip(by_size[sizes[0]], by_size[sizes[-1]]))
        unit = "ms" if key.endswith("gib") else "ns"
        note = ", ".join(f"{gib} GiB: {value:,.0f} {unit}" for gib, value in medians.items()) + f"; rounds {ratios[0]:.2f} to {ratios[-1]:.2f}"
        runs.value(row, statistics.median(ratios), note, {"by_gib": by_size})
