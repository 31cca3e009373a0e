"""Fit the mix in ``qops_batsim/workload/node_mixes.json`` to the log of Graham, and compare.

    python studies/presets/node_mix.py --fit > qops_batsim/workload/node_mixes.json
    python studies/presets/node_mix.py      # compare log and mix: seconds

The log is ``graham-2021.csv.gz``: submission, run time and limit (s), nodes, cores, memory (MiB),
GPUs and account of 171,584 jobs of the Digital Research Alliance of Canada that were waiting at
some noon from 24 April to 30 June 2021, from the data that mila-iqia/slurm-queue-time-pred
publishes (MIT licence). It is looked for in QOPS_SHARED (default ../shared).

A burst is jobs of one account that ask for the same, each within ten minutes of the one before.
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
from pathlib import Path

import numpy as np

if __name__ == "__main__":  # the checkout, which has the studies
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from qops_batsim.core.node_request import NodeLayout
from qops_batsim.experiments import find_trace, markdown_table
from qops_batsim.job_fields import AskedPart, HostsAsked
from qops_batsim.workload.node_mix import MIB, NODE_MIXES, sample_node_mix
from studies.shared import arguments, print_or_put, run_main, settings_of

SETTINGS = settings_of(__file__)["graham"]
HOST = {"cores": "32", "memory": "128000MiB"}
HOSTS = [[HOST | {"gpus": "2"}, 0.16], [HOST, 0.84]]
LONGEST_BURST = 200
WITHIN = 600.0
RARE = 0.005
RARE_WIDTH = 0.0005
STRETCH = 5000
TWENTIETHS = np.arange(2.5, 100, 5)

Columns = dict[str, np.ndarray]


def read_log() -> Columns:
    """Read the columns of the log, with ``memory`` in MiB for each core."""
    with gzip.open(find_trace(SETTINGS["file"], Path()), "rt") as file:
        rows = list(csv.DictReader(file))
    names = "submit", "run_time", "limit", "nodes", "cores", "memory_mb", "gpus", "account"
    columns = {name: np.array([float(row[name]) for row in rows]) for name in names}
    columns["nodes"] = np.maximum(columns["nodes"], 1)
    columns["memory"] = columns["memory_mb"] / columns["cores"]
    columns["each"] = columns["cores"] / columns["nodes"]
    return columns


def kinds_of(log: Columns) -> dict[str, np.ndarray]:
    """Return which jobs are of each kind."""
    each = log["each"]
    gpus = log["gpus"] > 0
    wide = log["nodes"] > 1
    kinds = {"gpus": gpus & ~wide, "gpus of several hosts": gpus & wide}
    kinds["tasks"] = ~gpus & (each > 32)
    for name, low, high in SETTINGS["cores"]:
        kinds[name] = ~gpus & (each > low - 1) & (each <= high)
    whole = kinds.pop("32 cores")
    return kinds | {"32 cores": whole & ~wide, "32 cores of several hosts": whole & wide}


# Fitting


def bursts_of(log: Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return for each burst its first job, begin and number of jobs; and the gaps within them."""
    names = "account", "cores", "nodes", "memory_mb", "gpus", "limit"
    keys = list(zip(*(log[name].tolist() for name in names), strict=True))
    open_ones: dict[tuple, list] = {}
    bursts = []
    inner = []
    for job in np.argsort(log["submit"], kind="stable").tolist():
        date = log["submit"][job]
        burst = open_ones.get(keys[job])
        if burst is not None and date - burst[2] < WITHIN:
            inner.append(date - burst[2])
            burst[2] = date
            burst[3] += 1
            continue
        burst = [job, date, date, 1]
        open_ones[keys[job]] = burst
        bursts.append(burst)
    first, begin, _, sizes = map(np.array, zip(*bursts, strict=True))
    return first, begin, sizes, np.array(inner)


def frequent(values: np.ndarray, rare: float = RARE) -> list[list]:
    """Return the values that are not rare, with their frequencies."""
    found, counts = np.unique(np.maximum(np.floor(values), 1), return_counts=True)
    shares = counts / len(values)
    told = zip(found.tolist(), shares.tolist(), strict=True)
    return [[int(value), round(share, 4)] for value, share in told if share >= rare]


def twenty(values: np.ndarray) -> list:
    """Return twenty of the values, of which each stands for a twentieth."""
    found = np.percentile(values, TWENTIETHS, method="nearest")
    return [round(value) if value >= 10 else round(value, 2) for value in found.tolist()]


def quantiles(values: np.ndarray) -> list[float]:
    """Return the quantiles at 0, 5, … 100 %."""
    return [float(f"{value:.3g}") for value in np.percentile(values, np.arange(0, 101, 5))]


def twentieths(sizes: np.ndarray) -> list[int]:
    """Return the means of the twentieths of the values."""
    parts = np.array_split(np.sort(np.minimum(sizes, LONGEST_BURST)), 20)
    return [max(1, round(float(part.mean()))) for part in parts]


