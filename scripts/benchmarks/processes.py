"""The targets as processes: started on chosen processors, given what they serve, stopped by their number whatever happens."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

from . import Failed

NQN = "nqn.2026-11.io.basalt:default"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(what, why, seconds=60, process=None):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end or (process is not None and process.poll() is not None):
            raise Failed(why)
        time.sleep(0.1)


def processor_seconds(pid):
    """User and system time of a process until now."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid):
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def end(process):
    """Ends a process, stopped or not, and waits for it."""
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Watch:
    """`with Watch(pids, seconds) as watch:` looks at the processor time of processes while a load runs on them. `cores()` is what each took in those
    `seconds` in which all of them together took most, so that the time in which a client starts and ends is not counted as rest."""

    every = 0.05

    def __init__(self, pids, seconds):
        self.pids, self.seconds, self.samples = pids, seconds, []
        self.done, self.thread = threading.Event(), threading.Thread(target=self._look)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()

    def _look(self):
        over = False
        while not over:
            over = self.done.wait(self.every)
            self.samples.append((time.monotonic(), [processor_seconds(pid) for pid in self.pids]))

    def cores(self):
        best, last = None, 0
        for at, spent in self.samples:
            while last + 1 < len(self.samples) and at - self.samples[last + 1][0] >= self.seconds:
                last += 1
            since, before = self.samples[last]
            if at - since >= self.seconds:
                shares = [(s - b) / (at - since) for s, b in zip(spent, before)]
                best = shares if best is None or sum(shares) > sum(best) else best
        if best is None:
            raise Failed(f"the load did not run for {self.seconds} s")
        return best


class Target:
    """A process with a folder of its own that goes when it is stopped. `with` stops it."""

    def __init__(self, name, folder=None):
        self.name, self.port, self.process = name, free_port(), None
        self.dir = tempfile.mkdtemp(prefix="basalt-bench-", dir=folder)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.process is not None:
            end(self.process)
        shutil.rmtree(self.dir, ignore_errors=True)

    def frozen(self):
        """`with target.frozen():` it does not run meanwhile, so it takes nothing from what is measured beside it."""
        return _Frozen(self.process)


class _Frozen:
    def __init__(self, process):
        self.process = process

    def __enter__(self):
        self.process.send_signal(signal.SIGSTOP)

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGCONT)


class Basalt(Target):
    """The daemon with one disk group and volumes of `volume_bytes` each."""

    nqn = NQN

    def __init__(self, binary, cache, capacity, volumes=1, volume="1GiB", shards=1, cores=1, processors="0", folder=None):
        super().__init__("basalt", folder)
        self.binary, self.cache, self.capacity, self.volumes, self.volume = binary, cache, capacity, volumes, volume
        self.shards, self.cores, self.processors = shards, cores, processors
        self.api, self.more = f"{self.dir}/api.sock", ""

    @classmethod
    def in_memory(cls, o, **more):
        return cls(o.basalt, "memory:4GiB:populated", "memory:2GiB:populated", **more)

    def start(self):
        config = f"{self.dir}/basalt.toml"
        with open(config, "w") as f:
            f.write(f'data_dir = "{self.dir}/data"\n[api]\nsocket = "{self.api}"\n[cores]\ncount = {self.cores}\n'
                    f'[log]\nlevel = "error"\n{self.more}[[listeners]]\naddr = "127.0.0.1:{self.port}"\nkind = "io"\n')
        self.process = subprocess.Popen(["taskset", "-c", self.processors, self.binary, "serve", "--config", config],
                                        stdout=subprocess.DEVNULL)
        wait_for(lambda: os.path.exists(self.api), "basalt did not start; what it said stands above", process=self.process)
        self.prepare()

    def prepare(self):
        self.admin("group", "create", "bench", "--shards", str(self.shards), "--cache", self.cache, "--capacity", self.capacity)
        for n in range(self.volumes):
            self.admin("volume", "create", f"bench{n + 1}", "--size", self.volume)

    def admin(self, *words):
        done = subprocess.run([self.binary, "--api", self.api, *words], capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"basalt {' '.join(words)}: {done.stderr.strip()}")

    def tries(self, *words):
        """Whether a command of the administrator succeeds."""
        return subprocess.run([self.binary, "--api", self.api, *words], capture_output=True, text=True).returncode == 0

    def json(self, *words):
        """What a command of the administrator says."""
        done = subprocess.run([self.binary, "--api", self.api, *words, "--json"], capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"basalt {' '.join(words)}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def address(self, n=1):
        return f"nvme-tcp://127.0.0.1:{self.port}/{self.nqn}?nsid={n}"

    def metrics(self):
        """All metrics, as the daemon prints them."""
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.api)
            s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return b"".join(iter(lambda: s.recv(1 << 16), b"")).decode()

    def metric(self, name):
        """The sum of a metric over its labels."""
        values = re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", self.metrics(), re.M)
        if not values:
            raise Failed(f"basalt has no metric {name}")
        return sum(map(float, values))

    def fill(self):
        """Share of the write buffer that is in use."""
        return self.metric("basalt_buffer_used_bytes") / self.metric("basalt_buffer_size_bytes")

    def wait_until_drained(self, share, seconds=600):
        wait_for(lambda: self.fill() <= share, f"the write buffer did not drain to {share:.0%} in {seconds} s: {self.fill():.0%}", seconds)

    def wait_until_destaged(self, seconds=600):
        """Until no block has its newest version in the buffer only, and its segments are given back."""
        wait_for(lambda: self.metric("basalt_store_buffer_live_bytes") == 0, f"not everything was destaged in {seconds} s", seconds)


class Spdk(Target):
    """SPDK's target for NVMe/TCP with a malloc device, without huge pages."""

    nqn = "nqn.2016-06.io.spdk:bench"
    program, waits = "nvmf_tgt", False  # whether it starts when it is asked to, after its options

    def __init__(self, tree):
        super().__init__("spdk")
        self.tree = tree

    def devices(self):
        """The commands that make what it serves, and what that is called."""
        return [["bdev_malloc_create", "-b", "M0", "1024", "4096"]], "M0"

    def requests(self):
        """What it is asked for after its start."""
        devices, served = self.devices()
        return [["nvmf_create_transport", "-t", "TCP", "-c", "8192", "-q", "256"], *devices,
                ["nvmf_create_subsystem", self.nqn, "-a"], ["nvmf_subsystem_add_ns", self.nqn, served],
                ["nvmf_subsystem_add_listener", self.nqn, "-t", "tcp", "-a", "127.0.0.1", "-s", str(self.port)]]

    def start(self):
        rpc = f"{self.dir}/rpc.sock"
        self.process = subprocess.Popen([f"{self.tree}/build/bin/{self.program}", "-m", "0x1", "--no-huge", "-s", "2560", "--no-pci",
                                         "--iova-mode", "va", "-r", rpc, *["--wait-for-rpc"] * self.waits],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: os.path.exists(rpc), f"SPDK's {self.program} did not start: does it start by hand, and are 3 GiB of memory free?",
                 process=self.process)
        time.sleep(1)
        env = {**os.environ, "PATH": "/usr/bin:" + os.environ["PATH"]}
        for words in self.requests():
            done = subprocess.run([f"{self.tree}/scripts/rpc.py", "-s", rpc, *words], env=env, capture_output=True, text=True)
            if done.returncode:
                raise Failed(f"SPDK's rpc.py {words[0]}: {(done.stdout + done.stderr).strip()}")

    def address(self, n=1):
        return f"nvme-tcp://127.0.0.1:{self.port}/{self.nqn}?nsid={n}"
