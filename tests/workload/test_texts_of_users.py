"""Texts of users in Slurm's accounting: with delimiters and line breaks they cost no job."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "soak"))

from qops_batsim import InputError
from qops_batsim.traces import read_trace
from qops_batsim.workload import Conversion
from qops_batsim.workload.accounting import Choices
from qops_batsim.workload.accounting.site import CsvForm
from support.logs import read_log

COLUMNS = ("JobID", "State", "Submit", "Start", "End", "ElapsedRaw", "AllocCPUS", "Timelimit")
CELLS = ("COMPLETED", "2026-02-02T08:00:00", "2026-02-02T08:00:10", "2026-02-02T08:10:10", "600",
         "4", "00:20:00")  # fmt: skip


def dump(texts: list[list[str]], names: list[str], place: int, *, mark: str = "|",
         trailing: bool = False) -> str:  # fmt: skip
    """Return a dump of jobs 1, 2, … with these texts, whose columns begin at a place."""
    rows = [[*COLUMNS[:place], *names, *COLUMNS[place:]]]
    for number, told in enumerate(texts, start=1):
        cells = [str(number), *CELLS]
        rows.append([*cells[:place], *told, *cells[place:]])
    return "".join(mark.join(row) + mark * trailing + "\n" for row in rows)


def read(tmp_path: Path, text: str) -> Conversion:
    path = tmp_path / "dump.txt"
    path.write_text(text)
    return read_trace(path)


ODD = [
    *("a|b", "a\nb", "\n", "x" * 300 + "\n" * 30 + "y", "echo one &&\n\necho|two\n", "|\n|"),
    *("a|b|c|d|e|f|g|h|i", "12|34\nx5|6", "1\n2"),
]


@pytest.mark.parametrize("place", [0, 1, 4, 8])
@pytest.mark.parametrize("mark", ["|", ";", "@@", "\t"])
@pytest.mark.parametrize("name", ["JobName", "Comment", "SubmitLine", "WorkDir"])
def test_a_text_costs_no_job(tmp_path: Path, name: str, mark: str, place: int) -> None:
    # In front of the job's number or just behind it, some texts look as the beginning of a row.
    odd = {0: ODD[:4], 1: ODD[:-1], 8: ODD[:-3]}.get(place, ODD)
    texts = ["run", *(each.replace("|", mark) for each in odd), "run"]
    for trailing in (False, True):
        found = read(
            tmp_path, dump([[t] for t in texts], [name], place, mark=mark, trailing=trailing)
        )
        ids = [job.id for job in found.workload.jobs]
        assert ids == [str(number) for number in range(1, len(texts) + 1)]
        assert set(found.records["run_time"]) == {600}
        assert {job.processors for job in found.workload.jobs} == {4}


def test_the_text_is_whole(tmp_path: Path) -> None:
    """Also that of a command whose option stands in its second line."""
    for place in (1, 8):
        texts = [["a|b", "sbatch \\\n --no-requeue x"], ["c", "sbatch y"]]
        jobs = read(tmp_path, dump(texts, ["JobName", "SubmitLine"], place)).workload.jobs
        assert [job.qos is not None for job in jobs] == [True, False]


def test_lists_may_hold_the_delimiter(tmp_path: Path) -> None:
    """A list of resources does where the delimiter is a comma."""
    texts = [["a,b", "1", "cpu=4,mem=4G"], ["c", "1", "cpu=4,mem=2G"]]
    text = dump(texts, ["JobName", "AllocNodes", "AllocTRES"], 1, mark=",")
    found = read(tmp_path, text.replace("AllocCPUS", "Nothing"))
    assert [job.processors for job in found.workload.jobs] == [4, 4]


def test_lines_of_texts_are_told(tmp_path: Path) -> None:
    found = read(tmp_path, dump([["a\nb\nc"], ["d"]], ["Comment"], 8))
    (told,) = (each for each in found.repairs if each.rule == "broken_texts")
    assert list(told.lines) == [3, 4]


@pytest.mark.parametrize("text", [
    # The beginning of a row, or a whole one: nobody can tell whose.
    "see\n9|COMPLETED|2026-02-02T08:00:00",
    "see\n9|COMPLETED|x|2026-02-02T08:00:00|2026-02-02T08:00:10|2026-02-02T08:10:10|600|4|00:20:00\n",
])  # fmt: skip
def test_what_may_be_a_row_is_refused_by_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="line 3: "):
        read(tmp_path, dump([["run"], [text], ["run"]], ["Comment"], 2))


@pytest.mark.parametrize("cut", ["3|COMPL", "3|COMPLETED|2026-02-02T", "3"])
def test_a_row_that_was_cut_is_no_text(tmp_path: Path, cut: str) -> None:
    text = dump([["run"], ["a\nb"]], ["SubmitLine"], 8)
    with pytest.raises(InputError, match="line 5: "):
        read(tmp_path, text + cut)
    if "|" in cut:
        with pytest.raises(InputError, match="line 5: "):
            read(tmp_path, text + cut + "\n" + text)


@pytest.mark.parametrize("place", [0, 3, 8])
def test_a_row_that_lost_a_cell_is_no_text(tmp_path: Path, place: int) -> None:
    lines = dump([["run"], ["run"], ["run"]], ["Comment"], place).split("\n")
    for at in range(8):
        cells = lines[2].split("|")
        del cells[at if at < place else at + 1]
        with pytest.raises(InputError, match="line 3: "):
            read(tmp_path, "\n".join([*lines[:2], "|".join(cells), *lines[3:]]))


def test_a_quote_that_is_left_open_swallows_no_job(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text('id,made,ran,n,note\n1,0,60,4,"open\n2,5,60,4,x\n3,9,60,4,"\n')
    mapping = {"id": "id", "submit": "made", "run_time": "ran", "processors": "n"}
    with pytest.raises(InputError, match="line 4: "):
        read_log(path, Choices(), "csv", CsvForm(mapping))


def test_a_last_line_without_end_is_told(tmp_path: Path) -> None:
    text = dump([["run"]], ["JobName"], 8)
    for content, expected in ((text, []), (text[:-2], [2])):
        told = [each for each in read(tmp_path, content).repairs if each.rule == "no_line_end"]
        assert [list(each.lines) for each in told] == [expected] * bool(expected)


def test_what_is_known_is_read_right_or_refused(tmp_path: Path) -> None:
    """A hundred inputs of the soak's generator: ``benchmarks/soak --only logs`` makes more."""
    import known_logs
    from harness import Tally

    tally = Tally()
    for seed in range(1, 3):
        known_logs.case(seed, tmp_path, tally)
    assert tally.failures == []
    assert tally.counts["right"] > 50
