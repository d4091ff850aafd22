"""The command: options, the peers that are there, the rows in order. What is left out is said, with the reason."""
import argparse
import datetime
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys

from . import Failed, beside_ceph, beside_fio, beside_iscsi, beside_spdk, forward, host, mirrored, resync
from .report import CLIENTS, Runs, text, write
from .rows import KINDS, ROWS

ROOT = pathlib.Path(__file__).resolve().parents[2]


def options(doc):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    built = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser.add_argument("--spdk", default="", help="a built SPDK tree: build/bin/nvmf_tgt, build/bin/spdk_nvme_perf, scripts/rpc.py")
    parser.add_argument("--dir", default=str(built), help="a folder on the disk to measure, 8 GiB free; nothing stays [default: %(default)s]")
    parser.add_argument("--basalt", default=str(built / "release/basalt"), help="[default: %(default)s]")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4, help="of each measurement")
    parser.add_argument("--shards", type=int, default=1, help="of our disk groups, for one core [default: 1]")
    parser.add_argument("--only", action="append", default=[], help="only rows with this in kind or work; more than once: any of them")
    parser.add_argument("--clients", action="store_true", help="measure the clients, not the targets")
    parser.add_argument("--list", action="store_true", help="show the rows and end")
    parser.add_argument("--out", type=pathlib.Path, default=built / "bench/bench.json", help="JSON; a page .md goes beside it [default: %(default)s]")
    return parser.parse_args()


def chosen(o):
    rows = [row for row in ROWS if not o.only or any(f"{row.kind}: {row.work}".find(text) >= 0 for text in o.only)]
    if o.clients:
        rows = [row for row in rows if row.kind in CLIENTS]
    if not rows:
        raise Failed("no row has that in it: see --list")
    return rows


def show(rows):
    for kind in KINDS:
        if any(row.kind == kind for row in rows):
            print(f"{KINDS[kind]}  [{kind}]")
        for row in (row for row in rows if row.kind == kind):
            print(f"  {row.work:70} goal {row.goal_text()}{'  beside ' + row.reference if row.reference else ''}")


def missing(o, kind):
    """Why rows of this kind cannot be measured; None when they can."""
    beside = pathlib.Path(o.basalt).parent
    if kind in ("spdk", "digests", "iscsi", "mirror"):
        if not o.spdk:
            return "no SPDK tree was given (make bench SPDK=DIR)"
        programs = ("build/bin/iscsi_tgt",) if kind == "iscsi" else ("build/bin/nvmf_tgt", "build/bin/spdk_nvme_perf")
        lacks = [f for f in (*programs, "scripts/rpc.py") if not os.path.exists(f"{o.spdk}/{f}")]
        if lacks:
            return f"{o.spdk} is no built SPDK tree: no {', '.join(lacks)}"
    if kind == "iscsi-tgt" and beside_iscsi.lacks_tgt():
        return beside_iscsi.lacks_tgt()
    if kind == "iscsi" and o.clients and not shutil.which("iscsi-perf"):
        return "no iscsi-perf (apt install libiscsi-bin)"
    if kind in ("buffer", "sustained", "capacity") and not shutil.which("fio"):
        return "fio is not installed (apt install fio)"
    if kind == "idle" and not (beside / "basalt-client").exists():
        return f"no {beside}/basalt-client (cargo build --release -p lab)"
    if kind.startswith("ceph") and beside_ceph.lacks():
        return f"{beside_ceph.lacks()} (apt install {beside_ceph.PACKAGES})"
    if kind.startswith(("forward", "mirror", "resync", "ceph")) and forward.etcd_programs() is None:
        return "no etcd (apt install etcd-server etcd-client, or scripts/programs-for-tests etcd)"
    if kind == "growth" and not (beside / "examples/buffer_growth").exists():
        return f"no {beside}/examples/buffer_growth (cargo build --release -p store --example buffer_growth)"
    if kind in ("spdk", "digests", "iscsi", "iscsi-tgt", "buffer", "sustained", "capacity", "cores") and (os.cpu_count() or 1) < 2:
        return "the machine has one processor: target and client need one each"
    return None


