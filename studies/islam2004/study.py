"""Specification of Islam et al. (2004): parameters of the experiments, cases, choices.

The paper's results are curves only.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from qops_batsim.economics import Categories
from qops_batsim.protocol import make_scheduler
from qops_batsim.workload import Workload
from studies.specification import read_specification

SPECIFICATION = read_specification(Path(__file__).parent)

STRINGENCY = 0.2
"""S of all experiments (section 5)."""

ToleranceKind = Literal["fixed", "random"]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One set of parameters.

    Users of ``deadline_share`` of the jobs ask for a deadline. Tolerance ``"fixed"``: all users
    have the tolerance factor (TF); ``"random"``: each has one between 0 and twice that. The
    ``reading`` of the paper is one of :data:`READINGS`, or the usual one.
    """

    load: float
    deadline_share: float = 1.0
    tolerance: ToleranceKind = "fixed"
    tolerance_factor: float = 1.0
    slack_factor: float = 1.0
    kill_and_restart: bool = False
    reading: str = ""

    def simulated(self) -> Case:
        """Return the case that stands for all those that cannot differ from this one.

        With a fixed TF below SF no user accepts an offer (section 7), so that it does not
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
        return options | READINGS.get(self.reading, {})


READINGS: dict[str, dict[str, Any]] = SPECIFICATION.readings
"""Options that differ from the usual reading, where the paper leaves one, by name."""

OTHER_EDGES = Categories(run_times=(1800.0, 14_400.0, 86_400.0), processors=(4, 16, 64))
"""Categories with later edges: 30 min, 4 h, a day; 4, 16 and 64 processors."""


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """Simulations of a study.

    First what varies in Figures 3 to 5, then in Figures 6 and 7 (the slack factors also in Figures
    8 to 11), then in Figures 8 to 11 (the share in Figures 10 and 11). Each seed has a stretch of
    ``jobs`` jobs of the log of its own, which begins ``every`` jobs after the last one, and chooses
    duplicates, random tolerance factors and whose jobs have deadlines. The first one is the
    paper's, or a part of it: ``paper_jobs``, if not 0, are that of the paper. The ``readings``, and
    the ``large_factors`` of tolerance, are run at the highest load.
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
    jobs: int = 5000
    every: int = 5000
    paper_jobs: int = 0
    large_factors: tuple[float, ...] = ()
    readings: tuple[str, ...] = ()

    @property
    def of_paper(self) -> Study:
        """The study on the paper's own stretch, once."""
        jobs = self.paper_jobs or self.jobs
        return msgspec.structs.replace(self, jobs=jobs, seeds=self.seeds[:1], readings=())

    def tolerance_cases(self, load: float, kind: ToleranceKind = "fixed") -> list[Case]:
        """Return the cases over the tolerance factors."""
        factors = self.tolerance_factors
        return [Case(load=load, tolerance=kind, tolerance_factor=factor) for factor in factors]

    def slack_cases(self, load: float, factor: float) -> list[Case]:
        """Return the cases over the slack factors, with a tolerance factor."""
        slacks = self.slack_factors
        return [Case(load=load, tolerance_factor=factor, slack_factor=each) for each in slacks]

    def kill_cases(self, share: float, factor: float, kill: bool) -> list[Case]:
        """Return the cases over the slack factors, with or without kills."""
        return [
            msgspec.structs.replace(case, deadline_share=share, kill_and_restart=kill)
            for case in self.slack_cases(self.kill_load, factor)
        ]

    def at_kill_load(self, factor: float) -> Case:
        """Return the case of a fixed tolerance factor at the highest load."""
        return Case(load=self.kill_load, tolerance_factor=factor)

    def all_kill_cases(self) -> list[Case]:
        """Return the cases of Figures 8 to 11, those without kills before those with them."""
        return [
            msgspec.structs.replace(case, kill_and_restart=kill)
            for share in (1.0, self.deadline_share)
            for factor in self.kill_tolerance_factors
            for case in self.kill_cases(share, factor, False)
            for kill in (False, True)
        ]

    def cases(self) -> list[Case]:
        """Return every case of the figures that has to be simulated, each once."""
        found = []
        for load in self.loads:
            found += self.tolerance_cases(load, "fixed") + self.tolerance_cases(load, "random")
        for load in self.slack_loads:
            for factor in self.slack_tolerance_factors:
                found += self.slack_cases(load, factor)
        found += self.all_kill_cases()
        found += [self.at_kill_load(factor) for factor in self.large_factors]
        for reading in self.readings:
            found += [case for pair in self.reading_pairs(reading).values() for case in pair]
        return list(dict.fromkeys(case.simulated() for case in found))

    def reading_pairs(self, reading: str) -> dict[str, tuple[Case, Case]]:
        """Return cases with more tolerance, and with kills, each beside that without, by name."""
        first, last = (
            Case(load=self.kill_load, tolerance_factor=factor, reading=reading)
            for factor in (self.tolerance_factors[0], self.tolerance_factors[-1])
        )
        factor = self.kill_tolerance_factors[-1]
        plain = msgspec.structs.replace(first, tolerance_factor=factor, slack_factor=2.0)
        killing = msgspec.structs.replace(plain, kill_and_restart=True)
        return {"tolerance": (last, first), "kills": (killing, plain)}

    def income_pairs(self) -> dict[str, tuple[tuple[str, Case], tuple[str, Case]]]:
        """Return ways to run a centre, two of which are compared by what they earn, by name.

        The first is expected to have the higher resource charge, the second the higher QoS charge.
        """
        least, top = self.tolerance_factors[0], self.tolerance_factors[-1]
        slack_top, most = self.slack_tolerance_factors[-1], self.slack_factors[-1]
        high, low = (Case(load=self.kill_load, tolerance_factor=each) for each in (top, least))
        none = Case(load=self.slack_loads[-1], tolerance_factor=slack_top)
        slack, at = msgspec.structs.replace(none, slack_factor=most), f"(TF = {slack_top:g})"
        pairs = {
            "tolerance": ((f"TF = {top:g}", high), (f"TF = {least:g}", low)),
            "slack": ((f"SF = 1 {at}", none), (f"SF = {most:g} {at}", slack)),
        }
        for share in (1.0, self.deadline_share):
            for factor in self.kill_tolerance_factors:
                plain = Case(load=self.kill_load, deadline_share=share, tolerance_factor=factor)
                killing = msgspec.structs.replace(plain, kill_and_restart=True)
                name = f"kills (TF = {factor:g}, SF = 1, {100 * share:g} % deadline jobs)"
                pairs[name] = (("no kills", plain), (name, killing))
        return pairs

    def runs(self) -> list[tuple[Case, int]]:
        """Return every case with each of its seeds.

        Those of one workload follow each other, the longest first.
        """
        wanted = [(case, seed) for case in self.cases() for seed in self.seeds]
        return sorted(wanted, key=lambda each: (-each[0].load, each[0].deadline_share, each[1]))


