"""``qops-batsim charges``."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with runs of qops, msb and easy on a small deadline workload."""
    from qops_batsim import read_workload, simulate
    from qops_batsim.platform import make_cluster
    from qops_batsim.protocol import make_scheduler
    from qops_batsim.running import write_run
    from qops_batsim.shipped import find_input

    directory = tmp_path_factory.mktemp("runs")
    name = "sdsc_sp2_deadlines_500"
    workload = read_workload(find_input(name, "workloads"))
    for scheduler in ("qops", "msb", "easy"):
        module = make_scheduler(scheduler)
        simulation = simulate(module, workload, make_cluster(workload.processors))
        write_run(
            simulation,
            directory / scheduler,
            scheduler=scheduler,
            module=module,
            workload=name,
            platform=None,
        )
    return directory


@pytest.fixture
def priced(tmp_path: Path) -> Callable[[str], tuple[str, Path]]:
    """The option with a file of prices."""

    def option(text: str) -> tuple[str, Path]:
        path = tmp_path / "prices.toml"
        path.write_text(text)
        return "--prices", path

    return option


def test_the_table(cli, runs: Path) -> None:
    result = cli("charges", runs / "qops")
    assert result.exit_code == 0, result.err
    assert "very-long-very-wide" in result.out
    assert "QoS charge" in result.out
    assert "profit of" in result.out
    assert cli("charges", runs / "qops").out == result.out


