"""The cases of Islam et al. (2004), and what came out of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec


class Case(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One set of parameters.

    Attributes
    ----------
    load
        Relative load.
    deadline_share
        Share of the jobs whose users ask for a deadline.
    tolerance
        ``"fixed"``: all users have the tolerance factor; ``"random"``: each has one of
        their own between 0 and twice that.
    tolerance_factor, slack_factor
        TF and SF.
    kill_and_restart
        Whether running jobs may be killed and started anew.
    """

    load: float
    deadline_share: float = 1.0
    tolerance: Literal["fixed", "random"] = "fixed"
    tolerance_factor: float = 1.0
    slack_factor: float = 1.0
    kill_and_restart: bool = False

    def simulated(self) -> Case:
        """Return the case that stands for all those that cannot differ from this one.

        With a fixed TF below SF nobody is offered anything (section 7), so that it does not
        matter by how much.
        """
        if self.tolerance == "fixed" and self.tolerance_factor < self.slack_factor:
            return msgspec.structs.replace(self, tolerance_factor=1.0, slack_factor=2.0)
        return self

    def settings(self, seed: int) -> dict[str, Any]:
        """Return the options of the scheduler."""
        options: dict[str, Any] = {
            "tolerance": self.tolerance,
            "tolerance_factor": self.tolerance_factor,
            "slack_factor": self.slack_factor,
            "seed": seed,
        }
        if self.kill_and_restart:
            options["kill_and_restart"] = True
        return options


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What came out of one simulation.

    Attributes
    ----------
    case, seed
        Which one.
    jobs, work
        Submitted jobs and their processor-seconds.
    accepted_jobs, accepted_work
        The same of jobs that were admitted, and ran to their end.
    resource_charge, qos_charge
        What they pay (processor-seconds; a sum of ratios of slowdowns).
    bounded_qos_charge
        QoS charge with bounded slowdowns (threshold 10 s).
    kills, wasted_work
        Runs killed and their processor-seconds.
    """

    case: Case
    seed: int
    jobs: int
    work: float
    accepted_jobs: int
    accepted_work: float
    resource_charge: float
    qos_charge: float
    bounded_qos_charge: float
    kills: int
    wasted_work: float

    @property
    def accepted_share(self) -> float:
        """Accepted jobs in % of the submitted ones."""
        return 100.0 * self.accepted_jobs / self.jobs


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """What is simulated.

    Attributes
    ----------
    loads, tolerance_factors
        Of Figures 3 to 5.
    slack_loads, slack_tolerance_factors, slack_factors
        Of Figures 6 and 7; the slack factors also of Figures 8 to 11.
    kill_load, kill_tolerance_factors, deadline_share
        Of Figures 8 to 11; the share of Figures 10 and 11.
    seeds
        Each chooses duplicates, random tolerance factors and whose jobs have deadlines.
    """

    loads: tuple[float, ...]
    tolerance_factors: tuple[float, ...]
    slack_loads: tuple[float, ...]
    slack_tolerance_factors: tuple[float, ...]
    slack_factors: tuple[float, ...]
    kill_load: float
    kill_tolerance_factors: tuple[float, ...]
    deadline_share: float
    seeds: tuple[int, ...]

    def cases(self) -> list[Case]:
        """Return every case of the figures that has to be simulated, each once."""
        tolerance = (
            Case(load=load, tolerance=kind, tolerance_factor=factor)
            for load in self.loads
            for kind in ("fixed", "random")
            for factor in self.tolerance_factors
        )
        slack = (
            Case(load=load, tolerance_factor=factor, slack_factor=slack)
            for load in self.slack_loads
            for factor in self.slack_tolerance_factors
            for slack in self.slack_factors
        )
        kill = (
            Case(
                load=self.kill_load,
                deadline_share=share,
                tolerance_factor=factor,
                slack_factor=slack,
                kill_and_restart=kill,
            )
            for share in (1.0, self.deadline_share)
            for factor in self.kill_tolerance_factors
            for slack in self.slack_factors
            for kill in (False, True)
        )
        return list(dict.fromkeys(case.simulated() for case in (*tolerance, *slack, *kill)))

    def seeds_of(self, case: Case) -> tuple[int, ...]:
        """Return the seeds with which a case differs: only one if nothing is random."""
        random = case.load > 1 or case.deadline_share < 1 or case.tolerance == "random"
        return self.seeds if random else self.seeds[:1]


@dataclass(frozen=True)
class Results:
    """All runs of a study."""

    study: Study
    runs: Mapping[tuple[Case, int], Run]

    def of(self, case: Case) -> list[Run]:
        """Return the runs of a case in the order of its seeds."""
        return [self.runs[case.simulated(), seed] for seed in self.study.seeds_of(case)]

    def values(self, case: Case, metric: str) -> list[float]:
        """Return a number of each run of a case."""
        return [float(getattr(run, metric)) for run in self.of(case)]
