"""Which requests hosts that are left can give: by parts on different hosts, by tasks on few."""

from __future__ import annotations

from typing import Any

import pytest

from qops_batsim import Job
from qops_batsim.core.host_properties import machine_of
from qops_batsim.core.node_profile import can_give, request_of
from qops_batsim.core.node_request import NodeLayout

MACHINE = machine_of([{"cores": "8"}, {"cores": "4"}, {"cores": "4"}], ["a", "b", "c"])
assert MACHINE is not None
LAYOUT = NodeLayout(MACHINE)


@pytest.mark.parametrize(
    ("res", "asked", "enough", "too_few"),
    [
        # As many hosts as its parts have together, each on hosts of its own.
        (2, {"parts": [{"res": 1, "per_host": {"cores": 1}}] * 2}, 0b110, 0b100),
        # The second part needs the large host, which the first one does not take.
        (2, {"parts": [{"res": 1, "per_host": {"cores": n}} for n in (4, 8)]}, 0b101, 0b110),
        # Twelve tasks fit on two hosts if one of them is large.
        (2, {"tasks": 12, "per_task": {"cores": 1}}, 0b101, 0b110),
        # Eight do on any two, which is as many as there may be.
        (2, {"tasks": 8, "per_task": {"cores": 1}}, 0b110, 0b010),
        (1, {"per_host": {"cores": 8}}, 0b001, 0b110),
    ],
)
def test_what_is_left_is_enough_or_not(
    res: int, asked: dict[str, Any], enough: int, too_few: int
) -> None:
    fields = {"id": "1", "subtime": 0, "res": res, "profile": "p", **asked}
    request = request_of(LAYOUT, Job.from_fields(fields, where="job"))
    assert request.refusal is None
    assert can_give(LAYOUT, request, enough)
    assert can_give(LAYOUT, request, 0b111)
    assert not can_give(LAYOUT, request, too_few)
    assert not can_give(LAYOUT, request, 0)


def test_more_tasks_than_the_two_largest_hosts_take_are_refused() -> None:
    # All three hosts have room for 16, the two largest for 12.
    fields = {"id": "1", "subtime": 0, "res": 2, "profile": "p"}
    asked = {"tasks": 13, "per_task": {"cores": 1}}
    request = request_of(LAYOUT, Job.from_fields(fields | asked, where="job"))
    assert request.refusal is not None
