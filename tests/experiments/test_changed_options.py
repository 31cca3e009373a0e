"""Options with lists and tables, as keys of runs."""

from __future__ import annotations

import pickle
from pathlib import Path

import msgspec
import pytest

from qops_batsim.experiments import contestant_of, contestants_of, read_study_runs, run_study
from qops_batsim.experiments.changed_options import changed_options, hashable
from qops_batsim.experiments.compare import comparison_of
from qops_batsim.experiments.study_runs import status_of

QOS = 'slurm:weight_qos=5,qos={"high": {"priority": 9}, "low": {"priority": 1}}'
FAIR = 'slurm:weight_qos=5,qos={"low": {"priority": 1}, "high": {"priority": 9}}'


@pytest.mark.parametrize(
    "value",
    [{"a": 1}, {"a": {"b": [1, {"c": []}]}}, [[1], {"a": [2]}], {}, [], "text", None, 1.5],
)
def test_any_value_of_a_file_is_hashable_and_written_as_it_was(value: object) -> None:
    key = hashable(value)
    assert hash(key) == hash(hashable(value))
    assert msgspec.json.decode(msgspec.json.encode(key)) == value
    assert pickle.loads(pickle.dumps(key)) == key


def test_equal_options_in_another_order_are_one_key() -> None:
    one = changed_options([("b", {"x": 1, "y": [2]}), ("a", 0)])
    other = changed_options([("a", 0), ("b", {"y": [2], "x": 1})])
    assert one == other
    assert {one: "run"}[other] == "run"
    assert changed_options([("b", {"x": 2}), ("a", 0)]) != one


def test_an_option_that_is_a_table_is_read_from_a_text() -> None:
    found = contestant_of(QOS)
    assert found.scheduler == "slurm"
    assert found.settings["weight_qos"] == 5
    assert found.settings["qos"] == {"high": {"priority": 9}, "low": {"priority": 1}}
    assert contestant_of('a/b.py:Mine:table={"x": 1}').scheduler == "a/b.py:Mine"
    assert contestant_of("a/b.py:Mine").scheduler == "a/b.py:Mine"


def test_a_study_of_tables_is_run_kept_and_read_again(tmp_path: Path) -> None:
    study = comparison_of(contestants_of(["easy", QOS, FAIR]), "tiny_8", loads=(1.0,), seeds=(1,))
    done = run_study(study, tmp_path)
    # Equal tables are one run.
    assert status_of(tmp_path).runs == status_of(tmp_path).finished == 2
    assert read_study_runs(tmp_path).records() == done.records()
    assert [each.error for each in run_study(study, tmp_path, workers=2).outcomes] == [None] * 3
