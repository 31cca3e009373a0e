"""Generated jobs that ask for parts of hosts: cores, memory and GPUs, tasks, bursts of equal jobs.

A :class:`NodeMix` is a small table, fitted to a log by ``python studies/presets/node_mix.py``. Its
kinds of jobs (:class:`KindOfJob`) differ in cores, so that memory may depend on them. Where it
lists twenty values, each stands for a twentieth of the jobs: what users ask for are round numbers,
which no smooth distribution has.

Users submit bursts of jobs that ask for the same. A burst draws a kind, its number of jobs, its
request and its limit; each of its jobs the share of the limit that it runs, independently. Requests
that the machine cannot give are drawn again, so a machine of smaller hosts has another mix.

Not modelled: days and weeks, users, and what bursts of one user have in common.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import msgspec
import numpy as np

from qops_batsim.core.host_properties import machine_of
from qops_batsim.core.machine import Machine
from qops_batsim.core.node_request import NodeLayout
from qops_batsim.errors import InputError
from qops_batsim.job_fields import AskedPart, HostsAsked, complete_amounts, written_hosts
from qops_batsim.version import __version__
from qops_batsim.workload.accounting.amounts import hosts_of
from qops_batsim.workload.lublin import random_stream
from qops_batsim.workload.synthetic import DeadlineRule, checked_rule, workload_of
from qops_batsim.workload.workload_model import Workload, check_processors

MIB = 1 << 20
"""Bytes of what Slurm calls a megabyte."""

USUAL_LOAD = 0.9
"""Offered load where none is asked for: that of the log is not known, as it has only jobs that
waited.
"""

USUAL_HOSTS = 300

# Streams of the seed that nothing else uses.
_BURSTS = 31
_RUN_TIMES = 32

_TRIES = 1000
"""So many requests in a row that a machine cannot give are an error."""

_LEAST = 1e-6
"""What is added to quantiles, of which the first may be 0."""

Weighted = tuple[tuple[int, float], ...]
"""Values and their relative frequencies."""


class KindOfJob(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that ask for similar numbers of cores.

    Attributes
    ----------
    share
        Share of all jobs, 0 to 1.
    cores
        Cores on each host, with their frequencies; for each GPU, if it has ``gpus``; of tasks, one
        core each.
    gpus
        GPUs on each host; empty: none.
    nodes
        Hosts, with their frequencies.
    tasks
        Whether the cores are tasks, which may lie on any hosts.
    memory
        Twenty values of the memory for each core (MiB).
    limits
        Twenty limits (seconds).
    killed
        Share of the jobs that run into their limit, 0 to 1.
    limit_shares
        Of the others, quantiles of the run time over the limit, at 0, 5, … 100 %.
    burst
        Mean number of jobs of a burst, for each twentieth of the bursts.
    """

    share: float
    cores: Weighted
    gpus: Weighted = ()
    nodes: Weighted = ((1, 1.0),)
    tasks: bool = False
    memory: tuple[float, ...]
    limits: tuple[int, ...]
    killed: float
    limit_shares: tuple[float, ...]
    burst: tuple[int, ...]


class NodeMix(msgspec.Struct, frozen=True, kw_only=True):
    """A mix of jobs that ask for parts of hosts.

    Attributes
    ----------
    source
        The log that it is fitted to.
    hosts
        Properties of the hosts that a machine has if none is given, with the share of hosts.
    kinds
        The kinds of jobs, by name.
    gaps
        Quantiles of the time between the beginnings of bursts (seconds), at 0, 5, … 100 %; scaled
        by the offered load.
    inner_gaps
        Twenty times between the jobs of a burst (seconds).
    """

    source: str
    hosts: tuple[tuple[dict[str, str], float], ...]
    kinds: dict[str, KindOfJob]
    gaps: tuple[float, ...]
    inner_gaps: tuple[float, ...]

    def machine(self, hosts: int) -> Machine:
        """Return the machine of so many hosts for which the mix is meant."""
        properties: list[dict[str, str]] = []
        seen = 0.0
        for told, share in self.hosts:
            seen += share
            properties += [told] * (round(seen * hosts) - len(properties))
        made = machine_of(properties, [f"host{number}" for number in range(hosts)])
        assert made is not None
        return made


