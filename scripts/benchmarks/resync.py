"""What a resync costs those who use the volume: the latency of a load while a copy gets what it misses, beside that of the same load while the resync
stands still and the copy gets changes only. And how fast the copy comes back.
"""
import os
import statistics
import threading
import time

from . import Failed, clients
from .forward import APART_MIN, cluster
from .mirrored import make_mirror
from .processes import wait_for
from .rows import MIB

VOLUME_MIB = 640
LOAD_OF_MAXIMUM = 0.5
PACES = ("paused", "low", "normal", "high")


def component(owner):
    """The copy that comes back into sync; None when there is none."""
    return next((c for c in owner.json("volume", "show", "both")["components"] if c["state"] == "resyncing"), None)


def begin_again(owner):
    """The second copy is made anew: all of it is missing."""
    wait_for(lambda: owner.tries("volume", "set", "both", "--policy", "default"), "the volume does not lose its copy")
    wait_for(lambda: len(owner.json("volume", "show", "both")["components"]) == 1, "the copy does not leave")
    wait_for(lambda: owner.tries("volume", "set", "both", "--policy", "two"), "the volume does not get a copy")
    wait_for(lambda: component(owner) is not None, "no resync begins")


def measure(o, rows, runs):
    apart = (os.cpu_count() or 1) >= APART_MIN
    run = dict(processors="2", spin=True) if apart else dict(processors=f"0-{(os.cpu_count() or 1) - 1}", spin=False)
    load, samples = rows[0].load, {pace: [] for pace in PACES}
    with cluster(o, False, "balance = false\n") as (owner, other):
        owner.volume = f"{VOLUME_MIB}MiB"
        make_mirror(owner, other)
        prepare = lambda: clients.tries(lambda: clients.lab(o.basalt, [owner.address(2)], load, 0.5, owner.dir, prepare=True, **run))  # noqa: E731
        wait_for(prepare, "the volume is not served")
        most = clients.lab(o.basalt, [owner.address(2)], load, o.seconds, owner.dir, **run)["iops"]
        for round_no in range(o.rounds):
            for pace in PACES[:: -1 if round_no % 2 else 1]:
                owner.admin("volume", "set", "both", "--resync", "low")
                begin_again(owner)
                owner.admin("volume", "set", "both", "--resync", "paused")
                # The load is there before anything is copied beside it.
                paced = threading.Timer(clients.WARM_UP_S, lambda: owner.admin("volume", "set", "both", "--resync", pace))  # noqa: B023
                paced.start()
                before, began = owner.metric("basalt_object_resynced_blocks_total"), time.monotonic()
                sample = clients.lab(o.basalt, [owner.address(2)], load, o.seconds, owner.dir, rate=most * LOAD_OF_MAXIMUM, **run)
                paced.join()
                sample["resynced_mib_per_s"] = (owner.metric("basalt_object_resynced_blocks_total") - before) * 4096 / MIB / (time.monotonic() - began)
                sample["whole"] = component(owner) is not None
                if sample["errors"]:
                    raise Failed(f"with the resync {pace}: {sample['errors'][0]}")
                samples[pace].append(sample)
                print(f"round {round_no + 1}  resync {pace:7} {sample['iops']:10,.0f} IOPS  p50 {sample['p50_us']:7.0f} us  p99 {sample['p99_us']:7.0f} us  "
                      f"{sample['resynced_mib_per_s']:7.1f} MiB/s resynced{'' if sample['whole'] else ', which ended before'}", flush=True)
    for row in rows:
        pace = next(pace for pace in PACES[1:] if f"resync {pace}" in row.work)
        pairs = [with_it[row.figure] / without[row.figure] for with_it, without in zip(samples[pace], samples["paused"])]
        speed = statistics.median(s["resynced_mib_per_s"] for s in samples[pace])
        note = (f"{min(pairs):.2f} to {max(pairs):.2f} in {len(pairs)} rounds at {most * LOAD_OF_MAXIMUM:,.0f} IOPS; p99 "
                f"{statistics.median(s['p99_us'] for s in samples['paused']):.0f} us without; {speed:.0f} MiB/s resynced")
        runs.value(row, statistics.median(pairs), note, {"ratios": pairs, "samples": {p: samples[p] for p in ("paused", pace)}})
