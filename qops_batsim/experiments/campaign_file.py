"""Reading a campaign from a file (TOML).

::

    name = "first look"
    schedulers = ["easy", "msb", "qops", "qops:k_factor=1"]
    loads = [1.0, 1.2, 1.4]
    seeds = 5
    windows = [{skip = 0, first = 500}, {skip = 500, first = 500}]
    logs = ["sdsc_sp2_1000"]

A list of any number of values may be one value; ``seeds`` may be their number, a log the name of
its file, a scheduler a text or a table of ``name``, ``scheduler`` and ``settings``, and a model of
``estimates`` its name or a table (:class:`~qops_batsim.workload.estimate_models.EstimateChoices`).
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from qops_batsim.errors import InputError, did_you_mean, shown
from qops_batsim.experiments.campaign import Campaign
from qops_batsim.experiments.contestants import contestant_of
from qops_batsim.files import read_text

MAX_BYTES = 1 << 20
"""Size of a campaign file, at most."""

_FIELDS = {field.name: field for field in msgspec.structs.fields(Campaign)}
_LISTS = {name for name, field in _FIELDS.items() if str(field.type).startswith("tuple")}


def read_campaign(path: str | Path) -> Campaign:
    """Read and check a campaign."""
    text = read_text(path, what="a campaign (TOML)", max_bytes=MAX_BYTES)
    try:
        given = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: {error}; a campaign (TOML) is expected") from None
    return campaign_of(given, source=str(path))


def campaign_of(given: dict[str, Any], *, source: str) -> Campaign:
    """Return the campaign of the values of a file."""
    for name in given:
        if name not in _FIELDS:
            raise InputError(f"{source}: {name} is not known{did_you_mean(name, _FIELDS)}")
    values = {
        name: [value] if name in _LISTS and not isinstance(value, list) else value
        for name, value in given.items()
    }
    seeds = values.get("seeds")
    if seeds is not None and not isinstance(given["seeds"], list):
        values["seeds"] = _seeds(seeds[0], source)
    try:
        if "logs" in values:
            values["logs"] = [_log(each) for each in values["logs"]]
        if "schedulers" in values:
            values["schedulers"] = [_scheduler(each) for each in values["schedulers"]]
        if "estimates" in values:
            values["estimates"] = [_model(each) for each in values["estimates"]]
        campaign = msgspec.convert(values, Campaign)
        campaign.check()
    except msgspec.ValidationError as error:
        raise InputError(f"{source}: {_told(error, values)}") from None
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
    return campaign


def _seeds(number: Any, source: str) -> list[int]:
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= 10_000:
        raise InputError(
            f"{source}: seeds is {shown(number)}; a list of seeds, or their number from 1 to "
            "10000, is expected"
        )
    return list(range(1, number + 1))


def _log(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    return {"name": Path(given).name.partition(".")[0], "file": given}


def _scheduler(given: Any) -> Any:
    if isinstance(given, str):
        return msgspec.to_builtins(contestant_of(given))
    if isinstance(given, dict) and isinstance(given.get("scheduler"), str):
        return {"name": given["scheduler"], **given}
    return given


def _model(given: Any) -> Any:
    return {"model": given} if isinstance(given, str) else given


def _told(error: msgspec.ValidationError, values: Any) -> str:
    """Return what is wrong with a value, and where."""
    message, _, where = str(error).partition(" - at `$")
    where = where.rstrip("`").lstrip(".")
    value = values
    for step in re.findall(r"\w+", where):
        value = value[int(step)] if isinstance(value, list) else value.get(step)
    given = f" is {shown(value)}" if where else ""
    return f"{where}{given}: {message}".lstrip(": ")