class MadeJobs(NamedTuple):
    """Jobs in the order of submission: (jobs,) arrays, and what each asks for.

    ``sizes`` are dominant shares (hosts), times are seconds.
    """

    submissions: np.ndarray
    run_times: np.ndarray
    limits: np.ndarray
    sizes: np.ndarray
    asked: list[HostsAsked]


def sample_node_mix(
    mix: NodeMix, jobs: int, seed: int, machine: Machine, load: float | None = None
) -> MadeJobs:
    """Return random jobs of a mix that fit a machine; equal arguments give equal jobs.

    Without an offered ``load`` gaps are as in the log. InputError if hardly any job fits.
    """
    random = random_stream(seed, _BURSTS)
    draw = _Draw(mix, machine, random)
    dates: list[float] = []
    requests: list[_Request] = []
    begin = 0.0
    while len(dates) < jobs:
        kind, size = draw.burst()
        request = draw.request(kind)
        date = begin
        for number in range(size):
            if number:
                date += mix.inner_gaps[int(random.random() * len(mix.inner_gaps))]
            dates.append(date)
            requests.append(request)
        begin += draw.gap()

    # Bursts overlap: the first jobs of the first bursts.
    order = sorted(range(len(dates)), key=dates.__getitem__)[:jobs]
    chosen = [requests[place] for place in order]
    submissions = np.array([dates[place] for place in order])
    sizes = np.array([each.size for each in chosen])
    limits = np.array([each.limit for each in chosen], np.int64)
    uniform = random_stream(seed, _RUN_TIMES).random((jobs, 2))
    shares = [
        1.0 if first < each.kind.killed else _quantile(each.kind.limit_shares, second)
        for each, (first, second) in zip(chosen, uniform.tolist(), strict=True)
    ]
    run_times = np.clip(np.round(limits * shares), 1, limits).astype(np.int64)

    period = float(submissions[-1])
    if load is not None and period > 0:
        submissions *= float(sizes @ run_times) / (machine.hosts * load * period)
    whole = np.round(submissions).astype(np.int64)
    return MadeJobs(whole, run_times, limits, sizes, [each.asked for each in chosen])


class _Request(NamedTuple):
    """What the jobs of a burst ask for, its dominant share (hosts) and their limit (seconds)."""

    kind: KindOfJob
    asked: HostsAsked
    size: float
    limit: int


class _Draw:
    """Draws bursts and requests that a machine can give."""

    def __init__(self, mix: NodeMix, machine: Machine, random: np.random.Generator) -> None:
        self._mix = mix
        self._machine = machine
        self._random = random
        self._layout = NodeLayout(machine)
        # So many bursts of each kind that its share of the jobs is as told.
        self._bursts = [(name, each.share / fmean(each.burst)) for name, each in mix.kinds.items()]

    def burst(self) -> tuple[str, int]:
        """Return the kind of a burst, and how many jobs it has."""
        name = str(self._one_of(self._bursts))
        return name, self._any_of(self._mix.kinds[name].burst)

    def gap(self) -> float:
        """Return the time to the next burst (seconds)."""
        return _quantile(self._mix.gaps, self._random.random())

    def request(self, name: str) -> _Request:
        """Return a request of a kind that the machine can give; of another kind if it can hardly
        give one of this.
        """
        for number in range(_TRIES):
            if number >= _TRIES // 20:
                name, _ = self.burst()
            kind = self._mix.kinds[name]
            part = self._part(kind)
            limit = self._any_of(kind.limits)
            asked = HostsAsked(parts=(part,))
            fitted = self._layout.request(asked, part.hosts)
            if fitted.refusal is None:
                return _Request(kind, asked, fitted.size, limit)
        raise InputError(
            f"platform: none of {_TRIES:,} drawn requests fits its {self._machine.hosts:,} hosts; "
            "a machine that can run some jobs of the mix is expected"
        )

    def _part(self, kind: KindOfJob) -> AskedPart:
        nodes = self._one_of(kind.nodes)
        cores = self._one_of(kind.cores)
        memory = self._any_of(kind.memory)
        if kind.tasks:
            amounts = {"cores": 1, "memory": round(memory * MIB)}
            hosts = min(cores, self._machine.hosts)
            return AskedPart(hosts=hosts, tasks=cores, amounts=self._told(amounts))
        gpus = self._one_of(kind.gpus) if kind.gpus else 0
        cores *= gpus or 1
        amounts = {"cores": cores, "memory": round(cores * memory * MIB), "gpus": gpus}
        return AskedPart(hosts=nodes, amounts=self._told(amounts))

    def _told(self, amounts: dict[str, int]) -> dict[str, int]:
        """Return amounts above 0; memory only where hosts tell theirs."""
        hidden = {} if "memory" in self._machine.kinds else {"memory": 0}
        return complete_amounts(amounts | hidden)

    def _one_of(self, weighted: Any) -> Any:
        values, weights = zip(*weighted, strict=True)
        total = np.cumsum(weights)
        return values[int(np.searchsorted(total, self._random.random() * total[-1], side="right"))]

    def _any_of(self, values: Any) -> Any:
        return values[int(self._random.random() * len(values))]


