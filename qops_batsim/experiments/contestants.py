"""Schedulers that are compared: each with its options, under a name of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from qops_batsim.errors import InputError, did_you_mean
from qops_batsim.experiments.deadline_runs import DeadlineCase, Scenario, Settings
from qops_batsim.scheduling.module import DecisionModule
from qops_batsim.scheduling.plugins import digest_of_file, short_name
from qops_batsim.scheduling.registry import make_scheduler, parse_settings


class Contestant(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler with its options, under the name that tables and pictures give it."""

    name: str
    scheduler: str
    settings: dict[str, Any] = {}

    def make(self) -> DecisionModule:
        """Return the scheduler, its options checked."""
        return make_scheduler(self.scheduler, self.settings)

    def case(self, scenario: Scenario) -> DeadlineCase:
        """Return the case of a run on a scenario."""
        return self.case_of(scenario, *self.identity())

    def case_of(self, scenario: Scenario, settings: Settings, code: str) -> DeadlineCase:
        """Return the same, given what :meth:`identity` returns."""
        return DeadlineCase(
            scenario=scenario, scheduler=self.scheduler, settings=settings, code=code
        )

    def identity(self) -> tuple[Settings, str]:
        """Return the options that are not the defaults, and a digest of a scheduler's own file."""
        options = msgspec.to_builtins(self.make().options)
        defaults = msgspec.to_builtins(make_scheduler(self.scheduler).options)
        changed = [
            (name, tuple(value) if isinstance(value, list) else value)
            for name, value in sorted(options.items())
            if value != defaults[name]
        ]
        return tuple(changed), digest_of_file(self.scheduler) or ""


def contestant_of(text: str) -> Contestant:
    """Return the contestant that a text names.

    Examples
    --------
    >>> contestant_of("qops:k_factor=1,order=earliest_deadline").settings
    {'k_factor': 1, 'order': 'earliest_deadline'}
    >>> contestant_of("mine.py:Mine:k_factor=1").name
    'Mine:k_factor=1'
    """
    scheduler, _, options = text.rpartition(":")
    if not scheduler or "=" not in options:
        return Contestant(name=short_name(text), scheduler=text)
    # A value may hold commas, as a list does.
    assignments = re.split(r",(?=\s*\w+\s*=)", options)
    name = f"{short_name(scheduler)}:{options}"
    return Contestant(name=name, scheduler=scheduler, settings=parse_settings(assignments))


def contestants_of(
    schedulers: Iterable[str | Contestant], settings: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Contestant, ...]:
    """Return schedulers with their options.

    A text is as of :func:`contestant_of`. Settings are by the name of a scheduler, for all its
    contestants, whose own settings go first, or of a contestant.
    """
    if isinstance(schedulers, str):
        raise InputError(f"{schedulers!r}: a list of schedulers to compare is expected")
    settings = settings or {}
    found = []
    for each in schedulers:
        if not isinstance(each, str | Contestant):
            raise InputError(f"{each!r}: the name of a scheduler, or FILE.py:CLASS, is expected")
        if isinstance(each, str):
            each = contestant_of(each)
        of_all, own = settings.get(each.scheduler, {}), settings.get(each.name, {})
        found.append(msgspec.structs.replace(each, settings={**of_all, **each.settings, **own}))
    known = {name for each in found for name in (each.name, each.scheduler)}
    for name in settings:
        if name not in known:
            raise InputError(f"options of {name}: it is not compared{did_you_mean(name, known)}")
    return tuple(found)


def check_distinct(what: str, values: Iterable[object]) -> None:
    """Raise :class:`~qops_batsim.errors.InputError` if nothing is given, or something twice."""
    texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
    if not texts:
        raise InputError(f"no {what} to compare; at least one is expected")
    twice = next((each for each in texts if texts.count(each) > 1), None)
    if twice is not None:
        raise InputError(f"{what} {twice} is given twice; once is expected")
