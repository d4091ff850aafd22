"""The loads. Each gives a sample: {"iops", "us" (mean), "errors" (texts), and where it knows them "p99_9_us", "client_cores"}."""
import itertools
import json
import os
import re
import subprocess

from . import Failed

WARM_UP_S = 0.3
# No run goes the way of another: blocks that are written again while they lie in the buffer need not be destaged.
SEEDS = itertools.count(1)


def perf(tree, target, load, seconds):
    """spdk_nvme_perf on processor 1."""
    where = f"trtype:TCP adrfam:IPv4 traddr:127.0.0.1 trsvcid:{target.port} subnqn:{target.nqn}"
    pattern = "rand" * load.random + ("read" if load.reads == 1 else "write" if load.reads == 0 else "rw")
    mix = [] if load.reads in (0, 1) else ["-M", str(round(load.reads * 100))]
    digests = ["-H", "-I"] if load.digests else []
    command = [f"{tree}/build/bin/spdk_nvme_perf", "-c", "0x2", "--no-huge", "-s", "512", "--iova-mode", "va", "-q", str(load.depth),
               "-o", str(load.size), "-w", pattern, *mix, *digests, "-t", str(seconds), "-r", where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60)
    total = next((line for line in done.stdout.splitlines() if line.startswith("Total")), None)
    if done.returncode or total is None:
        raise Failed(f"spdk_nvme_perf failed against {target.name}:\n{done.stdout}\n{done.stderr}")
    # At its own end the client reports the queues that it closed itself ("CQ transport error -6"), to every target.
    errors = [l for l in (done.stdout + done.stderr).splitlines() if "ERROR" in l and "CQ transport error -6" not in l]
    fields = total.split(":")[1].split()
    return {"iops": float(fields[0]), "us": float(fields[2]), "errors": errors}


def lab(binary, disks, load, seconds, folder, workers=1, processors="1", spin=True, prepare=False, rate=0):
    """The lab on one or more disks at once; `spin`: its threads never sleep; `prepare`: all blocks are written first; `rate`: in an open loop."""
    profile = f"{folder}/load.toml"
    with open(profile, "w") as f:
        f.write(f'name = "load"\n[[workloads]]\nname = "load"\ndepth = {load.depth}\n[[workloads.streams]]\n'
                f'sizes = [{{ bytes = {load.size} }}]\nreads = {load.reads}\n'
                f'access = {{ pattern = "{"random" if load.random else "sequential"}" }}\n')
    if load.digests:
        disks = [f"{d}{'&' if '?' in d else '?'}digests=both" for d in disks]
    command = ["taskset", "-c", processors, binary, "lab", "run", profile, *disks, "--json", "--destroy", "--workers", str(workers),
               *["--spin"] * spin, "--warm-up", f"{round(WARM_UP_S * 1000)}ms", "--time", f"{round(seconds * 1000)}ms", "--results", f"{folder}/results", "--seed", str(next(SEEDS)),
               *(["--rate", str(round(rate))] if rate else []), *(["--prepare", "random"] if prepare else ["--unwritten"])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + (1200 if prepare else 60))
    if done.returncode:
        raise Failed(f"the lab failed against {' '.join(disks)}:\n{done.stdout}\n{done.stderr}")
    case = json.loads(done.stdout)["cases"][0]
    return {"iops": case["iops"], "us": case["mean_us"], "p50_us": case["p50_us"], "p99_us": case["p99_us"], "p99_9_us": case["p99_9_us"], "client_cores": case["client_cores"],
            "errors": [f"{case['errors']} operations failed"] * bool(case["errors"])}


def iscsi_perf(disk, load, seconds):
    """libiscsi's iscsi-perf on processor 1: reads. It prints means only, and its mean latency follows from how many requests are under way."""
    command = ["taskset", "-c", "1", "stdbuf", "-oL", "iscsi-perf", "-m", str(load.depth), "-b", str(load.size // 4096), "-t", str(seconds), *["-r"] * load.random, disk]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60)
    found = re.findall(r"iops average (\d+)", done.stdout)
    if done.returncode or not found:
        raise Failed(f"iscsi-perf failed against {disk}:\n{done.stdout}\n{done.stderr}")
    iops = float(found[-1])
    return {"iops": iops, "us": load.depth / iops * 1e6, "errors": []}


def tries(what):
    """Whether it can be done now."""
    try:
        what()
        return True
    except Failed:
        return False


def fio(file, load, seconds):
    """fio on processor 1, io_uring with O_DIRECT; writes are O_DSYNC as well: durable when they are answered."""
    where = ["--ioengine=io_uring", f"--filename={file}", f"--size={os.path.getsize(file)}", *(["--sync=dsync"] if load.reads == 0 else [])]
    return _fio(["taskset", "-c", "1", "fio"], where, load, seconds, file)


def fio_rbd(conf, pool, image, load, seconds, prepare=False):
    """fio on an image of Ceph, through librbd; `prepare`: all of it is written first, and that is the sample."""
    where = ["--ioengine=rbd", "--clientname=admin", f"--pool={pool}", f"--rbdname={image}"]
    return _fio(["fio"], where, load, 0 if prepare else seconds, f"{pool}/{image}", {**os.environ, "CEPH_CONF": conf})


def _fio(program, where, load, seconds, name, env=None):
    """`seconds` 0: once from the first block to the last."""
    pattern = "rand" * load.random + ("read" if load.reads == 1 else "write")
    span = ["--time_based", f"--ramp_time={round(WARM_UP_S * 1000)}ms", f"--runtime={round(seconds * 1000)}ms"] if seconds else []
    command = [*program, "--thread", "--name=bench", *where, "--direct=1", f"--rw={pattern}", f"--bs={load.size}", f"--iodepth={load.depth}",
               "--randrepeat=0", f"--randseed={next(SEEDS)}", *span,
               "--lat_percentiles=1", "--clat_percentiles=0", "--percentile_list=99.9", "--output-format=json"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=seconds + 120)
    if done.returncode:
        raise Failed(f"fio failed on {name}:\n{done.stdout}\n{done.stderr}")
    job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
    did = job["read" if load.reads == 1 else "write"]
    return {"iops": did["iops"], "us": did["lat_ns"]["mean"] / 1000, "p99_9_us": did["lat_ns"]["percentile"]["99.900000"] / 1000,
            "errors": [f"error {job['error']}"] * bool(job["error"])}
