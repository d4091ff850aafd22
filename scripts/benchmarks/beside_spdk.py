"""Rows beside SPDK's target, under spdk_nvme_perf; and the clients beside each other.

Targets run on processor 0, the client on processor 1, over loopback, on a volume of 1 GiB in memory. It is written once
before anything counts: nobody gains by blocks that were never there. The targets take turns, and who begins changes
with every round.
"""
from . import clients
from .processes import Basalt, Spdk
from .rows import KIB, Load

FILL = Load(8, 128 * KIB, 0.0, random=False)
FILL_SECONDS = 6  # more than enough for 1 GiB


def targets(o, rows, runs):
    for round_no in range(o.rounds):
        makers = [("basalt", lambda: Basalt.in_memory(o, shards=o.shards)), ("spdk", lambda: Spdk(o.spdk))]
        for who, make in makers[::-1] if round_no % 2 else makers:
            with make() as target:
                clients.perf(o.spdk, target, FILL, FILL_SECONDS)
                for row in rows:
                    runs.add(round_no, row, who, clients.perf(o.spdk, target, row.load, o.seconds))


def both_clients(o, rows, runs):
    with Spdk(o.spdk) as target:
        clients.perf(o.spdk, target, FILL, FILL_SECONDS)
        measure = {"basalt lab": lambda load: clients.lab(o.basalt, [target.address()], load, o.seconds, target.dir),
                   "spdk_nvme_perf": lambda load: clients.perf(o.spdk, target, load, o.seconds)}
        for round_no in range(o.rounds):
            for row in rows:
                for who in sorted(measure, reverse=round_no % 2 == 0):
                    runs.add(round_no, row, who, measure[who](row.load))