def measure(o, rows, runs):
    """Measures kind after kind; gives what was left out."""
    left_out = []
    if o.clients:
        for kind, compare in (("spdk", beside_spdk.both_clients), ("iscsi", beside_iscsi.both_clients)):
            mine = [row for row in rows if row.kind == kind]
            why = missing(o, kind) if mine else None
            if why:
                raise Failed(why)
            if mine:
                compare(o, mine, runs)
        return left_out
    measures = {"spdk": beside_spdk.targets, "digests": beside_spdk.targets,
                "iscsi": beside_iscsi.targets, "iscsi-tgt": beside_iscsi.targets, "cores": host.cores, "idle": host.idle, "memory": host.memory,
                "growth": host.growth, "forward": forward.measure, "forward-plain": forward.measure, "forward-disk": forward.measure,
                "mirror": mirrored.measure, "mirror-plain": mirrored.measure, "resync": resync.measure,
                "ceph": beside_ceph.measure, "ceph-disk": beside_ceph.measure}
    for kind in KINDS:
        mine = [row for row in rows if row.kind == kind]
        why = missing(o, kind) if mine else None
        if mine and why is None and kind in ("buffer", "sustained", "capacity", "forward-disk", "ceph", "ceph-disk"):
            try:
                beside_ceph.refuse_disk() if kind == "ceph" else beside_fio.refuse_memory(o.dir)
            except Failed as e:
                why = str(e)
        if why:
            left_out.append(f"{KINDS[kind]}: {why}")
            print(f"left out: {left_out[-1]}", flush=True)
        elif kind in ("buffer", "sustained", "capacity") and mine:
            beside_fio.measure(o, kind, mine, runs)
        elif mine:
            measures[kind](o, mine, runs)
    return left_out


def said(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "none"


def head(o):
    with open("/proc/cpuinfo") as f:
        cpu = next((l.split(":")[1].strip() for l in f if l.startswith("model name")), "?")
    return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "machine": f"{cpu}, {os.cpu_count()} processors, {os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') >> 30} GiB, "
                       f"Linux {platform.release()}",
            "load": "at the beginning " + ", ".join(f"{l:.2f}" for l in os.getloadavg()),
            "basalt": said([o.basalt, "--version"]), "spdk": said([f"{o.spdk}/build/bin/nvmf_tgt", "--version"]) if o.spdk else "none",
            "fio": said(["fio", "--version"]), "tgt": said(["tgtd", "--version"]), "ceph": said(["ceph-osd", "--version"]),
            "disk": said(["findmnt", "-no", "SOURCE,FSTYPE", "--target", o.dir]),
            "rounds": f"{o.rounds} of {o.seconds} s", "command": " ".join(sys.argv)}


def main(doc):
    o = options(doc)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is stopped
    try:
        rows = chosen(o)
        if o.list:
            show(rows)
            return 0
        if not os.access(o.basalt, os.X_OK):
            raise Failed(f"no {o.basalt}: cargo build --release -p basalt, or --basalt FILE")
        os.makedirs(o.out.parent, exist_ok=True)
        os.makedirs(o.dir, exist_ok=True)
        about = head(o)
        for key, value in about.items():
            print(f"{key}: {value}")
        runs = Runs(o.clients)
        left_out = measure(o, rows, runs)
        about["load"] += "; at the end " + ", ".join(f"{l:.2f}" for l in os.getloadavg())
        results = runs.rows()
        print(text(results))
        print(f"\n{write(o.out, about, results, left_out)} and {o.out} have it, too")
        return int(runs.errors_of_ours())
    except (Failed, subprocess.TimeoutExpired) as e:
        print(f"bench: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