def test_queues_have_their_prices(cli, runs: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "run"
    cli("run", "priced-queues", "-w", "sdsc_sp2_deadlines_500", "-o", prefix, "-q")
    text = Path(f"{prefix}_qos.csv").read_text()
    rows = {row["job_id"]: row for row in csv.DictReader(text.splitlines())}
    paid = dict.fromkeys(("premium", "regular", "low"), 0.0)
    for job in csv.DictReader(Path(f"{prefix}_jobs.csv").read_text().splitlines()):
        row = rows[job["job_id"]]
        seconds = int(job["requested_number_of_resources"]) * float(job["execution_time"])
        price = {"premium": 2.0, "regular": 1.0, "low": 0.5}[row["queue"]]
        assert float(row["price"]) == price
        paid[row["queue"]] += price * seconds
    document = json.loads(cli("charges", prefix, "--json").out)
    (report,) = document["runs"]
    found = {each["category"]: each["charge"]["resource"] for each in report["queues"]}
    assert list(found) == list(paid)
    assert found == pytest.approx(paid)
    assert report["total"]["charge"]["resource"] == pytest.approx(sum(paid.values()))
    assert sum(each["jobs"] for each in report["queues"]) == 500
    printed = cli("charges", prefix).out
    assert "run by queue" in printed
    # Where no queue has a price nothing is told of queues.
    assert "queues" not in json.loads(cli("charges", runs / "easy", "--json").out)["runs"][0]


def test_json_and_the_break_even_weight(cli, runs: Path, priced) -> None:
    prices = priced('currency = "EUR"\ncore_hour = 7200\nqos_charge = 3\n')
    result = cli("charges", runs / "msb", "--against", runs / "easy", "--json", *prices)
    assert result.exit_code == 0, result.err
    document = json.loads(result.out)
    msb, easy = document["runs"]
    # EASY refuses no job and promises nothing.
    assert easy["total"]["charged_jobs"] == easy["total"]["jobs"] == 500
    assert easy["total"]["charge"]["qos"] == 0
    charge = msb["total"]["charge"]
    assert msb["profit"] == pytest.approx(2 * charge["resource"] + 3 * charge["qos"])
    # A deadline that EASY misses costs what it would have brought.
    resource, penalty = easy["total"]["charge"]["resource"], easy["total"]["penalty"]
    assert easy["total"]["failed"] > 0
    assert easy["profit"] == pytest.approx(2 * resource - 3 * penalty)
    ratio = (resource - charge["resource"]) / (charge["qos"] + penalty)
    assert document["break_even"]["ratio"] == pytest.approx(ratio)
    assert document["break_even"]["below"] == "second"
    assert document["break_even"]["above"] == "first"
    assert sum(each["charge"]["qos"] for each in msb["categories"]) == pytest.approx(charge["qos"])
    free = cli("charges", runs / "easy", *priced("penalty = 0"), "--json")
    assert json.loads(free.out)["runs"][0]["profit"] == pytest.approx(resource)


def test_which_earns_more_in_words(cli, runs: Path) -> None:
    crossing = cli("charges", runs / "msb", "--against", runs / "easy")
    assert "both earn the same at W_Q / W_R =" in crossing.out
    same = cli("charges", runs / "msb", "--against", runs / "msb")
    assert "both earn the same with any weights" in same.out


def test_the_reference_run_is_easy(cli, runs: Path) -> None:
    by_default = cli("charges", runs / "qops", "--json")
    given = cli("charges", runs / "qops", "--json", "--reference", runs / "easy")
    first, second = (json.loads(each.out)["runs"][0]["total"] for each in (by_default, given))
    assert first["charge"]["qos"] == pytest.approx(second["charge"]["qos"], rel=1e-6)


def test_the_example_is_what_holds_without_one(cli, runs: Path, priced) -> None:
    example = cli("charges", "--example")
    assert example.exit_code == 0
    options = ("charges", runs / "qops", "--json")
    told = [json.loads(cli(*words).out) for words in (options, (*options, *priced(example.out)))]
    assert told[0] == told[1]


def test_prices_change_the_categories(cli, runs: Path, priced) -> None:
    edges = "[categories]\nrun_times = [1, 2, 3]\nprocessors = [100, 200, 300]\n"
    options = ("--json", *priced(f"slowdown_bound = 10\n{edges}"))
    result = cli("charges", runs / "qops", *options)
    assert result.exit_code == 0, result.err
    document = json.loads(result.out)
    assert document["categories"] == {"run_times": [1, 2, 3], "processors": [100, 200, 300]}
    assert document["slowdown_bound"] == 10
    counts = {each["category"]: each["jobs"] for each in document["runs"][0]["categories"]}
    assert counts["very-long-sequential"] > 450
    assert counts["very-short-very-wide"] == 0


def test_filling_in(cli, runs: Path, tmp_path: Path) -> None:
    for path in runs.glob("qops_*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    result = cli("charges", tmp_path / "qops", "--fill", "--json")
    assert result.exit_code == 0, result.err
    total = json.loads(result.out)["runs"][0]["total"]
    with open(tmp_path / "qops_qos.csv") as stream:
        rows = list(csv.DictReader(stream))
    assert all(row["category"] for row in rows)
    paid = [float(row["qos_charge"]) for row in rows if row["qos_charge"]]
    assert len(paid) == total["charged_jobs"]
    assert sum(paid) == pytest.approx(total["charge"]["qos"], abs=1e-3)
    # The filled file still is that of a valid run.
    assert cli("verify", tmp_path / "qops").exit_code == 0


def test_a_price_of_ones_own(cli, runs: Path, tmp_path: Path, monkeypatch, priced) -> None:
    (tmp_path / "our_prices.py").write_text(
        "from qops_batsim.economics.charges import Charge\n"
        "def flat(job):\n"
        "    return Charge(resource=1.0, qos=0.5)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    result = cli("charges", runs / "qops", *priced('function = "our_prices:flat"'), "--json")
    assert result.exit_code == 0, result.err
    total = json.loads(result.out)["runs"][0]["total"]
    assert total["charge"]["resource"] == total["charged_jobs"]
    assert total["charge"]["qos"] == total["charged_jobs"] / 2


@pytest.mark.parametrize(
    ("function", "frames", "message"),
    [
        ("math:sqrt", "", "(TypeError: must be real number"),
        ("statistics:mean", "in mean", "(TypeError: can't convert"),
        ("own_prices:broken", "in broken\n    return 1 / 0", "(ZeroDivisionError: division by"),
        (
            "own_prices:nothing",
            "",
            "the price function returns a value of type NoneType for job 'w0!1'",
        ),
        ("failing_module:f", "", "cannot be imported (RuntimeError: no)"),
    ],
)
def test_a_price_of_ones_own_that_fails(
    cli,
    runs: Path,
    tmp_path: Path,
    monkeypatch,
    priced,
    function: str,
    frames: str,
    message: str,
) -> None:
    (tmp_path / "own_prices.py").write_text(
        "def broken(job):\n    return 1 / 0\n\n\ndef nothing(job):\n    pass\n"
    )
    (tmp_path / "failing_module.py").write_text("raise RuntimeError('no')\n")
    monkeypatch.syspath_prepend(tmp_path)
    result = cli("charges", runs / "qops", *priced(f'function = "{function}"'))
    assert result.exit_code == 2
    assert frames in result.err
    assert message in result.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "core_hour = 1",
            "currency and core_hour, the price of a core-hour, are expected",
        ),
        ('currency = "EUR"', "are expected together, also where qos_charge is set"),
        ("penalty = -2", "prices.toml: penalty is -2; a number from 0 up"),
        ('currency = "EUR"\ncore_hour = nan', "core_hour is nan"),
        ("weights = [1, 2]", "field weights is not known"),
        ("[categories]\nrun_times = [1, 2]", "a list of 3 is expected"),
        (
            "[categories]\nrun_times = [3, 2, 1]",
            "categories.run_times is [3, 2, 1]; three",
        ),
        ("[categories]\nprocessors = [0, 1, 2]", "categories.processors is [0, 1, 2]"),
        ("[categories]\nprocessors = [1, 2, inf]", "categories.processors is [1, 2, inf]"),
        ("slowdown_bound = 0", "slowdown_bound is 0"),
        ('function = "nowhere"', "price function is 'nowhere'; MODULE:FUNCTION is expected"),
        ("function = 3", "price function is '3'; MODULE:FUNCTION is expected"),
        ('function = "math:nothing"', "no function 'nothing'"),
        ("x =", "prices (TOML) is expected"),
    ],
)
def test_prices_that_are_none(cli, runs: Path, priced, text: str, message: str) -> None:
    result = cli("charges", runs / "qops", *priced(text))
    assert result.exit_code == 2
    assert message in result.err
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--prices", "nowhere.toml"), "nowhere.toml: no such file"),
        (("--against", "nowhere"), "nowhere: no such run"),
        (("--reference", "nowhere"), "nowhere: no such run"),
        (("--workload", "nowhere.json"), "nowhere.json: no such file"),
    ],
)
def test_mistakes(cli, runs: Path, options: tuple[str, str], message: str) -> None:
    result = cli("charges", runs / "qops", *options)
    assert result.exit_code == 2
    assert message in result.err
    assert len(result.err.splitlines()) == 1


