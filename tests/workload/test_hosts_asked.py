"""What jobs ask of their hosts goes through files of both versions, changes of workloads, messages
and restarts.
"""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from qops_batsim import Easy, InputError, Job, QosRequest, read_workload
from qops_batsim.engine.registration import as_registered
from qops_batsim.experiments.deadline_workload import give_deadlines_by_need
from qops_batsim.jobs import rest_of
from qops_batsim.platform.equal_hosts import make_cluster
from qops_batsim.protocol import decisions as d
from qops_batsim.protocol import events as e
from qops_batsim.protocol.messages import (
    Message,
    Stamped,
    decode_decisions,
    decode_events,
    encode_message,
)
from qops_batsim.protocol.v5.profiles import JobBody, job_of
from qops_batsim.running.hidden_run_times import disguise
from qops_batsim.running.simulate import simulate
from qops_batsim.workload import (
    NeedChoices,
    NeedMix,
    Workload,
    exact_estimates,
    format_workload,
    parse_workload,
    scale_load,
    subset,
)
from qops_batsim.workload.batsim5 import format_batsim5

ASKED: list[dict[str, Any]] = [
    {},
    {"per_host": {"cores": 8, "memory": 16e9, "gpus:v100": 1}},
    {"tasks": 6, "per_task": {"cores": 4}, "hosts_with": ["skylake"]},
    {"exclusive": True, "licences": {"matlab": 1}},
    {"parts": [{"res": 1, "per_host": {"cores": 1}}, {"res": 1}]},
    {"per_host": {"cores": 8, "memory": 16e9, "gpus:v100": 1}, "qos": {"deadline": 900.5}},
]
PROFILES = {"delay60": {"type": "delay", "delay": 60}}


def text_of(asked: list[dict[str, Any]]) -> str:
    usual = {"subtime": 0, "res": 2, "profile": "delay60", "walltime": 100}
    jobs = [{"id": str(n), **usual, **each} for n, each in enumerate(asked)]
    return json.dumps({"nb_res": 8, "jobs": jobs, "profiles": PROFILES})


def parsed(asked: list[dict[str, Any]] = ASKED) -> Workload:
    return parse_workload(text_of(asked), source="w.json")


def asked_by(workload: Workload) -> list[Any]:
    """Return what jobs ask of their hosts: in columns, as jobs and as written."""
    found = [job.hosts_asked for job in workload.jobs]
    assert workload.columns.hosts_asked == found
    again = parse_workload(format_workload(workload), source="again.json")
    assert [job.hosts_asked for job in again.jobs] == found
    return found


FOUND = asked_by(parsed())


def test_jobs_are_read_as_one_by_one() -> None:
    fields = json.loads(text_of(ASKED))["jobs"]
    assert [Job.from_fields(each, where="here").hosts_asked for each in fields] == FOUND
    assert FOUND[0] is None
    assert None not in FOUND[1:]


def test_what_many_jobs_ask_is_read_at_once_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from qops_batsim.workload import batsim_json

    texts = []
    load = batsim_json._load_json
    monkeypatch.setattr(
        batsim_json, "_load_json", lambda text, *more: texts.append(text) or load(text, *more)
    )
    workload = parsed(ASKED[:5] * 20)
    assert len(texts) == 5  # No second pass.
    found = workload.columns.hosts_asked
    assert found is not None
    assert len({id(each) for each in found}) == 5


def test_jobs_that_ask_for_nothing_have_no_column() -> None:
    assert parsed([{}, {"exclusive": False}]).columns.hosts_asked is None
    assert parsed([{"gpus": 4, "memory": 12.5}]).columns.hosts_asked is None


@pytest.mark.parametrize("name", ["per\\u005fhost", "per_host"])
def test_names_with_escapes_and_repeated_names(name: str) -> None:
    text = text_of([{"per_host": {"cores": 8}}]).replace("per_host", name)
    assert parse_workload(text, source="w.json").columns.hosts_asked is not None
    twice = text.replace('{"cores": 8}', '{"cores": 8, "cores": 9}')
    with pytest.raises(InputError, match="field 'cores' is given twice"):
        parse_workload(twice, source="w.json")


def test_a_mistake_names_the_job_of_the_file() -> None:
    with pytest.raises(InputError) as caught:
        parsed([*ASKED, {"per_host": {"cores": -3}}])
    assert str(caught.value).startswith(
        "w.json: jobs[6] (job '6'): field 'per_host.cores' is -3; a whole number from 0 "
    )
    with pytest.raises(InputError, match="'extra_data.tasks' is 1; a whole number of tasks from"):
        parsed([{"extra_data": {"tasks": 1, "per_task": {"cores": 1}}}])


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"per_hosts": {"cores": 1}}, "field 'per_hosts' means nothing; did you mean 'per_host'?"),
        ({"licenses": {"a": 1}}, "field 'licenses' means nothing; did you mean 'licences'?"),
        ({"extra_data": {"hostswith": ["a"]}}, "extra_data: field 'hostswith' means nothing; did"),
    ],
)
def test_misspelt_fields_are_told(fields: dict[str, Any], told: str) -> None:
    with pytest.warns(RuntimeWarning) as warned:
        parsed([fields])
    assert told in str(warned[0].message)


