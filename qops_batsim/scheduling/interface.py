"""Interface of decision modules and of their answers, checked before they run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import Any

from qops_batsim.core.needs import EngineNeeds
from qops_batsim.core.options import SchedulerOptions
from qops_batsim.core.scheduler import Scheduler
from qops_batsim.errors import InputError, shown, typed_text
from qops_batsim.jobs import Job
from qops_batsim.platform.hostset import HostSet
from qops_batsim.protocol.decisions import DECISION_TYPES, ExecuteJob
from qops_batsim.scheduling.module import DecisionModule
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler

_OURS = "qops_batsim."
_NEAR = 0.75
"""Similarity from which on a name counts as a misspelling, from 0 to 1."""

_NO_HOOKS = {"start", "reject", "running_jobs", "availability", "keep_decisions"}
"""Methods of our classes that a scheduler calls, not an engine."""

_TOLD = {
    "Options",
    "summary",
    "keeps_decisions",
    "needs_deadlines",
    "needs",
    "hears_of_cancellations",
}
"""Attributes by which a class describes itself; no decision depends on them."""

_FIELDS: dict[str, tuple[type, ...]] = {
    "job_id": (str,),
    "alloc": (HostSet,),
    "job_ids": (list,),
    "timestamp": (float, int),
    "job": (Job,),
    "metadata": (str,),
    "mapping": (dict, type(None)),
}
"""Types of the fields of decisions, by name."""


class InterfaceError(InputError):
    """A decision module does not look as an engine's driver expects it to."""


def is_ours(kind: type) -> bool:
    """Tell whether a class belongs to this package, whose classes need no check."""
    return kind.__module__.startswith(_OURS)


def interface_problem(module: Any) -> str | None:
    """Return what is wrong with a decision module before anything has run, or None."""
    kind: type[Any] = type(module)
    if is_ours(kind):
        return None
    if not isinstance(module.options, SchedulerOptions):
        found = type(module.options).__name__
        return f"{kind.__name__}.options is of type {found}; SchedulerOptions are expected"
    needs = kind.__name__ + ".needs"
    if not isinstance(module.needs, EngineNeeds):
        return f"{needs} is {typed_text(module.needs)}; EngineNeeds are expected"
    hooks = _hooks(kind)
    problems = [
        *_misspelt(kind, hooks),
        _unheard(kind, hooks),
        *(_signature_problem(kind, name, hook) for name, hook in hooks.items()),
        *(f"{kind.__name__} has no method {name}" for name in _missing(kind)),
    ]
    return next((problem for problem in problems if problem is not None), None)


def scheduler_problem(scheduler: Scheduler) -> str | None:
    """Return what is wrong with a user's scheduler before anything has run, or None.

    Its public methods are hooks of ours, or too unlike these to be misspelt.
    """
    kind = type(scheduler)
    if is_ours(kind):
        return None
    hooks, base = kind.HOOKS, next(each for each in kind.__mro__ if is_ours(each))
    if not isinstance(scheduler.options, SchedulerOptions):
        found = type(scheduler.options).__name__
        return f"{kind.__name__}.options is of type {found}; SchedulerOptions are expected"
    needs: object = scheduler.needs
    if not isinstance(needs, EngineNeeds):
        told = typed_text(needs)
        return f"{kind.__name__}.needs is {told}; EngineNeeds are expected"
    own = {
        name: value
        for each in kind.__mro__[: kind.__mro__.index(base)]
        for name, value in vars(each).items()
        if not name.startswith("_")
    }
    named = f"hooks: {', '.join(sorted(hooks))}; names of your own methods may begin with _"
    asked = {name for name, each in own.items() if callable(each) or isinstance(each, property)}
    unknown = [name for name in own if name in asked and not hasattr(base, name)]
    unknown = [name for name in unknown if not isinstance(own[name], type)]
    for name in unknown:
        near = get_close_matches(name, hooks, n=1, cutoff=_NEAR)
        if near and near[0] not in own:
            told = f"{kind.__name__}.{name} is called by nothing; did you mean {near[0]!r}?"
            return f"{told} ({named})"
    if unknown and not any(hasattr(base, name) and name not in _TOLD for name in own):
        near = get_close_matches(unknown[0], hooks, n=2, cutoff=0.0)
        return (
            f"{kind.__name__} overrides no hook of {base.__name__}, so it would do the same; "
            f"nothing calls its {unknown[0]} (nearest: {', '.join(near)}; {named})"
        )
    problems = (_hook_problem(kind, name, hooks[name].split()) for name in hooks if name in own)
    return next((problem for problem in problems if problem is not None), None)


def _hook_problem(kind: type, name: str, arguments: list[str]) -> str | None:
    """Return what is wrong with a hook that a user's class overrides."""
    method = getattr(kind, name)
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