def fit(log: Columns) -> dict:
    """Return the mix as an object of the file."""
    first, begin, sizes, inner = bursts_of(log)
    ran = log["run_time"] / log["limit"]
    kinds = {}
    for name, is_one in kinds_of(log).items():
        told = {
            "share": round(float(is_one.mean()), 4),
            "cores": frequent(log["each"][is_one]),
            "nodes": frequent(log["nodes"][is_one], RARE_WIDTH),
            "memory": twenty(log["memory"][is_one]),
            "limits": [int(value) for value in twenty(log["limit"][is_one])],
            "killed": round(float((ran[is_one] >= 1).mean()), 4),
            "limit_shares": quantiles(ran[is_one & (ran < 1)]),
            "burst": twentieths(sizes[is_one[first]]),
        }
        if name.startswith("gpus"):
            told["cores"] = frequent(log["cores"][is_one] / log["gpus"][is_one])
            told["gpus"] = frequent(log["gpus"][is_one] / log["nodes"][is_one])
        if name == "tasks":
            told |= {"cores": frequent(log["cores"][is_one]), "tasks": True}
            del told["nodes"]
        kinds[name] = told
    return {
        "source": SETTINGS["source"],
        "hosts": HOSTS,
        "kinds": kinds,
        "gaps": quantiles(np.diff(begin)),
        "inner_gaps": [int(value) for value in twenty(inner)],
    }


# Comparing


def asked_of_log(log: Columns, widest: int) -> list[HostsAsked]:
    """Return what the jobs of the log ask for; more cores than a host has are tasks."""
    names = "nodes", "each", "cores", "memory", "gpus"
    found = []
    for nodes, each, cores, memory, gpus in zip(*(log[n].tolist() for n in names), strict=True):
        amounts = {"cores": max(1, int(each)), "memory": max(1, round(each * memory * MIB))}
        part = AskedPart(hosts=int(nodes), amounts=amounts)
        if gpus:
            amounts["gpus"] = max(1, int(gpus / nodes))
        elif each > 32:
            amounts = {"cores": 1, "memory": max(1, round(memory * MIB))}
            part = AskedPart(hosts=min(int(cores), widest), tasks=int(cores), amounts=amounts)
        found.append(HostsAsked(parts=(part,)))
    return found


def describe(
    asked: list[HostsAsked], run_times: np.ndarray, limits: np.ndarray, hosts: int
) -> dict[str, str]:
    """Return the rows of the comparison: of jobs that fit the machine."""
    layout = NodeLayout(NODE_MIXES["graham"].machine(hosts))
    whole = {"cores": 32, "memory": 128_000 * MIB, "gpus": 2}
    binding = []
    parts = []
    fits = np.zeros(len(asked), bool)
    sizes = []
    for place, one in enumerate(asked):
        part = one.parts[0]
        request = layout.request(one, part.hosts)
        if request.refusal is not None:
            continue
        fits[place] = True
        sizes.append(request.size)
        shares = {kind: part.amounts.get(kind, 0) / amount for kind, amount in whole.items()}
        binding.append(max(shares, key=lambda kind: shares[kind]))
        parts.append((part.amounts["cores"], part.amounts["memory"] / 1e9, max(shares.values())))
    cores, memory, most = np.array(parts).T
    run, limit = run_times[fits], limits[fits]
    tasks = np.array([one.parts[0].tasks > 0 for one, fit in zip(asked, fits, strict=True) if fit])
    several = np.array([one.parts[0].hosts > 1 for one, f in zip(asked, fits, strict=True) if f])
    work = run * np.array(sizes)

    def quartiles(column: np.ndarray, unit: float = 1.0) -> str:
        return ", ".join(f"{each / unit:,.1f}" for each in np.percentile(column, [25, 50, 75]))

    share = {kind: np.array([each == kind for each in binding]) for kind in whole}
    rows = {f"{kind} bind": f"{100 * share[kind].mean():.1f} %" for kind in whole}
    rows |= {
        f"{kind} bind, by work": f"{100 * work[share[kind]].sum() / work.sum():.1f} %"
        for kind in whole
    }
    stretches = share["memory"][: len(run) - len(run) % STRETCH].reshape(-1, STRETCH).mean(axis=1)
    spread = ", ".join(f"{100 * each:.0f} %" for each in np.percentile(stretches, [25, 50, 75]))
    rows[f"memory bind, of {STRETCH:,} jobs in a row: quartiles"] = spread
    rows["part of a host"] = f"{100 * (most < 1).mean():.1f} %"
    rows["tasks"] = f"{100 * tasks.mean():.1f} %"
    rows["several hosts"] = f"{100 * (several & ~tasks).mean():.1f} %"
    rows["cores of a host: quartiles"] = quartiles(cores)
    rows["memory of a host (GB): quartiles"] = quartiles(memory)
    rows["limit (h): quartiles"] = quartiles(limit, 3600)
    rows["run time (h): quartiles"] = quartiles(run, 3600)
    rows["run time / limit: mean"] = f"{(run / limit).mean():.3f}"
    rows["killed at the limit"] = f"{100 * (run >= limit).mean():.1f} %"
    return rows


def main() -> None:
    parser = arguments(__file__, __doc__)
    parser.add_argument("--fit", action="store_true", help="print the file of mixes")
    asked = parser.parse_args()
    log = read_log()
    if asked.fit:
        text = json.dumps({"graham": fit(log)}, indent=1)
        print(text)
        return
    hosts = SETTINGS["hosts"]
    run_times = np.minimum(log["run_time"], log["limit"])
    real = describe(asked_of_log(log, hosts), run_times, log["limit"], hosts)
    mix = NODE_MIXES["graham"]
    drawn = sample_node_mix(mix, SETTINGS["drawn"], SETTINGS["seed"], mix.machine(hosts))
    made = describe(drawn.asked, drawn.run_times, drawn.limits, hosts)
    rows = [[name, real[name], made[name]] for name in real]
    print_or_put("\n".join(markdown_table(["", "Graham", "mix"], rows)) + "\n", asked.write)


if __name__ == "__main__":
    run_main(main)
