"""Running on a Dask cluster of two processes, started here."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from qops_batsim import InputError
from qops_batsim.experiments import (
    LogWindow,
    Study,
    StudyLog,
    StudyRuns,
    contestants_of,
    run_cases,
    run_study,
    summaries,
)
from qops_batsim.experiments import pool as module
from qops_batsim.experiments.study_report import csv_of, summary_records

distributed = pytest.importorskip("distributed", reason="needs the extra dask")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        yield cluster.scheduler_address


def test_a_study_has_the_table_that_it_has_here(address: str, tmp_path: Path) -> None:
    study = Study(
        name="small",
        logs=(StudyLog(name="SDSC", file="sdsc_sp2_1000"),),
        schedulers=contestants_of(["msb", "qops", "qops:k_factor=1"]),
        loads=(1.0, 1.4),
        seeds=(1, 2),
        windows=(LogWindow(first=40), LogWindow(skip=40, first=40)),
    )
    here = run_study(study, tmp_path / "here")
    done: list[tuple[int, int]] = []
    there = run_study(
        study,
        tmp_path / "there",
        workers=address,
        on_progress=lambda *each: done.append(each),
    )
    for records in (StudyRuns.records, lambda runs: summary_records(summaries(runs))):
        assert csv_of(records(there)) == csv_of(records(here))
    names = [
        {path.name for path in (tmp_path / each / "runs").iterdir()} for each in ("here", "there")
    ]
    assert names[0] == names[1]
    assert done[-1] == (18, 18)


def test_an_error_on_the_cluster_is_that_of_the_run(address: str) -> None:
    with pytest.raises(ValueError, match="domain|nonnegative"):
        run_cases(math.sqrt, [4, -1], workers=address)


def test_a_worker_of_another_version_is_told(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "__version__", "0")
    with pytest.raises(InputError, match="has qops-batsim .*; 0, as here, is expected"):
        run_cases(math.sqrt, [4], workers=address)


def test_a_cluster_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.2)
    with pytest.raises(InputError, match="Dask cluster 'tcp://127.0.0.1:9': cannot be reached"):
        run_cases(math.sqrt, [4], workers="tcp://127.0.0.1:9")
    with pytest.raises(InputError, match="Dask cluster 'nowhere': cannot be reached"):
        run_cases(math.sqrt, [4], workers="nowhere")
