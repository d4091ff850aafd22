"""The benchmarks behind scripts/bench.

command.py    options, which peers are there, the order of things
rows.py       every row of the table: work, reference, goal, how it is measured
processes.py  the targets: started, given volumes, stopped
clients.py    the loads: spdk_nvme_perf, the lab, fio on files and on Ceph's images
beside_spdk.py, beside_fio.py, forward.py, mirrored.py, beside_ceph.py, host.py    measure one kind of rows each
report.py     medians and ratios; standard output, JSON, Markdown

Python's standard library only. Every process that is started here is ended here, by its number, also when something fails.
"""


class Failed(Exception):
    """The benchmark cannot go on; the text says why and what to do."""
