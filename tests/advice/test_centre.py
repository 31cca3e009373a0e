"""Advice on centres of several partitions: each by itself, and nothing said that none bears out."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from qops_batsim import InputError, advise, run
from qops_batsim.advice import AdviceCase, AdviceChoices
from qops_batsim.advice.advice_page import advice_document, advice_page
from qops_batsim.advice.advice_tables import windows_table
from qops_batsim.advice.advise import Advice
from qops_batsim.advice.recommendations import CANNOT_SAY, recommended, summary
from qops_batsim.advice.trace_runs import TraceRuns, choose_windows, sized_windows
from qops_batsim.advice.wait_fit import HIGH, LEAST_WAIT, LOW, model_fit
from qops_batsim.experiments import contestant_of
from qops_batsim.slurm import read_nodes
from qops_batsim.traces import read_partitions
from qops_batsim.workload.accounting import Choices
from qops_batsim.workload.accounting.node_sizes import node_names
from support.centre_dumps import BEGIN, CENTRE, OPPOSITE, make_rows, text_of

FEW = AdviceChoices(
    others=(contestant_of("fqops:tolerance_factor=2"),), stringencies=(0.2, -0.5), loads=(1.0,)
)
JOBS = 200


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def advise_all(path: Path, **choices: Any) -> dict[str, Advice]:
    parts, _ = read_partitions(path, **choices)
    return {name: advise(trace, FEW, name=name) for name, trace in parts.items()}


@pytest.fixture(scope="module")
def rows() -> list[tuple[float, str, list[str]]]:
    return make_rows(CENTRE, JOBS)


@pytest.fixture(scope="module")
def dump(rows, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("centre") / "dump.txt", text_of(rows))


@pytest.fixture(scope="module")
def centre(dump: Path) -> dict[str, Advice]:
    return advise_all(dump)


def test_each_partition_is_as_it_is_alone(
    rows, dump: Path, centre: dict[str, Advice], tmp_path: Path
) -> None:
    assert list(centre) == [part.name for part in CENTRE]
    ids = {str(number): name for number, (_, name, _) in enumerate(rows, start=1000)}
    lines = dump.read_text().splitlines()
    own = [line for line in lines[1:] if ids[line.partition("|")[0]] == "gpu"]
    path = written(tmp_path / "gpu.txt", "\n".join([lines[0], *own]) + "\n")
    whole = advice_page(centre, "x")
    for name, alone in (
        ("gpu", advise_all(path)),
        ("short", advise_all(dump, accounting=of_partition("short"))),
    ):
        assert list(alone) == [name]
        ours, theirs = advice_document(centre[name]), advice_document(alone[name])
        for told in ("results", "earliest_promises", "fit", "settings", "summary", "limits"):
            assert ours[told] == theirs[told]
        page = advice_page({name: alone[name]}, "x")
        for table in re.findall(r"<h3>(?:Schedulers|Load|Deadlines by).*?</table>", page, re.S):
            assert table in whole


def of_partition(name: str) -> Choices:
    return Choices(by="binding", partitions=(name,))


def test_pooled_jobs_yield_nothing_that_partitions_contradict(tmp_path: Path) -> None:
    rows = make_rows(OPPOSITE, 300)
    parts = advise_all(written(tmp_path / "dump.txt", text_of(rows)))
    (pooled,) = advise_all(written(tmp_path / "pooled.txt", text_of(rows, pooled=True))).values()
    offers = {name: recommended(each)[0].value for name, each in parts.items()}
    assert offers["busy"] != offers["idle"]
    assert not pooled.fit.fits
    assert {each.value for each in recommended(pooled)} == {CANNOT_SAY}
    assert "choose" not in " ".join(summary(pooled))
    told = summary(pooled)
    assert told[0].startswith("The model does not fit this trace: ")
    assert "pooled here (--partition)" in told[2]
    page = advice_page({"": pooled}, "x")
    assert page.index('role="alert"') < page.index("Each of ")
    # The partitions themselves were run by EASY: there the model fits.
    assert all(each.fit.fits for each in parts.values())
    assert 'role="alert"' not in advice_page(parts, "x")


def test_numbers_are_those_that_pandas_finds(centre: dict[str, Advice], tmp_path: Path) -> None:
    """From the files of two runs, with nothing of what advice is made by."""
    for name in ("cpu", "gpu"):
        advice = centre[name]
        jobs = (
            pd.DataFrame(
                [
                    (j.id, j.submission_time, j.processors, j.walltime)
                    for j in advice.trace.workload.jobs
                ],
                columns=["id", "submitted", "cores", "estimate"],
            )
            .set_index("id")
            .sort_index()
        )
        easy = table_of(run("easy", advice.trace.workload, out=tmp_path / name / "easy"))
        response = easy.turnaround_time
        span = pd.concat([jobs.estimate, 0.8 * response], axis=1).max(axis=1)
        deadline = jobs.submitted + span
        missed = easy.finish_time > deadline + 1e-3
        counts = advice.counts(advice.choices.easy())
        assert counts.failed == missed.sum()
        for each in advice.fit.classes:
            low, high = {"1": (1, 1), "2 to 8": (2, 8), "9 to 32": (9, 32)}.get(
                each.group, (33 if each.group != "all" else 1, 10**9)
            )
            waits = easy.waiting_time[jobs.cores.between(low, high)]
            ordered = waits.sort_values().tolist()
            places = [math.ceil(q * len(ordered)) - 1 for q in (0.5, 0.9)]
            assert each.simulated == pytest.approx([ordered[at] for at in places], abs=0.01)
        asked = advice.trace.workload
        document = json.loads(workload_text(asked))
        for job in document["jobs"]:
            job["qos"] = {"deadline": float(deadline[str(job["id"])])}
        path = written(tmp_path / name / "asked.json", json.dumps(document))
        ours = table_of(run("qops", path, out=tmp_path / name / "qops"))
        refused = ours.final_state == "REJECTED"
        counts = advice.counts(advice.choices.chosen)
        assert counts.refused == refused.sum()
        run_times = (easy.finish_time - easy.starting_time)[refused[refused].index]
        work = (run_times * jobs.cores[run_times.index]).sum()
        assert counts.refused_work == pytest.approx(work)


def workload_text(workload: Any) -> str:
    from qops_batsim.workload import format_workload

    return str(format_workload(workload))


def table_of(done: Any) -> pd.DataFrame:
    """Return the jobs of a run as its file tells them."""
    table = pd.read_csv(f"{done.prefix}_jobs.csv", dtype={"job_id": str})
    table["finish_time"] = table.submission_time + table.turnaround_time
    table["finish_time"] = table.finish_time.fillna(table.starting_time + table.execution_time)
    return table.set_index("job_id").sort_index()


def test_gpus_bind_jobs_of_few_cores(dump: Path) -> None:
    def sizes(by: str) -> tuple[int, dict[str, int]]:
        parts, _ = read_partitions(dump, accounting=Choices(by=by, partitions=("gpu",)))
        workload = parts["gpu"].workload
        return workload.processors, {job.id: job.processors for job in workload.jobs}

    cores, gpus, binding = (sizes(by) for by in ("cores", "gpus", "binding"))
    assert gpus[0] <= 64
    each = {job: max(cores[1][job], gpus[1][job] * 8) for job in cores[1]}
    told = binding[1]
    # Cores of a GPU are estimated from the most of both in use at once.
    assert all(abs(told[job] - each[job]) <= each[job] / 8 + 1 for job in each)
    assert sum(told.values()) > 1.5 * sum(cores[1].values())


def test_sizes_come_from_the_nodes_where_they_are_told(dump: Path, tmp_path: Path) -> None:
    record = (
        "NodeName={} Arch=x86_64 CPUAlloc=0 CPUTot=64\n   RealMemory=512000 Gres={} State=IDLE\n"
        "   Partitions={}\n\n"
    )
    control = written(
        tmp_path / "control.txt",
        "".join(record.format(f"g{n}", "gpu:a100:8(S:0-1)", "gpu") for n in range(10))
        + "".join(record.format(f"c{n}", "(null)", "cpu,short") for n in range(20)),
    )
    table = "NODELIST|PARTITION|CPUS|GRES\n"
    table += "".join(f"g{n}|gpu*|64|gpu:a100:8\n" for n in range(10))
    table += "".join(f"c{n}|cpu|64|(null)\nc{n}|short|64|(null)\n" for n in range(20))
    info = written(tmp_path / "sinfo.txt", f"Tue Nov 24 2026\n{table}")
    expected = {
        "gpu": {"cores": 640, "nodes": 10, "gpus": 80},
        "cpu": {"cores": 1280, "nodes": 20, "gpus": 0},
        "short": {"cores": 1280, "nodes": 20, "gpus": 0},
    }
    for path in (control, info):
        assert read_nodes(path) == expected
    choices = Choices(by="gpus", partitions=("gpu",), nodes=read_nodes(info))
    parts, _ = read_partitions(dump, accounting=choices)
    assert parts["gpu"].workload.processors == 80
    for text in ("", "PARTITION CPUS\ngpu x\n", "NodeName=a CPUTot=x Gres=y\n"):
        with pytest.raises(InputError, match=r"bad.txt: (is no list|names no)"):
            read_nodes(written(tmp_path / "bad.txt", text))


def test_reservations_and_choices_are_told(rows, tmp_path: Path) -> None:
    told = [(at, name, [*cells]) for at, name, cells in rows if name == "cpu"]
    for number, (_, _, cells) in enumerate(told):
        cells[4] = "course" if number % 10 == 0 else ""
    path = written(tmp_path / "dump.txt", text_of(told))
    parts, _ = read_partitions(path)
    assert len(parts["cpu"].workload.jobs) == JOBS * 9 // 10
    (found,) = [each for each in parts["cpu"].repairs if each.rule == "other_reservation"]
    assert (found.jobs, found.description[:21]) == (JOBS // 10, "inside a reservation ")
    for chosen, jobs in ((("course",), JOBS // 10), (("all",), JOBS)):
        parts, _ = read_partitions(path, accounting=Choices(reservations=chosen))
        assert len(parts["cpu"].workload.jobs) == jobs
    parts, _ = read_partitions(path, accounting=Choices(accounts=("acc1",)))
    groups = {job.fields["group"] for job in parts["cpu"].workload.jobs}
    assert groups == {"acc1"}
    for wrong in ({"accounts": ("acc9",)}, {"partitions": ("cpus",)}, {"qos": ("x",)}):
        with pytest.raises(InputError, match="no job is of"):
            read_partitions(path, accounting=Choices(**wrong))


def test_jobs_of_several_partitions_count_where_they_ran(tmp_path: Path) -> None:
    head = "JobID|Partition|NodeList|State|Submit|Start|End|AllocCPUS|Timelimit"
    row = "{}|{}|{}|COMPLETED|2024-05-01T10:00:00|2024-05-01T10:01:00|2024-05-01T10:03:00|4|60:00"
    text = [head, *(row.format(n, "a", "n[1-2]") for n in (1, 2)), row.format(3, "b", "m1")]
    text += [row.format(4, "a,b", "m1"), row.format(5, "b,a", "n7")]
    path = written(tmp_path / "dump.txt", "\n".join(text) + "\n")
    parts, _ = read_partitions(path, accounting=Choices(partitions=("a", "b")))
    ids = {name: [job.id for job in each.workload.jobs] for name, each in parts.items()}
    assert ids == {"a": ["1", "2"], "b": ["3", "4", "5"]}


def dump_of_nodes(path: Path, spans: list[tuple[int, int, str]]) -> Path:
    """Write a dump of a job a day, of one hour, on nodes of four cores: days and nodes."""
    rows = ["JobID|Partition|NodeList|State|Submit|Start|End|AllocCPUS|Timelimit"]
    for begin, end, nodes in spans:
        for day in range(begin, end):
            date = f"{datetime.fromtimestamp(BEGIN + 86_400 * day, UTC):%Y-%m-%dT}"
            told = f"{len(rows)}|cpu|{nodes}|COMPLETED|{date}10:00:00|{date}10:00:00"
            rows.append(f"{told}|{date}11:00:00|{4 * len(node_names(nodes))}|90:00")
    return written(path, "\n".join(rows) + "\n")


def test_a_partition_has_the_nodes_that_ran_jobs(tmp_path: Path) -> None:
    # n[1-2]: days 0 to 99, n[3-4] from day 40 on, n1 away from day 70 on; n2 rests for ten days.
    spans = [(0, 90, "n2"), (5, 70, "n1"), (40, 100, "n[3-4]")]
    trace = read_partitions(dump_of_nodes(tmp_path / "dump.txt", spans))[0]["cpu"]
    assert trace.workload.processors == 16
    day, hour = 86_400, 3_600
    assert list(trace.sizes) == [(0, 8), (40 * day, 16), (69 * day + hour, 12)]
    windows = sized_windows(choose_windows(215, 3, 70), trace.workload, trace.sizes)
    assert [each.processors for each in windows] == [8, 16, 12]
    runs = TraceRuns(trace.workload, windows)
    measured = [runs(AdviceCase(window=n)).metrics.offered_load for n in range(3)]
    assert None not in measured
    told = advise(trace, FEW, name="cpu")
    assert windows_table(told).headings[-1] == "processors"


def test_a_partition_that_stays_has_one_size(tmp_path: Path) -> None:
    # Ten days without a job on a node do not make it go away.
    spans = [(0, 90, "n2"), (10, 80, "n1")]
    assert read_partitions(dump_of_nodes(tmp_path / "a.txt", spans))[0]["cpu"].sizes == []
    spans = [(0, 60, "n[1-200]"), (30, 60, "x1")]
    assert read_partitions(dump_of_nodes(tmp_path / "c.txt", spans))[0]["cpu"].sizes == []
    path = dump_of_nodes(tmp_path / "b.txt", [(0, 60, "n2"), (0, 10, "n1")])
    (trace,) = read_partitions(path)[0].values()
    assert list(trace.sizes) == [(0, 8), (9 * 86_400 + 3_600, 4)]
    (trace,) = read_partitions(path, processors=6)[0].values()
    assert list(trace.sizes) == []
    nodes = written(tmp_path / "sinfo.txt", "PARTITION NODES CPUS GRES\ncpu 1 4 (null)\n")
    (trace,) = read_partitions(path, accounting=Choices(nodes=read_nodes(nodes)))[0].values()
    assert (trace.workload.processors, [size for _, size in trace.sizes]) == (4, [8, 4])


def test_partitions_of_few_jobs_are_told(rows, tmp_path: Path) -> None:
    some = [row for row in rows if row[1] == "cpu" or float(row[0]) < 3000]
    path = written(tmp_path / "dump.txt", text_of(some))
    parts, small = read_partitions(path)
    assert list(parts) == ["cpu"]
    assert set(small) == {part.name for part in CENTRE} - {"cpu"}
    assert parts["cpu"].repairs[-1].jobs == sum(small.values())
    with pytest.raises(InputError, match="several partitions"):
        read_partitions(written(tmp_path / "all.txt", text_of(rows)), processors=64)
    with pytest.raises(InputError, match="is no accounting"):
        read_partitions("kth_sp2_1000", accounting=Choices(partitions=("cpu",)))


def test_a_fit_is_what_its_waits_say() -> None:
    import numpy as np

    rng = np.random.default_rng(3)
    for _ in range(50):
        logged = rng.exponential(rng.choice([60, 3600, 36000]), 200)
        factor = float(rng.choice([0.2, 0.6, 1.0, 1.7, 4.0]))
        fit = model_fit(logged, np.full(200, 16), {"long-wide": (logged * factor).tolist()})
        ratios = [
            max(np.quantile(logged * factor, q, method="inverted_cdf"), LEAST_WAIT)
            / max(np.quantile(logged, q, method="inverted_cdf"), LEAST_WAIT)
            for q in (0.5, 0.9)
        ]
        assert fit.fits == all(LOW <= ratio <= HIGH for ratio in ratios)
        assert [each.group for each in fit.classes] == ["9 to 32", "all"]
    assert not model_fit(np.full(200, -1.0), np.full(200, 1), {"short-wide": [1.0] * 200}).is_known


def test_the_command_advises_on_each_partition(cli, dump: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    options = ("--scheduler", "qops", "--scheduler", "msb", "--windows", "1x100")
    done = cli("advise", dump, "--out", out, *options, "--partition", "cpu", "--partition", "short")
    assert done.exit_code == 0, done.err
    assert "cpu: Each of" in done.out
    page = out.read_text()
    assert "Partition short: Charges" in page
    done = cli("workload", "import", dump, tmp_path / "gpu.json", "--partition", "gpu")
    assert f"{JOBS} of {JOBS} usable jobs written" in done.out
