"""What was measured: every sample kept, medians and ratios of it, as text, JSON and Markdown."""
import json
import statistics

from .rows import KINDS

# The two that are compared, ours first, by kind of row.
PAIRS = {"spdk": ("basalt", "spdk"), "digests": ("basalt", "spdk"), "iscsi": ("basalt", "spdk"), "iscsi-tgt": ("basalt", "tgt"), "buffer": ("basalt", "fio"), "sustained": ("basalt", "fio"),
         "capacity": ("basalt", "fio"), "cores": ("two cores", "one core"), "forward": ("forwarded", "local"),
         "forward-plain": ("forwarded", "local"), "forward-disk": ("forwarded", "local"),
         "mirror": ("two copies", "spdk"), "mirror-plain": ("two copies", "one copy"),
         "ceph": ("basalt", "ceph"), "ceph-disk": ("basalt", "ceph")}
# The same by kind of row where the clients are compared, and what that is called.
CLIENTS = {"spdk": ("clients", ("basalt lab", "spdk_nvme_perf"), "The lab's NVMe/TCP client beside spdk_nvme_perf, both against SPDK's target"),
           "iscsi": ("clients-iscsi", ("basalt lab", "iscsi-perf"), "The lab's iSCSI initiator beside iscsi-perf of libiscsi, both against SPDK's target")}
PEERS = {names[1] for names in [*PAIRS.values(), *(names for _, names, _ in CLIENTS.values())]} - {names[0] for names in PAIRS.values()}

TITLES = {**KINDS, **{kind: title for kind, _, title in CLIENTS.values()}}


class Runs:
    """All samples, in the order they were taken."""

    def __init__(self, clients=False):
        self.clients = clients  # whether it is the clients that are compared
        self.samples = {}  # row -> who -> [sample]
        self.values = {}  # row -> (value, note, details)
        self.said = None  # the sample that was printed last: rows that look at one load share it

    def add(self, round_no, row, who, sample):
        self.samples.setdefault(row, {}).setdefault(who, []).append(sample)
        if sample is self.said:
            return
        self.said = sample
        more = f" {sample['p99_9_us']:9.0f} us p99.9" if sample.get("p99_9_us") is not None else ""
        print(f"round {round_no + 1}  {who:14}  {row.work:46} {sample['iops']:12,.0f} IOPS {sample['us']:9.1f} us{more}"
              f"{'  ERRORS' if sample['errors'] else ''}", flush=True)

    def value(self, row, value, note, details):
        """A row without a peer: one figure, and how it came about."""
        self.values[row] = (value, note, details)
        print(f"{row.work}: {value:.3g} {row.unit}; {note}", flush=True)

    def errors_of_ours(self):
        return any(s["errors"] for by in self.samples.values() for who, all in by.items() if who not in PEERS
                   for s in all)

    def rows(self):
        rows = [self._ratio(row, by) for row, by in self.samples.items()]
        for row, (value, note, details) in self.values.items():
            rows.append({"kind": row.kind, "work": row.work, "reference": row.reference, "goal": row.goal_text(), "value": value,
                         "unit": row.unit, "reached": row.reached(value), "note": note, "details": details})
        return rows

    def _ratio(self, row, by):
        kind, names, _ = CLIENTS[row.kind] if self.clients else (row.kind, PAIRS[row.kind], None)
        ours, theirs = ([s[row.figure] for s in by[who]] for who in names)
        pairs = sorted(a / b for a, b in zip(ours, theirs))
        ratio = statistics.median(pairs)
        goal = None if self.clients else row.reached(ratio)
        return {"kind": kind, "work": row.work, "reference": row.reference, "goal": "-" if self.clients else row.goal_text(),
                "ours": statistics.median(ours), "theirs": statistics.median(theirs), "unit": row.unit, "names": names,
                "ratio": ratio, "ratio_min": pairs[0], "ratio_max": pairs[-1], "rounds": len(pairs), "reached": goal, "samples": by}


def ratio(value):
    """Two decimals; small ones have two digits that count."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def verdict(row):
    return {None: "-", True: "yes", False: "no"}[row["reached"]]


def text(rows):
    """Medians and ratios for people, as one string."""
    lines = []
    kind = None
    for row in rows:
        if row["kind"] != kind:
            kind = row["kind"]
            lines.append(f"\n{TITLES[kind]}")
            if "ratio" in row:
                lines.append(f"{'':48} {row['names'][0]:>14} {row['names'][1]:>14} {'ratio':>7} {'of rounds':>15} {'goal':>16} reached")
        if "ratio" in row:
            lines.append(f"{row['work']:48} {row['ours']:14,.0f} {row['theirs']:14,.0f} {ratio(row['ratio']):>7} {ratio(row['ratio_min']):>7} "
                         f"{ratio(row['ratio_max']):>7} {row['goal']:>16} {verdict(row)}")
        else:
            lines.append(f"{row['work']:48} {row['value']:.3g} {row['unit']}, goal {row['goal']}, reached: {verdict(row)}; {row['note']}")
    return "\n".join(lines or ["nothing was measured"])


def markdown(head, rows, left_out):
    lines = ["# Benchmark", ""]
    lines += [f"- {key}: {value}" for key, value in head.items()]
    lines += [f"- left out: {what}" for what in left_out]
    kind = None
    for row in rows:
        if row["kind"] != kind:
            kind = row["kind"]
            lines += ["", f"## {TITLES[kind]}", ""]
            if "ratio" in row:
                lines += [f"| work | {row['names'][0]} | {row['names'][1]} | ratio | rounds | goal | reached |",
                          "| --- | ---: | ---: | ---: | --- | ---: | --- |"]
            else:
                lines += ["| what | measured | goal | reached | how |", "| --- | ---: | ---: | --- | --- |"]
        if "ratio" in row:
            unit = "" if row["unit"] == "IOPS" else f" {row['unit']}"
            lines.append(f"| {row['work']} | {row['ours']:,.0f}{unit} | {row['theirs']:,.0f}{unit} | {ratio(row['ratio'])} | "
                         f"{ratio(row['ratio_min'])} to {ratio(row['ratio_max'])} | {row['goal']} | {verdict(row)} |")
        else:
            lines.append(f"| {row['work']} | {row['value']:.3g} {row['unit']} | {row['goal']} | {verdict(row)} | {row['note']} |")
    return "\n".join(lines) + "\n"


def write(out, head, rows, left_out):
    """The JSON file and the Markdown page beside it; gives the page's name."""
    with open(out, "w") as f:
        json.dump({**head, "left_out": left_out, "rows": rows}, f, indent=1)
    page = out.with_suffix(".md")
    page.write_text(markdown(head, rows, left_out))
    return page