def _hooks(kind: type[DecisionModule]) -> dict[str, Callable[..., Any]]:
    """Return the methods of our own classes above a class that it may define anew."""
    ours = [each for each in kind.__mro__ if is_ours(each)]
    return {
        name: value
        for each in reversed(ours)
        for name, value in vars(each).items()
        if inspect.isfunction(value) and not name.startswith("_") and name not in _NO_HOOKS
    }


def _missing(kind: type[DecisionModule]) -> list[str]:
    """Return the methods that a class has to define and does not."""
    base: type[DecisionModule] = DecisionModule
    needed = ["decide"]
    if issubclass(kind, SpaceSharingScheduler):
        base, needed = SpaceSharingScheduler, ["arrived", "left", "schedule"]
    return [name for name in needed if getattr(kind, name) is getattr(base, name)]


def _misspelt(kind: type[DecisionModule], hooks: dict[str, Any]) -> Iterator[str]:
    """Yield public methods that nothing calls and that resemble a hook."""
    methods = _own(kind)
    for name in _never_called(kind):
        near = get_close_matches(name, hooks, n=1, cutoff=_NEAR)
        if name not in hooks and near and near[0] not in methods:
            yield (
                f"{kind.__name__}.{name} is called by nothing; did you mean {near[0]!r}? "
                f"(hooks: {', '.join(sorted(hooks))}; names of your own methods may begin with _)"
            )


def _unheard(kind: type[DecisionModule], hooks: dict[str, Any]) -> str | None:
    """Return what a class defines that nothing calls, if it changes nothing of our own classes."""
    methods, base = _never_called(kind), _base(kind)
    changed = [name for name in _own(kind) if hasattr(base, name) and name not in _TOLD]
    if changed or not methods:
        return None
    near = {name: get_close_matches(name, hooks, n=2, cutoff=0.0) for name in methods}
    told = ", ".join(f"{name} (nearest: {', '.join(found)})" for name, found in near.items())
    return (
        f"{kind.__name__} defines no hook of {base.__name__}, so it would do the same; nothing "
        f"calls its {told} (hooks: {', '.join(sorted(hooks))}; names of your own methods may begin "
        "with _)"
    )


def _base(kind: type[DecisionModule]) -> type:
    """Return the nearest of our own classes above a class."""
    return next(each for each in kind.__mro__ if is_ours(each))


def _own(kind: type[DecisionModule]) -> dict[str, Any]:
    """Return the attributes of the classes above a class, itself among them, that are not ours."""
    return {
        name: value
        for each in kind.__mro__
        if not is_ours(each) and issubclass(each, DecisionModule)
        for name, value in vars(each).items()
        if not (name.startswith("__") and name.endswith("__"))
    }


def _never_called(kind: type[DecisionModule]) -> list[str]:
    """Return the public methods that no method names, and that our own classes have not."""
    own, base = _own(kind), _base(kind)
    functions = [
        value for each in kind.__mro__ if not is_ours(each) for value in vars(each).values()
    ]
    codes = [value.__code__ for value in functions if inspect.isfunction(value)]
    called = {name for code in codes for name in code.co_names}
    return [
        name
        for name, value in own.items()
        if (inspect.isfunction(value) or isinstance(value, (property, staticmethod, classmethod)))
        and not (name.startswith("_") or name in called or hasattr(base, name))
    ]


def _signature_problem(
    kind: type[DecisionModule], name: str, hook: Callable[..., Any]
) -> str | None:
    """Return how a method differs from the hook that it stands for."""
    method = getattr(kind, name)
    if not inspect.isfunction(method) or inspect.iscoroutinefunction(method):
        return f"{kind.__name__}.{name} is {shown(method)}; an ordinary method is expected"
    parameters = inspect.signature(hook).parameters.values()
    arguments = [each.name for each in parameters if each.default is each.empty]
    try:
        inspect.signature(method).bind(*arguments)
    except TypeError:
        wanted = ", ".join(each.name for each in parameters)
        return (
            f"{kind.__name__}.{name}{inspect.signature(method)} cannot be called as "
            f"{name}({wanted}), as is expected"
        )
    return None


def decision_problem(decisions: Any) -> str | None:
    """Return what is wrong with the types of an answer of a decision module, or None."""
    if not isinstance(decisions, list):
        return f"decide returned {typed_text(decisions)}; a list of decisions is expected"
    for decision in decisions:
        # As good as always it is this one.
        if (
            type(decision) is ExecuteJob
            and type(decision.alloc) is HostSet
            and type(decision.job_id) is str
            and decision.mapping is None
        ):
            continue
        if DECISION_TYPES.get(getattr(decision, "TYPE", "")) is not type(decision):
            return (
                f"decide returned {typed_text(decision)} among its decisions; ExecuteJob, "
                "RejectJob and the others of qops_batsim.protocol.decisions are expected"
            )
        for name, accepted in _FIELDS.items():
            if hasattr(decision, name) and not isinstance(getattr(decision, name), accepted):
                return (
                    f"{type(decision).__name__}: {name} is {typed_text(getattr(decision, name))}; "
                    f"{accepted[0].__name__} is expected"
                )
    return None
