"""What Slurm expects is recorded: each change once, whatever ends the process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from qops_batsim import QopsError
from qops_batsim.live import CommandFailed, SlurmManager
from qops_batsim.live import record as recording
from qops_batsim.live.record import Recorder, record
from qops_batsim.queue.expected_starts import ExpectedStarts
from support.slurm_cluster import SlurmCluster

NOW = 1_780_000_000.0


class Squeue:
    """Slurm that tells these rows, one text after the other; an empty one is an outage."""

    def __init__(self, *said: str) -> None:
        self.said, self.asked = list(said), list[tuple[Sequence[str], str]]()

    def __call__(self, command: Sequence[str], form: str) -> str:
        self.asked.append((command, form))
        if not (said := self.said.pop(0)):
            raise CommandFailed("squeue: slurmctld does not answer")
        ends = [end for _, _, end in (each.partition(":0") for each in form.split(","))]
        rows = [zip(line.split(), ends, strict=False) for line in said.splitlines()]
        return "\n".join("".join(cell + end for cell, end in row) for row in rows)


def test_only_what_changes_is_written(tmp_path: Path) -> None:
    path = tmp_path / "looks.jsonl"
    first = f"7 {NOW + 600:.0f} \n8_1 N/A \n"
    squeue = Squeue(first, first, f"7 {NOW + 300:.0f} \n9 {NOW + 900:.0f} \n")
    with Recorder(path, SlurmManager("main", squeue)) as recorder:
        assert [recorder.look(NOW + 60 * count) for count in range(3)] == [2, 2, 2]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [
        {"date": NOW, "starts": {"7": NOW + 600, "8_1": None}},
        {"date": NOW + 60, "starts": {}},
        {"date": NOW + 120, "starts": {"7": NOW + 300, "9": NOW + 900}},
    ]
    command = ["squeue", "-h", "-a", "-r", "-t", "PENDING", "-p", "main"]
    assert [asked for asked, _ in squeue.asked] == [command] * 3
    assert ExpectedStarts(path).at("7", NOW + 121) == NOW + 300


def test_a_file_is_gone_on_with_behind_its_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "looks.jsonl"
    path.write_text('{"date":1.0,"starts":{"6":2.0}}\n{"date":2.0,"sta')
    with Recorder(path, SlurmManager(None, Squeue("7 9 \n"))) as recorder:
        with pytest.raises(QopsError, match="another process writes it"):
            Recorder(path, SlurmManager(None, Squeue()))
        recorder.look(3.0)
    assert path.read_text().splitlines() == [
        '{"date":1.0,"starts":{"6":2.0}}',
        '{"date":3.0,"starts":{"7":9.0}}',
    ]


def test_an_outage_is_told_of_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told, waits = [], iter(range(4))

    def sleep(seconds: float) -> None:
        if next(waits) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(recording.time, "sleep", sleep)
    squeue = Squeue("", "", "what\n", "7 9 \n")
    with (
        Recorder(tmp_path / "looks.jsonl", SlurmManager(None, squeue)) as found,
        suppress(KeyboardInterrupt),
    ):
        record(found, 1.0, told.append)
    outage, nonsense, again = told
    assert outage == "no news: squeue: slurmctld does not answer"
    assert "rows of 2 columns are expected" in nonsense
    assert again == "news again: 1 jobs wait"


@pytest.mark.sweep
@pytest.mark.usefixtures("slurm")
def test_a_real_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SlurmCluster(tmp_path, 2) as cluster:
        for name in ("SLURM_CONF", "PATH"):
            monkeypatch.setenv(name, cluster.env[name])
        jobs = [cluster.submit("exec sleep 60", "-N", "2", "-t", "2") for _ in range(3)]
        slurm, path = SlurmManager(), tmp_path / "looks.jsonl"

        def planned() -> bool:
            found = slurm.expected_starts()
            return {*found} == {*jobs[1:]} and None not in found.values()

        cluster.wait_for(planned, 60, "Slurm plans")
        with Recorder(path, slurm) as recorder:
            recorder.look(NOW)
    second, third = (ExpectedStarts(path).at(job, NOW) for job in jobs[1:])
    assert second is not None
    assert third is not None
    # Each is at its limit after two minutes; Slurm plans in steps of one.
    assert 60.0 <= third - second <= 180.0
