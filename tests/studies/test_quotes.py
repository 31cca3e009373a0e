"""Quotes made at submissions of a log: what was known then, and how often they held."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from qops_batsim.queue import Past, past_of
from qops_batsim.traces import read_partitions, read_trace
from qops_batsim.workload import Conversion
from studies.quotes.__main__ import run_by_easy
from studies.quotes.backtest import LEVELS, backtest
from support.centre_dumps import CENTRE, make_rows, text_of


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Conversion:
    path = tmp_path_factory.mktemp("dump") / "dump.txt"
    path.write_text(text_of(make_rows((CENTRE[1],), 400)))
    parts, _ = read_partitions(path)
    return parts["cpu"]


def cut(trace: Conversion, jobs: int) -> Past:
    """Return the past of a trace without its last jobs."""
    return past_of(trace)._replace(history=jobs)


def test_quotes_know_nothing_of_what_comes_later(trace: Conversion) -> None:
    whole = backtest(past_of(trace), asked=400)
    assert len(whole.quoted) == 400
    records = trace.records
    for jobs in (120, 300):
        # What the log without the last jobs does not know of the longest walltime may differ.
        assert backtest(cut(trace, jobs), asked=jobs).quoted == whole.quoted[:jobs]
    # Nor of how long those will run that run now.
    now = float(records["submit_time"][200])
    later = records["submit_time"] + records["wait_time"] + records["run_time"] > now
    longer = records.copy()
    longer["run_time"][later] *= 3
    found = backtest(cut(with_records(trace, longer), 201), asked=201)
    before = [(each.start, each.end, each.starts) for each in whole.quoted[:201]]
    assert [(each.start, each.end, each.starts) for each in found.quoted][:201] == before


def with_records(trace: Conversion, records: np.ndarray) -> Conversion:
    import msgspec

    return msgspec.structs.replace(trace, records=records)


def test_an_empty_machine_starts_a_job_at_once(trace: Conversion) -> None:
    one = backtest(cut(trace, 1), asked=1)
    (quote,) = one.quoted
    assert (quote.start, quote.starts, quote.horizon) == (0.0, (), "starts at once")
    assert quote.end == trace.records["requested_time"][0]
    assert one.table() == []
    assert one.sentence().startswith("Too few quotes could be looked at (1)")


def test_the_table_counts_what_held(trace: Conversion) -> None:
    found = backtest(past_of(trace), asked=400)
    stated = [each for each in found.quoted if each.starts]
    rows = {(each.group, each.level): each for each in found.table()}
    for at, level in enumerate(LEVELS):
        held = sum(each.came <= each.starts[at] for each in stated)
        assert rows["all", 100 * level].came == pytest.approx(100 * held / len(stated))
        batches = np.array_split([each.came <= each.starts[at] for each in stated], 10)
        shares = [100 * float(np.mean(each)) for each in batches]
        reach = 2.262157 * float(np.std(shares, ddof=1)) / math.sqrt(10)
        assert rows["all", 100 * level].chance == pytest.approx(reach, abs=1e-4)
    for group in ("starts at once", "1 processors"):
        size = sum(group in (each.horizon, f"{each.size} processors") for each in stated)
        assert rows[group, None].quotes == size
    assert all(list(each.starts) == sorted(each.starts) for each in stated)
    assert f"{rows['all', 90.0].came:.1f} % of those said to hold with" in found.sentence()
    assert all(
        said >= level for each in stated for said, level in zip(each.said, LEVELS, strict=True)
    )


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["KTH-SP2-1996-2", "SDSC-SP2-1998-first5000"])
def test_what_is_said_is_what_comes(shared: Path, name: str) -> None:
    trace = read_trace(shared / "traces" / f"{name}.swf.gz")
    found = backtest(past_of(trace), asked=2000)
    for each in found.table():
        if each.group == "all" and each.said is not None:
            assert abs(each.came - each.said) < 3
        elif each.said is not None:
            # As far as chance lets so few quotes tell.
            assert abs(each.came - each.said) < max(3, each.chance)


def test_quotes_to_users_of_easy_say_what_is_sure(shared: Path) -> None:
    """Where the site is EASY itself, a job that can start at once does: that is said."""
    trace = read_trace(shared / "traces" / "CTC-SP2-1996-rebuilt.swf.gz", skip=20_000, first=3000)
    found = backtest(past_of(run_by_easy(trace)), asked=500)
    for each in found.table():
        if each.group in ("all", "starts at once") and each.said is not None:
            assert abs(each.came - each.said) < 3


def test_a_trace_without_waits_cannot_be_asked() -> None:
    with pytest.raises(ValueError, match="tells no waits"):
        backtest(past_of(read_trace("kth_sp2_1000")))