def test_a_run_whose_workload_is_unknown(cli, runs: Path, tmp_path: Path) -> None:
    for path in runs.glob("qops_*.csv"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    result = cli("charges", tmp_path / "qops")
    assert result.exit_code == 2
    assert "its workload is not known; --workload FILE is expected" in result.err


def test_several_workloads_need_a_reference(cli, runs: Path) -> None:
    from qops_batsim.shipped import find_input

    path = find_input("sdsc_sp2_deadlines_500", "workloads")
    both = ("--workload", path, "--workload", path)
    result = cli("charges", runs / "qops", *both)
    assert result.exit_code == 2
    assert "--reference PREFIX" in result.err


def test_a_reference_run_of_another_workload(cli, runs: Path, tmp_path: Path) -> None:
    table = (runs / "easy_jobs.csv").read_text().splitlines()
    column = table[0].split(",").index("requested_number_of_resources")
    cells = table[1].split(",")
    cells[column] = str(int(cells[column]) + 1)
    (tmp_path / "other_jobs.csv").write_text("\n".join([table[0], ",".join(cells), *table[2:]]))
    result = cli("charges", runs / "qops", "--reference", tmp_path / "other")
    assert result.exit_code == 2
    assert "in the reference run; a reference run of the same workload is expected" in result.err
    assert len(result.err.splitlines()) == 1
