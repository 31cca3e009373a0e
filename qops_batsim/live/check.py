"""Checking a Slurm: is it ready for live decisions, and which margin and grace does it need?"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import msgspec

from qops_batsim.errors import InputError
from qops_batsim.slurm.commands import (
    Run,
    partition_nodes,
    run_command,
    settings_of,
    shared_hosts,
    shared_nodes,
)
from qops_batsim.workload.accounting.node_sizes import NodeSizes

SWEEP = 30.0
"""Interval at which Slurm looks for jobs at their limits (seconds)."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What was found about one setting of Slurm: whether it suits live decisions, and why."""

    about: str
    is_fine: bool
    text: str


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """All findings about a Slurm, and the least ``margin`` and ``grace`` (seconds) that suit it."""

    findings: list[Finding]
    margin: float
    grace: float

    @property
    def is_fine(self) -> bool:
        """Whether every setting suits live decisions."""
        return all(each.is_fine for each in self.findings)


def check_slurm(partition: str | None, poll: float, run: Run = run_command) -> Checked:
    """Check whether Slurm's settings suit live decisions; change nothing.

    ``poll`` is the time between two looks at Slurm (seconds); without a ``partition``, all
    count.
    """
    config = settings_of(run)
    scheduling = config.get("schedulerparameters", "")
    kill_wait = _number(config, "killwait", 30)
    over = 60 * _number(config, "overtimelimit", 0)
    margin = SWEEP + kill_wait + over

    by_priority = _parameter(scheduling, "sched_interval", 60)
    backfill = _parameter(scheduling, "bf_interval", 30)
    # What is released is tried at once, unless Slurm defers that.
    defers = "defer" in scheduling
    start = min(by_priority, backfill)
    if not defers:
        start = min(3.0, start)
    grace = poll + start + 2

    requeues = config.get("jobrequeue", "1") == "1"
    findings = [
        Finding(
            about="limits",
            is_fine=True,
            text=f"a job may outlast its limit by {margin:g} s: {SWEEP:g} s until Slurm looks, "
            f"KillWait {kill_wait:g} s, OverTimeLimit {over:g} s: --margin {margin:g}s at least",
        ),
        Finding(
            about="intervals",
            is_fine=not defers,
            text=f"sched_interval {by_priority:g} s, bf_interval {backfill:g} s: a released "
            f"job starts within some {start:g} s, so --set grace={grace:g} at least"
            + ("; without 'defer' in SchedulerParameters sooner" if defers else ""),
        ),
        Finding(
            about="filter",
            is_fine=True,
            text=unfiltered(config) or "a filter is configured, and is expected to hold jobs",
        ),
        _rights(config),
        _age(config, poll),
        Finding(
            about="requeue",
            is_fine=requeues,
            text="JobRequeue=1: what ran on a lost node waits, and is planned again"
            if requeues
            else "JobRequeue=0: a job ends with its node; JobRequeue=1 is expected for kills, too",
        ),
        Finding(
            about="lost nodes",
            is_fine=True,
            text=f"SlurmdTimeout {_number(config, 'slurmdtimeout', 300):g} s: for that long a node "
            "that has died counts as there",
        ),
        _shared_nodes(partition, run),
    ]
    return Checked(findings=findings, margin=margin, grace=grace)


def _number(config: Mapping[str, str], name: str, default: float) -> float:
    found = re.match(r"\d+", config.get(name, ""))
    return float(found[0]) if found else default


def _parameter(parameters: str, name: str, default: float) -> float:
    found = re.search(rf"(?:^|,){name}=(\d+)", parameters)
    return float(found[1]) if found else default


def _rights(config: Mapping[str, str]) -> Finding:
    """Check that the user of this process may hold jobs of others (root or SlurmUser)."""
    user = _user()
    slurm_user = config.get("slurmuser", "").partition("(")[0]
    rights = user in ("root", slurm_user)
    text = f"{user} may hold and release the jobs of others"
    if not rights:
        text = (
            f"{user} may not hold the jobs of others: root or {slurm_user or 'SlurmUser'} is "
            "expected (--shadow needs no rights)"
        )
    return Finding(about="rights", is_fine=rights, text=text)


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def unfiltered(config: Mapping[str, str]) -> str:
    """Return a warning if no submission filter holds new jobs, else ""."""
    filters = {config.get(name, "") for name in ("clifilterplugins", "jobsubmitplugins")}
    if filters - {"", "(null)"}:
        return ""
    return (
        "no filter holds jobs as they are submitted: a job that finds idle nodes is started by "
        "Slurm before the next poll, and is never answered; docs/live/cli_filter.lua, or "
        "submissions with --hold --comment=qops, are expected"
    )


def _age(config: Mapping[str, str], poll: float) -> Finding:
    age = _number(config, "minjobage", 300)
    fine = age >= 10 * poll
    text = f"MinJobAge {age:g} s: ended jobs are seen for that long"
    if not fine:
        text += f", which is short for a poll of {poll:g} s: an end may be missed; 300 is expected"
    return Finding(about="ended jobs", is_fine=fine, text=text)


def _shared_nodes(partition: str | None, run: Run) -> Finding:
    """Check that each job has its nodes for itself, also against other partitions, or that Slurm
    tells what jobs share.
    """
    are_shared = False
    for name in [None] if partition is None else partition.split(","):
        kinds = shared_nodes(run, name)
        if not kinds:
            text = f"no nodes in {name or 'any partition'}; one that `sinfo` lists is expected"
            return Finding(about="partition", is_fine=False, text=text)
        are_shared |= any(kinds)
    by_amounts = are_shared and shared_hosts(run, partition) is not None
    about = "shared nodes" if by_amounts else "whole nodes"
    text = "every job has its nodes for itself"
    if by_amounts:
        text = "nodes are shared by jobs, and decisions are about what each has"
        are_shared = False
    elif are_shared:
        text = (
            "nodes may be shared by jobs, and decisions are about whole nodes: "
            "OverSubscribe=EXCLUSIVE on the partition is expected"
        )

    listed = partition_nodes(run)
    chosen = {node.partition for node in listed}
    if partition is not None:
        chosen = {*partition.split(",")}
    tier = min((node.tier for node in listed if node.partition in chosen), default=0)
    # The jobs of a partition that gives way are on nobody's nodes.
    counted = (
        (node.partition, (node.node, 1, 0))
        for node in listed
        if node.tier >= tier or not node.gives_way
    )
    try:
        NodeSizes(counted).refuse_cut(chosen, alike=bool(listed) and not by_amounts)
    except InputError as error:
        return Finding(about=about, is_fine=False, text=str(error))
    return Finding(about=about, is_fine=not are_shared, text=text)
