"""``qops-batsim schedulers``: the schedulers and their options."""

from __future__ import annotations

import inspect
import re
import typing
import warnings
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer

from qops_batsim.cli.common_options import AsJson, OnBrokenPromise
from qops_batsim.cli.console import print_json, print_table, say, warn
from qops_batsim.errors import InputError
from qops_batsim.parameters import COUNT

if TYPE_CHECKING:
    import msgspec

    from qops_batsim.core.scheduler import Scheduler


def schedulers(
    name: Annotated[
        str | None, typer.Argument(help="Show this scheduler, or FILE.py:CLASS, and its options.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Verify it on small adversarial workloads.")
    ] = False,
    on_broken_promise: OnBrokenPromise = COUNT,
    as_json: AsJson = False,
) -> None:
    """List the schedulers, or describe one and its options, or check it.

    Examples:

    \b
        qops-batsim schedulers
        qops-batsim schedulers conservative
        qops-batsim schedulers my_file.py:MyScheduler --check
    """
    from qops_batsim.schedulers.registry import scheduler_class, scheduler_names

    if name is None:
        known = {name: _summary(name) for name in scheduler_names()}
        if as_json:
            print_json(known)
        else:
            print_table("Schedulers", ["name", "what it does"], known.items())
            counting = [name for name in known if _counts_hosts(name)]
            say(f"All but {', '.join(counting)} run on machines whose jobs share hosts by amounts.")
        return

    if check:
        from qops_batsim.running.contract import cases, check_scheduler

        warnings.showwarning = lambda message, *_: warn(str(message))
        passed = check_scheduler(name, on_broken_promise=on_broken_promise)
        only = "; it counts whole hosts, which jobs cannot share" * (passed < len(list(cases())))
        say(f"{name}: {passed} cases passed{only}")
        return

    kind = scheduler_class(name)
    options = describe_options(kind)
    if as_json:
        print_json(
            {
                "name": name,
                "summary": kind.summary,
                "counts_hosts": kind.counts_hosts,
                "options": options,
            }
        )
        return

    say(f"{name}: {kind.summary}")
    for paragraph in _description(kind):
        say()
        say(paragraph)
    if not options:
        say("\nIt has no options.")
        return

    say("\nOptions (set with --set NAME=VALUE):")
    for option in options:
        unit = f" {option['unit']}" if option["unit"] else ""
        say(f"  {option['name']} = {option['default']}{unit}   ({option['type']})")
        say(f"      {option['description']}", 6)


def _summary(name: str) -> str:
    """Return a scheduler's summary; for a plug-in that cannot be loaded, the error."""
    from qops_batsim.schedulers.registry import scheduler_class

    try:
        return scheduler_class(name).summary
    except InputError as error:
        return f"BROKEN: {error}"


def _counts_hosts(name: str) -> bool:
    """Return whether a scheduler refuses machines whose jobs share hosts by amounts."""
    from qops_batsim.schedulers.registry import scheduler_class

    try:
        return scheduler_class(name).counts_hosts
    except InputError:
        return True


def _description(kind: type[Scheduler]) -> list[str]:
    """Return the paragraphs of a scheduler's docstring that are meant for users."""
    lines = (inspect.getdoc(kind) or "").splitlines()
    rules = [row for row, line in enumerate(lines) if line and not line.strip("-")]
    text = "\n".join(lines[: rules[0] - 1] if rules else lines).rstrip()
    plain = re.sub(r"``|:\w+:(?=`)|(?<=:`)~", "", text).replace("`", "")
    # Examples in Python are for those who write schedulers, with what leads to them.
    kept = re.sub(r"\n\n[^\n]*(\n[^\n]+)*:\n\n>{3} .*", "", plain, flags=re.DOTALL)
    return [" ".join(paragraph.split()) for paragraph in kept.split("\n\n")]


def describe_options(kind: type[Scheduler]) -> list[dict[str, Any]]:
    """Return each option of a scheduler as a dict: name, type, default, unit, description."""
    import msgspec

    hints = typing.get_type_hints(kind.Options, include_extras=True)
    described = []
    for field in msgspec.structs.fields(kind.Options):
        hint = hints[field.name]
        # A constraint with a name of its own and the description are two annotations.
        metas = [m for m in getattr(hint, "__metadata__", ()) if isinstance(m, msgspec.Meta)]
        described.append(
            {
                "name": field.encode_name,
                "type": _type_name(hint),
                "default": _default(field),
                "unit": next((m.extra["unit"] for m in metas if m.extra), ""),
                "description": next((m.description for m in metas if m.description), ""),
            }
        )
    return described


def _default(field: msgspec.structs.FieldInfo) -> Any:
    import msgspec

    factory = field.default_factory
    return msgspec.to_builtins(field.default if factory is msgspec.NODEFAULT else factory())


def _type_name(hint: Any) -> str:
    if hasattr(hint, "__metadata__"):
        hint = get_args(hint)[0]
    if get_origin(hint) is Literal:
        return " or ".join(repr(choice) for choice in get_args(hint))
    if isinstance(hint, UnionType) or get_origin(hint) is Union:
        return " | ".join(map(_type_name, get_args(hint)))
    name = getattr(hint, "__name__", str(hint))
    if get_args(hint):
        name = f"{name}[{', '.join(map(_type_name, get_args(hint)))}]"
    return name.replace("NoneType", "none").replace("None", "none")
