"""Which job each row is a run of: against the same by dictionaries of names."""

import json
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from measures.conftest import Ran, Writer
from qops_batsim import read_run
from qops_batsim.measures import original_id
from qops_batsim.measures.results.result_tables import first_run_id
from qops_batsim.measures.verify.subject import JobNumbers
from qops_batsim.workload import parse_workload

NAMES = st.sampled_from(["1", "1#1", "1#2", "1#1#1", "2", "2#1", "3#x", "#1", "4#1#2", "4"])


def runs_by_name(names, starts, jobs):
    """Return the rows of each job's runs by its name, as the rules about restarts define them."""
    known = jobs
    if known is None:
        known = {name for name in names if first_run_id(name) not in set(names)}
    runs: dict[str, list[int]] = {}
    for name, row in {name: row for row, name in enumerate(names)}.items():
        runs.setdefault(original_id(name, known) or name, []).append(row)
    for rows in runs.values():
        rows.sort(key=lambda row: (np.nan_to_num(starts[row], nan=np.inf), row))
    return runs


@given(
    st.lists(st.tuples(NAMES, st.integers(0, 5), st.booleans()), max_size=10),
    st.none() | st.sets(NAMES, max_size=4),
)
def test_rows_are_grouped_as_by_name(rows, asked):
    workloads, jobs = {}, None
    if asked is not None:
        listed = [{"id": name, "subtime": 0, "res": 1, "profile": "p"} for name in sorted(asked)]
        profiles = {"p": {"type": "delay", "delay": 5}}
        text = json.dumps({"nb_res": 4, "jobs": listed, "profiles": profiles})
        workloads = {"w0": parse_workload(text, source="small.json")}
        jobs = {f"w0!{name}" for name in asked}
    ran = [Ran(name, 0, 1, start, 5, [0] if runs else None) for name, start, runs in rows]
    with tempfile.TemporaryDirectory() as directory:
        result = read_run(Writer(Path(directory))(ran))
    ids = {name: workload.columns.ids for name, workload in workloads.items()}
    identities = JobNumbers(result, ids)
    names = [f"w0!{name}" for name, _, _ in rows]
    expected = runs_by_name(names, result.column("starting_time"), jobs)
    everything = np.ones(len(identities), np.bool_)
    found = {
        identities.name(int(identities.owners[each[0]])): each
        for each in identities.runs(everything)
    }
    assert list(found.items()) == list(expected.items())
    assert [identities.name(number) for number in identities.rows.tolist()] == names
    last = sorted(rows[-1] for rows in expected.values())
    assert np.flatnonzero(identities.last_runs).tolist() == last