SCHEDULER = "fqops"

_STUDIES = SPECIFICATION.studies
FULL = msgspec.convert(_STUDIES["full"] | {"readings": tuple(READINGS)}, Study)
"""All figures, and the readings."""

COARSE = msgspec.convert(_STUDIES["full"] | _STUDIES["coarse"], Study)
"""All figures with few points, on ten stretches: checks of ours, too few to judge."""

QUICK = msgspec.structs.replace(COARSE, seeds=(1, 2, 3), jobs=1000)
"""The quick part: on the first machine only, with too few seeds for verdicts."""


def choices(parts: Sequence[tuple[Workload, Study]]) -> dict[str, str]:
    """Return the choices of studies on traces, in words."""
    options = msgspec.to_builtins(make_scheduler(SCHEDULER).options)
    varied = Case(load=1.0, kill_and_restart=True).settings(0)
    fixed = {name: value for name, value in options.items() if name not in varied}
    machines = ", ".join(
        f"{Path(trace.source).name} on {trace.processors} processors" for trace, _ in parts
    )
    seeds = " and ".join(dict.fromkeys(str(len(study.seeds)) for _, study in parts))
    (_, study), *_ = parts
    said = ", ".join(f"{name} = {value}" for name, value in fixed.items())
    return SPECIFICATION.told_choices(
        jobs=study.jobs,
        every=study.every,
        paper_jobs=study.paper_jobs or study.jobs,
        machines=machines,
        others=100 * (1 - study.deadline_share),
        seeds=seeds,
        scheduler=f"{SCHEDULER} with {said}",
    )
