"""What a run knows of its files, against what is read from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from qops_batsim.measures.results.run_files import find_run
from qops_batsim.measures.results.run_result import RunResult, read_files
from qops_batsim.running.run import Run


def contents(result: RunResult) -> dict[str, Any]:
    """Return all that the tables of a run tell, as plain values."""
    table = result.table
    found: dict[str, Any] = {"names": table.names, "states": table.states.tolist()}
    found |= {name: column.tolist() for name, column in table.numbers.items()}
    found |= {f"text {name}": list(column) for name, column in table.texts.items()}
    rows, first, last = result.allocations
    found |= {"rows": rows.tolist(), "first": first.tolist(), "last": last.tolist()}
    if result.hosts_over_time is not None:
        found["hosts"] = [each.tolist() for each in result.hosts_over_time]
    if (decided := result.decisions) is not None:
        found |= {"decisions": decided.decisions.tolist(), "cancelled": decided.cancelled.tolist()}
        for name, column in decided.columns.items():
            is_array = isinstance(column, np.ndarray)
            found[f"qos {name}"] = column.tolist() if is_array else list(column)
    return found


def differences(done: Run) -> list[str]:
    """Return which columns of a run's files are read otherwise than they were judged."""
    known, read = contents(done.result), contents(read_files(find_run(done), is_verified=True))
    assert known.keys() == read.keys()
    # The text of a number tells NaN, and a zero's sign.
    return [name for name in known if repr(known[name]) != repr(read[name])]