def _quantile(values: tuple[float, ...], uniform: float) -> float:
    """Return a quantile of values that are given at equal distances from 0 to 1; between them they
    grow by a factor.
    """
    place, rest = divmod(uniform * (len(values) - 1), 1.0)
    low, high = (value + _LEAST for value in values[int(place) : int(place) + 2])
    return float(low * (high / low) ** rest - _LEAST)


def node_mix_workload(
    name: str = "graham",
    *,
    jobs: int = 1000,
    seed: int = 1,
    machine: Machine | None = None,
    hosts: int | None = None,
    load: float | None = None,
    exact_estimates: bool = False,
    deadlines: DeadlineRule | None = None,
) -> Workload:
    """Generate a workload whose jobs ask for parts of hosts, as the jobs of a log did.

    Parameters
    ----------
    name
        One of :data:`NODE_MIXES`.
    jobs, seed
        Number of jobs; seed of all random numbers.
    machine
        The machine on which each job fits (``read_platform(FILE).machine``); None: one of
        ``hosts`` hosts like those of the log, by default 300.
    load
        Offered load by dominant shares, reached by one factor on the gaps; None: 0.9.
    exact_estimates, deadlines
        As for :func:`~qops_batsim.workload.synthetic.generate_workload`.

    Raises
    ------
    InputError
        If a value is out of range, or the machine can give hardly any of the requests.

    Examples
    --------
    >>> workload = node_mix_workload(jobs=100, hosts=20)
    >>> workload.jobs[0].fields["per_host"]["cores"] <= 32
    True
    """
    mix = NODE_MIXES[name]
    if machine is None:
        hosts = USUAL_HOSTS if hosts is None else hosts
        check_processors(hosts)
        machine = mix.machine(hosts)
    elif hosts not in (None, machine.hosts):
        raise InputError(f"processors is {hosts}, but the platform has {machine.hosts} hosts")
    load = USUAL_LOAD if load is None else load
    rule = checked_rule(jobs, load, deadlines)

    made = sample_node_mix(mix, jobs, seed, machine, load)
    choices = {
        "preset": name,
        "jobs": jobs,
        "seed": seed,
        "processors": machine.hosts,
        "totals": machine.totals,
        "offered_load": load,
    }
    widths = np.array(list(map(hosts_of, made.asked)))
    columns = (made.submissions, widths, made.run_times, made.limits)
    asked = map(written_hosts, made.asked)
    workload = workload_of(columns, asked, choices, rule, exact_estimates=exact_estimates)
    workload.provenance["model"] = msgspec.to_builtins(mix)
    workload.provenance["version"] = __version__
    return workload


_FILE = Path(__file__).with_name("node_mixes.json")

NODE_MIXES: dict[str, NodeMix] = msgspec.json.decode(_FILE.read_bytes(), type=dict[str, NodeMix])
"""All mixes by name."""
