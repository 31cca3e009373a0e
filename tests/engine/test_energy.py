"""Energy of hosts, and external events that take hosts away."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import InputError
from qops_batsim.engine import read_external_events
from qops_batsim.engine.energy import EnergyMeter, format_consumed_energy
from qops_batsim.engine.engine_options import outages_of
from qops_batsim.engine.host_states import COMPUTES, SLEEPS, SWITCHES, PowerProfile, SwitchableHosts
from qops_batsim.platform import Host
from qops_batsim.platform.platform_model import Outage


def host(*texts: str | None, **more: Any) -> Host:
    given = zip(("wattage_per_state", "sleep_pstates"), texts, strict=False)
    properties = {name: text for name, text in given if text is not None}
    return Host(**{"name": "h", "speeds": (1e8,), "properties": properties} | more)


@pytest.mark.parametrize(
    ("text", "watts"),
    [
        ("95.0:95.0:190.738, 95.0:95.0:171.02", ((95.0, 95.0, 190.738), (95.0, 95.0, 171.02))),
        ("90:105:180,1:2", ((90.0, 105.0, 180.0), (1.0, 1.0, 2.0))),
    ],
)
def test_watts_of_power_states(text: str, watts: tuple[Any, ...]) -> None:
    assert PowerProfile.of(host(text, speeds=(1e8, 1e7))).watts == watts


@pytest.mark.parametrize(
    "text", ["", "90", "a:b:c", "1:2:3:4", "1:-2:3", "nan:1:2", "1_0:2:3", "1:2,3:4"]
)
def test_unreadable_watts_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="host 'h': property wattage_per_state is"):
        PowerProfile.of(host(text))


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, "property wattage_per_state is missing; IDLE:LEAST:MOST or IDLE:MOST in watts"),
        ({"watt_per_state": "1:2"}, "property watt_per_state is not read; its name is wattage_per"),
        ({"power_per_state": "1:2"}, "power_per_state is not read; its name is wattage_per_state"),
        ({"wattage_per_state": "1:2", "watt_off": "1"}, "watt_off is not read; its name is wattag"),
        ({"wattage_per_states": "1:2"}, "property wattage_per_state is missing"),
    ],
)
def test_a_host_whose_watts_are_not_known_is_refused(
    properties: dict[str, str], message: str
) -> None:
    """The real Batsim aborts, but for ``watt_off``, which its SimGrid passes over."""
    with pytest.raises(InputError, match=message):
        PowerProfile.of(host(properties=properties))


def test_an_old_property_beside_the_present_one_is_passed_over() -> None:
    properties = {"watt_per_state": "5:6", "wattage_per_state": "1:2"}
    assert PowerProfile.of(host(properties=properties)).watts == ((1.0, 1.0, 2.0),)


def test_what_a_host_does_in_each_power_state() -> None:
    watts = ",".join(["1:2"] * 7)
    profile = PowerProfile.of(
        host(watts, "1:2:3, 4:2:5", speeds=(1e8, 0.0, 1.0, 0.5, 0.0, 0.1, 5e7))
    )
    assert profile.ways == {1: (2, 3), 4: (2, 5)}
    done = [profile.activity(state) for state in range(7)]
    assert done == [COMPUTES, SLEEPS, SWITCHES, SWITCHES, SLEEPS, SWITCHES, COMPUTES]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1:2", "property sleep_pstates is '1:2'; SLEEP:OFF:ON"),
        ("1:2:4", "three of its power states 0 to 3"),
        ("1:2:-3", "SLEEP:OFF:ON"),
        ("1:2:3,1:2:3", "it gives a power state two meanings"),
        ("1:2:1", "two meanings"),
        ("1:2:2", "speed of power state 3 is 0 flop/s, and sleep_pstates does not name it"),
    ],
)
def test_unreadable_sleep_states_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        PowerProfile.of(host("1:2,1:2,1:2,1:2", text, speeds=(1e8, 1.0, 1.0, 0.0)))


def meter(*hosts: Host) -> EnergyMeter:
    profiles = [PowerProfile.of(each) for each in hosts]
    return EnergyMeter(hosts, SwitchableHosts(hosts, profiles, len(hosts), sharing=False))


def test_energy_follows_the_load_at_each_reading() -> None:
    metered = meter(host("90:105:180"), host("10:20:30", cores=2))
    assert metered.read_all(10.0) == 1000.0
    metered.set_flow(0, 1e8)
    metered.read_all(12.0)
    metered.set_flow(0, 5e7)
    metered.set_flow(1, 1e8)
    metered.read_all(14.0)
    metered.set_flow(0, 0.0)
    metered.set_flow(1, 0.0)
    # Host 0: 10 s idle, 2 s full (180), 2 s half (142.5), then idle.
    assert metered.read([0], 15.0) == pytest.approx(900 + 360 + 285 + 90)
    assert metered.read([1], 15.0) == pytest.approx(120 + 50 + 10)


def test_the_load_of_a_reading_counts_since_the_last_one() -> None:
    metered = meter(host("90:105:180"))
    metered.set_flow(0, 1e8)  # Nobody reads the meter when that begins or changes.
    assert metered.read([0], 10.0) == 1800.0
    metered.set_flow(0, 0.0)
    assert metered.read([0], 11.0) == 1890.0


def test_up_to_its_first_reading_a_host_is_metered_as_in_its_first_power_state() -> None:
    other = {"speeds": (1e8, 5e7), "power_state": 1}
    metered = meter(host("90:105:180,10:20:30", **other), host("90:105:180,10:20:30", **other))
    metered.note("p", 0.0)
    assert metered.entries[0].least == 40.0
    assert metered.read([0], 1.0) == 90.0
    assert metered.read([0], 2.0) == 100.0
    metered.enter(1, 0, 3.0)
    assert metered.read([1], 3.0) == 270.0


def test_consumed_energy_is_written_as_batsim_does() -> None:
    metered = meter(host("90:105:180"))
    for kind, date in (("p", 0.0), ("s", 2.0), ("e", 2.0), ("p", 2e9)):
        metered.note(kind, date)
    assert format_consumed_energy(metered.entries) == (
        "time,energy,event_type,wattmin,epower\n"
        "0.000000,0.000000,p,105.000000,NA\n"
        "2.000000,180.000000,s,105.000000,90.000000\n"
        "2.000000,180.000000,e,105.000000,NA\n"
        "2000000000.000000,180000000000.000000,p,105.000000,90.000000\n"
    )
    assert metered.last_end == 180.0


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
