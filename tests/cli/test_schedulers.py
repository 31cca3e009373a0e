import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
import pytest

from qops_batsim import Scheduler, SchedulerOptions
from qops_batsim.cli.schedulers import describe_options
from qops_batsim.schedulers import scheduler_names

Cli = Callable[..., Any]


def test_all_schedulers_are_listed_with_a_line_each(cli: Cli) -> None:
    result = cli("schedulers")
    assert result.exit_code == 0
    assert result.err == ""
    for name in scheduler_names():
        assert name in result.out
    assert {"fcfs", "easy", "conservative"} <= set(scheduler_names())


def test_the_list_as_json(cli: Cli) -> None:
    result = cli("schedulers", "--json")
    listed = json.loads(result.out)
    assert list(listed) == scheduler_names()
    assert all(listed.values())


def test_a_scheduler_without_options(cli: Cli) -> None:
    result = cli("schedulers", "fcfs")
    assert result.exit_code == 0
    assert result.out.startswith("fcfs: ")
    assert "It has no options." in result.out
    assert json.loads(cli("schedulers", "fcfs", "--json").out)["options"] == []


def test_the_options_of_a_scheduler(cli: Cli) -> None:
    out = cli("schedulers", "conservative").out
    assert "reserve = hosts   ('hosts' or 'processors')" in out
    described = json.loads(cli("schedulers", "conservative", "--json").out)
    assert described["name"] == "conservative"
    assert described["summary"]
    grace, option = described["options"]
    assert (grace["name"], grace["default"], grace["unit"]) == ("grace", 1.0, "s")
    assert option.pop("description").startswith("what a reservation is made of")
    assert option == {
        "name": "reserve",
        "type": "'hosts' or 'processors'",
        "default": "hosts",
        "unit": "",
    }


@pytest.mark.parametrize("name", scheduler_names())
def test_every_scheduler_explains_itself_and_its_options(cli: Cli, name: str) -> None:
    described = json.loads(cli("schedulers", name, "--json").out)
    assert described["summary"]
    for option in described["options"]:
        assert option["description"], option
    text = cli("schedulers", name).out
    # What is for Python only does not belong on a terminal.
    assert "Parameters\n" not in text
    assert ":class:" not in text
    assert cli("schedulers", name).exit_code == 0


def test_units_defaults_and_types_of_options() -> None:
    class Options(SchedulerOptions, frozen=True, kw_only=True):
        grace: Annotated[
            float, msgspec.Meta(ge=0, description="time to wait", extra={"unit": "s"})
        ] = 5.0
        order: Literal["arrival", "laxity"] = "laxity"
        limit: int | None = None
        windows: list[int] = msgspec.field(default_factory=list)

    class Module(Scheduler):
        pass

    Module.Options = Options
    described = describe_options(Module)
    assert described[0] == {
        "name": "grace",
        "type": "float",
        "default": 5.0,
        "unit": "s",
        "description": "time to wait",
    }
    assert [(each["type"], each["default"]) for each in described[1:]] == [
        ("'arrival' or 'laxity'", "laxity"),
        ("int | none", None),
        ("list[int]", []),
    ]
    json.dumps(described)


def test_a_scheduler_is_checked(cli: Cli) -> None:
    result = cli("schedulers", "fcfs", "--check")
    assert (result.exit_code, result.out) == (0, "fcfs: 22 cases passed\n")


def test_an_unknown_scheduler_suggests_the_nearest(cli: Cli) -> None:
    result = cli("schedulers", "conservativ")
    assert (result.exit_code, result.out) == (2, "")
    assert result.err.startswith(
        "qops-batsim: error: unknown scheduler 'conservativ'; did you mean 'conservative'?"
    )
    assert result.err.count("\n") == 1
