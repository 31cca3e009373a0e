"""Checking the interface of users' schedulers before a run."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from qops_batsim.core.needs import EngineNeeds
from qops_batsim.core.options import SchedulerOptions
from qops_batsim.core.overrides import check_attributes, check_overrides, is_ours
from qops_batsim.core.scheduler import Scheduler
from qops_batsim.errors import shown, typed_text

_NEAR = 0.75
"""Similarity from which on a name counts as a misspelling, from 0 to 1."""

_TO_OVERRIDE = ("admit", "schedule", "decide")
"""Hooks without which nothing is decided: the first one that a class has."""

_INSTEAD = {"admit": "try_admission"}
"""Methods that may be overridden instead of these hooks."""


def scheduler_problem(scheduler: Scheduler) -> str | None:
    """Return what is wrong with the hooks of a user's scheduler class, None if nothing is.

    Checked are the types of its options and needs, the hooks' arguments, and public methods whose
    names resemble a hook: these are an error if the class overrides no hook, else a warning.
    """
    kind = type(scheduler)
    if is_ours(kind):
        return None
    # Checked when the class was made; methods may have been added since.
    check_overrides(kind)
    check_attributes(scheduler)
    if not isinstance(scheduler.options, SchedulerOptions):
        found = type(scheduler.options).__name__
        return f"{kind.__name__}.options is of type {found}; SchedulerOptions are expected"

    needs: object = scheduler.needs
    if not isinstance(needs, EngineNeeds):
        told = typed_text(needs)
        return f"{kind.__name__}.needs is {told}; EngineNeeds are expected"

    base = next(each for each in kind.__mro__ if is_ours(each))
    own = {
        name: value
        for each in kind.__mro__[: kind.__mro__.index(base)]
        for name, value in vars(each).items()
        if not name.startswith("_")
    }
    problems = [
        _unknown_name(kind, base, own),
        *(_hook_problem(kind, name) for name in kind.HOOKS if name in own),
        _unused_line(kind, own),
        None if "decide" in own else _missing_hook(kind),
    ]
    return next((problem for problem in problems if problem is not None), None)


def _unknown_name(kind: type[Scheduler], base: type, own: Mapping[str, Any]) -> str | None:
    """Return an error text if a method seems to be a misspelt hook, else None."""
    unknown = [
        name
        for name, value in own.items()
        if (callable(value) or isinstance(value, property))
        and not (isinstance(value, type) or hasattr(base, name))
    ]
    # No decision depends on what a class says of itself.
    changes = any(name in kind.HOOKS for name in own)
    named = f"hooks: {', '.join(sorted(kind.HOOKS))}; names of your own methods may begin with _"
    for name in unknown:
        near = get_close_matches(name, kind.HOOKS, n=1, cutoff=_NEAR)
        if not near or near[0] in own:
            continue
        if not changes:
            told = f"{kind.__name__}.{name} is called by nothing; did you mean {near[0]!r}?"
            return f"{told} ({named})"
        warnings.warn(
            f"{kind.__name__}.{name} is no hook; did you mean {near[0]!r}? (names of your own "
            "methods may begin with _)",
            stacklevel=2,
        )

    if changes or not unknown:
        return None
    near = get_close_matches(unknown[0], kind.HOOKS, n=2, cutoff=0.0)
    return (
        f"{kind.__name__} overrides no hook of {base.__name__}, so it would do the same; "
        f"nothing calls its {unknown[0]} (nearest: {', '.join(near)}; {named})"
    )


def _missing_hook(kind: type[Scheduler]) -> str | None:
    """Return an error text if a class lacks the hook that makes decisions, else None."""
    name = next(name for name in _TO_OVERRIDE if name in kind.HOOKS)
    bases = [each for each in kind.__mro__ if name in getattr(each, "HOOKS", {})]
    either = {name, _INSTEAD.get(name, name)}
    is_missing = all(getattr(kind, each) is getattr(bases[-1], each) for each in either)
    return f"{kind.__name__} has no method {name}" if is_missing else None


def _unused_line(kind: type[Scheduler], own: Mapping[str, Any]) -> str | None:
    """Return an error text if a class overrides ``line``, which is asked for only where a class
    says whether it backfills, else None.
    """
    if "line" not in own or getattr(kind, "backfills", True) is not None:
        return None
    return (
        f"{kind.__name__}.line would not be called: backfills is None; backfills = True, or False, "
        "is expected, whether jobs start behind one that does not fit"
    )


def _hook_problem(kind: type[Scheduler], name: str) -> str | None:
    """Return an error text if a hook cannot be called with its expected arguments, else None."""
    method = getattr(kind, name)
    arguments = kind.HOOKS[name].split()
    if not inspect.isfunction(method) or inspect.iscoroutinefunction(method):
        return f"{kind.__name__}.{name} is {shown(method)}; an ordinary method is expected"
    try:
        inspect.signature(method).bind("self", *arguments)
    except TypeError:
        return (
            f"{kind.__name__}.{name}{inspect.signature(method)} cannot be called as "
            f"{name}({', '.join(arguments)}), as is expected"
        )
    return None
