"""Totals of a run of Batsim 5 (``schedule.json``)."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import msgspec

from qops_batsim.errors import InputError, shown
from qops_batsim.files import read_bytes
from qops_batsim.jobs import is_number
from qops_batsim.limits import MAX_DESCRIPTION_BYTES

NEEDED = ("nb_jobs", "nb_jobs_finished", "nb_computing_machines", "makespan")
"""Totals that each run has."""

_WRONG = ("time_computing", "time_idle")
"""Totals that 5.0.0-rc2 gets wrong: no host is idle again."""

_UNDEFINED = re.compile(rb"(:\s*)-?nan\b")
"""Undefined means are written as C does, which is no JSON."""


def read_totals(path: Path) -> dict[str, float]:
    """Read a ``schedule.json``: its values by name, NaN for what is not a number.

    The time that hosts compute or idle is left out, since it is wrong there.
    """
    what = "a schedule.json of Batsim 5"
    content = read_bytes(path, what=what, max_bytes=MAX_DESCRIPTION_BYTES)
    try:
        told = msgspec.json.decode(_UNDEFINED.sub(rb"\1null", content), type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: {error}; {what} is expected") from None
    for name in NEEDED:
        if not is_number(told.get(name)):
            found = shown(told[name]) if name in told else "missing"
            raise InputError(f"{path}: {name} is {found}; a number is expected")
    return {
        name: float(each) if is_number(each) else math.nan
        for name, each in told.items()
        if name not in _WRONG
    }
