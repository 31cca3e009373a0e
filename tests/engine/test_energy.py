"""Energy of hosts, and external events that take hosts away."""

from __future__ import annotations

from pathlib import Path

import pytest

from qops_batsim.engine.energy import EnergyMeter, wattage
from qops_batsim.engine.external_events import outages_of, read_external_events
from qops_batsim.errors import InputError
from qops_batsim.platform.model import Host
from qops_batsim.platform.outages import Outage


def host(text: str | None) -> Host:
    properties = {} if text is None else {"wattage_per_state": text}
    return Host(name="h", speeds=(1e8,), properties=properties)


@pytest.mark.parametrize(
    ("text", "watts"),
    [
        ("95.0:95.0:190.738, 95.0:95.0:171.02", (95.0, 95.0, 190.738)),
        ("90:105:180", (90.0, 105.0, 180.0)),
        ("90:180", (90.0, 90.0, 180.0)),
        (None, (0.0, 0.0, 0.0)),
    ],
)
def test_watts_of_the_normal_power_state(
    text: str | None, watts: tuple[float, float, float]
) -> None:
    assert wattage(host(text)) == watts


@pytest.mark.parametrize("text", ["", "90", "a:b:c", "1:2:3:4", "1:-2:3", "nan:1:2"])
def test_unreadable_watts_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="host 'h': property wattage_per_state is"):
        wattage(host(text))


def test_energy_follows_the_load() -> None:
    meter = EnergyMeter([host("90:105:180"), host("10:20:30")])
    assert meter.consumed([0, 1], 10.0) == 1000.0
    meter.set_loads({0: 1.0}, 10.0)
    meter.set_loads({0: 0.5, 1: 0.5}, 12.0)
    meter.set_loads({}, 14.0)
    # Host 0: 10 s idle, 2 s full (180), 2 s half (142.5), then idle.
    assert meter.consumed([0], 15.0) == pytest.approx(900 + 360 + 285 + 90)
    assert meter.consumed([1], 15.0) == pytest.approx(120 + 50 + 10)


def test_at_one_date_hosts_return_before_others_leave(tmp_path: Path) -> None:
    path = tmp_path / "events.txt"
    path.write_text(
        '{"timestamp": 4, "type": "machine_unavailable", "resources": "2"}\n'
        '{"timestamp": 4, "type": "machine_available", "resources": "3"}\n'
        '{"timestamp": 0, "type": "machine_unavailable", "resources": "3"}\n'
    )
    events = read_external_events(path)
    assert [str(event.hosts) for event in events] == ["3", "3", "2"]
    assert outages_of(events, 4) == (
        Outage(hosts="3", since=0.0, to=4.0),
        Outage(hosts="2", since=4.0),
    )


def test_events_are_read_in_order_of_dates(tmp_path: Path) -> None:
    path = tmp_path / "events.txt"
    path.write_text(
        '{"timestamp": 4, "type": "machine_available", "resources": "3"}\n\n'
        '{"timestamp": 2, "type": "machine_unavailable", "resources": "3"}\n'
        '{"timestamp": 3, "type": "storm", "force": 9}\n'
    )
    events = read_external_events(path, forward_unknown=True)
    assert [(event.timestamp, event.type, str(event.hosts)) for event in events] == [
        (2.0, "machine_unavailable", "3"),
        (3.0, "storm", ""),
        (4.0, "machine_available", "3"),
    ]
    with pytest.raises(InputError, match="line 4: unknown type 'storm'.*--forward-unknown-events"):
        read_external_events(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: not JSON"),
        ("[1]", "line 1: a JSON object with timestamp and type"),
        ('{"type": "machine_available"}', "timestamp is None; a number of seconds"),
        ('{"timestamp": -1, "type": "storm"}', "timestamp is -1; a number of seconds from 0 to"),
        ('{"timestamp": 1}', "type is None; a text"),
        ('{"timestamp": 1, "type": "machine_available"}', "resources is None; hosts such as"),
        (
            '{"timestamp": 1, "type": "machine_available", "resources": "3-1"}',
            "line 1: host set '3-1': '3-1' ends before it starts",
        ),
    ],
)
def test_wrong_events_are_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "events.txt"
    path.write_text(line + "\n")
    with pytest.raises(InputError, match=message):
        read_external_events(path)