def test_changed_jobs_still_ask() -> None:
    workload = parsed(ASKED[:5])
    assert asked_by(pickle.loads(pickle.dumps(workload))) == FOUND[:5]
    assert asked_by(exact_estimates(workload)) == FOUND[:5]
    assert asked_by(subset(workload, first=2, skip=2)) == FOUND[2:4]
    assert asked_by(scale_load(workload, 1.5, method="expansion")) == FOUND[:5]
    assert asked_by(disguise(workload).workload) == FOUND[:5]

    twice = scale_load(workload, 2.0, seed=1)
    asked = dict(zip([job.id for job in twice.jobs], asked_by(twice), strict=True))
    assert len(asked) == 10
    assert all(asked[f"{n}d1"] == asked[f"{n}"] == FOUND[n] for n in range(5))

    renamed = [job.renamed(f"w0!{job.id}#1") for job in workload.jobs]
    assert [job.hosts_asked for job in renamed] == FOUND[:5]
    assert [job.fields.get("tasks") for job in renamed] == [None, None, 6, None, None]


@pytest.mark.parametrize("release", ["4", "5"])
def test_deadlines_keep_what_jobs_ask(release: str) -> None:
    workload = parsed()
    if release == "5":
        workload = parse_workload(format_batsim5(workload)[0], source="five.json")
    made = give_deadlines_by_need(workload, NeedChoices(mix=NeedMix(slack=1)))
    assert asked_by(made) == FOUND
    assert all(job.qos is not None and job.qos.deadline is not None for job in made.jobs)


def test_versions_4_and_5_hold_the_same(tmp_path: Path, cli: Callable[..., Any]) -> None:
    four, five, back = (tmp_path / name for name in ("4.json", "5.json", "back.json"))
    four.write_text(text_of(ASKED))
    assert cli("workload", "import", four, five, "--as", "5").err == ""
    jobs = json.loads(five.read_text())["jobs"]
    assert jobs[5]["extra_data"] == {"deadline": 900.5, "per_host": ASKED[1]["per_host"]}
    assert set(jobs[5]) == {"id", "subtime", "res", "profile", "walltime", "extra_data"}
    assert "extra_data" not in jobs[0]
    assert asked_by(read_workload(five)) == FOUND

    cli("workload", "import", five, back, "--as", "4")
    written = json.loads(back.read_text())["jobs"]
    assert [set(job) for job in written] == [set(job.fields) for job in read_workload(four).jobs]
    assert asked_by(read_workload(back)) == FOUND
    assert [job.qos for job in read_workload(back).jobs][4:] == [None, QosRequest(deadline=900.5)]


@pytest.mark.parametrize("text", [True, False])
def test_extra_data_may_be_a_text(text: bool) -> None:
    extra: Any = {"per_host": {"cores": 8}, "estimated_runtime": 60.0}
    workload = parsed([{"extra_data": json.dumps(extra) if text else extra}])
    assert asked_by(workload)[0].parts[0].amounts == {"cores": 8}
    changed = exact_estimates(workload)  # A text of an object was an AttributeError.
    assert asked_by(changed) == asked_by(workload)
    assert changed.jobs[0].qos == QosRequest(estimated_runtime=60.0)


def test_messages_of_both_versions_say_it() -> None:
    for job, asked in zip(parsed().jobs, FOUND, strict=True):
        full = job.renamed(f"w0!{job.id}")
        submitted = e.JobSubmitted(full.id, full)
        text = encode_message(Message(1.0, [Stamped(1.0, submitted)]))
        heard = decode_events(text).events[0].body
        assert isinstance(heard, e.JobSubmitted)
        assert heard.job is not None
        assert heard.job.hosts_asked == asked

        text = encode_message(Message(1.0, [Stamped(1.0, d.RegisterJob(full.id, full))]))
        registered = decode_decisions(text).events[0].body
        assert isinstance(registered, d.RegisterJob)
        assert registered.job.hosts_asked == asked

        written = json.loads(format_batsim5(parsed())[0])["jobs"][int(job.id)]
        extra = written.get("extra_data")
        told = None if extra is None else json.dumps(extra)
        heard_5 = job_of(JobBody(2, "w0!delay60", 100.0, told), full.id, 0.0)
        assert heard_5.hosts_asked == asked
        assert heard_5.qos == job.qos
        assert "extra_data" not in heard_5.fields


def test_a_restarted_job_asks_what_it_asked() -> None:
    for job, asked in zip(parsed().jobs, FOUND, strict=True):
        for saved in (0.0, 20.0):
            again = rest_of(job, f"w0!{job.id}#1", saved)
            assert again.hosts_asked == asked
            read = Job.from_fields(again.fields, where="here")
            assert read.hosts_asked == asked
            assert as_registered(again.id, again).hosts_asked == asked


def test_schedulers_see_it() -> None:
    seen: dict[str, Any] = {}

    class Seeing(Easy):
        def submitted(self, job: Job) -> None:
            seen[job.id] = job.hosts_asked
            super().submitted(job)

    simulate(Seeing, parsed(), "shared_8")
    assert [seen[f"w0!{n}"] for n in range(len(FOUND))] == FOUND


@pytest.mark.parametrize("scheduler", ["easy", "qops", "aroma"])
def test_a_machine_without_amounts_is_no_guess(scheduler: str) -> None:
    with pytest.raises(InputError, match=r"job .*1'? .*per_host.*host of"):
        simulate(scheduler, parsed(), make_cluster(8))


def test_old_extra_data_is_read_as_it_was() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        workload = parsed([{"extra_data": {"colour": 1}}, {"extra_data": {"memory": 5.0}}])
    assert asked_by_nobody(workload)
    assert [job.qos for job in workload.jobs] == [None, QosRequest(memory=5.0)]
    assert msgspec.to_builtins(workload.jobs[0].fields["extra_data"]) == {"colour": 1}


def asked_by_nobody(workload: Workload) -> bool:
    return workload.columns.hosts_asked is None
