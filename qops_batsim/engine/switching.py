"""Switching hosts to another power state, as Batsim does it.

Between two power states in which it computes, a host changes at once, also under its jobs. Going to
sleep and waking up takes the time of one flop in a power state of its own, in which it can take no
job. The decision module is told when all hosts of one decision have changed.
"""

from __future__ import annotations

from functools import partial

from qops_batsim.engine.energy import POWER_STATES
from qops_batsim.engine.fluid import Computation
from qops_batsim.engine.power import COMPUTES, SLEEPS, SWITCHES
from qops_batsim.engine.switchable import (
    COMPUTING,
    IDLE,
    SLEEPING,
    SWITCHING_OFF,
    SWITCHING_ON,
    PowerStateChange,
    SwitchableHosts,
)
from qops_batsim.engine.world import World
from qops_batsim.platform.hostset import HostSet
from qops_batsim.protocol.decisions import SetResourceState
from qops_batsim.protocol.events import ResourceStateChanged

SWITCHING_FLOP = 1.0
"""What a host works off in the power state through which it goes."""


class Switch:
    """One decision that is being carried out: its hosts, and those that have not changed yet."""

    def __init__(self, hosts: HostSet, state: int) -> None:
        self.hosts, self.state = hosts, state
        self.left = set(hosts)


def set_resource_state(world: World, decision: SetResourceState) -> None:
    """Begin to switch hosts to a power state; SimulationError if they cannot be."""
    if world.energy is None:
        raise world.error("SET_RESOURCE_STATE was received but energy is not enabled")
    hosts, state = decision.resources, _state(world, decision)
    occupation = world.energy.switchable
    for host in hosts:
        _check(world, occupation, host, state)
    world.energy.note(POWER_STATES, world.now)
    switch = Switch(hosts, state)
    sleeps = occupation.profiles[next(iter(hosts))].activity(state) == SLEEPS
    occupation.noted.append(PowerStateChange(world.now, hosts, -2 if sleeps else -1))
    for host in hosts:
        profile, before = occupation.profiles[host], occupation.power_states[host]
        if state in profile.ways:
            _go_through(world, switch, host, profile.ways[state][0], SWITCHING_OFF)
        elif before in profile.ways:
            _go_through(world, switch, host, profile.ways[before][1], SWITCHING_ON)
        else:
            world.enter_power_state(host, state)
            switch.left.discard(host)
    _end(world, switch)
    world.note_host_states()


def _state(world: World, decision: SetResourceState) -> int:
    text = decision.state
    if not decision.resources:
        raise world.error("SET_RESOURCE_STATE names no host")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise world.error(
            f"SET_RESOURCE_STATE asks for state {text[:40]!r}; the number of a power state, as "
            "text, is expected"
        )
    return int(text)


def _check(world: World, occupation: SwitchableHosts, host: int, state: int) -> None:
    """Refuse what Batsim aborts on, and what it leaves undone with an error in its log."""
    if host >= len(occupation.power_states):
        raise world.error(f"host {host} cannot be switched: it does not exist")
    profile, before = occupation.profiles[host], occupation.power_states[host]
    trouble = ""
    if state >= len(profile.watts):
        trouble = f"it has power states 0 to {len(profile.watts) - 1} only"
    elif profile.activity(state) == SWITCHES:
        trouble = "it only passes through that while it is switched"
    elif profile.activity(before) == SWITCHES:
        trouble = "it is being switched"
    elif profile.activity(before) == profile.activity(state) == COMPUTES:
        return
    elif profile.activity(before) == profile.activity(state) == SLEEPS:
        trouble = "it sleeps"
    elif occupation.doing(host) == COMPUTING:
        trouble = "it is computing"
    elif occupation.doing(host) not in (IDLE, SLEEPING):
        trouble = "it is unavailable"
    else:
        way = profile.ways[state][0] if state in profile.ways else profile.ways[before][1]
        if not world.machine.host(host).speeds[way] > 0:
            trouble = f"in power state {way}, through which it goes, it has no speed"
    if trouble:
        name = world.machine.host(host).name
        raise world.error(
            f"host {host} ({name}) cannot be switched from power state {before} to {state}: "
            f"{trouble}"
        )


def _go_through(world: World, switch: Switch, host: int, way: int, doing: int) -> None:
    """Let a host pass through a power state."""
    world.begin_switch()
    _hosts(world).set_doing(host, doing, world.now)
    world.enter_power_state(host, way)
    resource = world.machine.host_resource(host)
    flop = Computation({}, executors=[(resource, SWITCHING_FLOP)], parties=(host,))
    world.progress(flop, partial(_arrive, world, switch), flop)


def _arrive(world: World, switch: Switch, flop: Computation) -> None:
    (host,) = flop.parties
    world.stop(flop)
    world.enter_power_state(host, switch.state)
    sleeps = switch.state in _hosts(world).profiles[host].ways
    _hosts(world).set_doing(host, SLEEPING if sleeps else IDLE, world.now)
    world.report_switch(host, partial(_report, world, switch, host))


def _report(world: World, switch: Switch, host: int) -> None:
    switch.left.discard(host)
    if _end(world, switch):
        world.note_host_states()


def _end(world: World, switch: Switch) -> bool:
    """Tell and note that all hosts have changed, if they have."""
    assert world.energy is not None
    if not switch.left:
        world.tell(ResourceStateChanged(switch.hosts, str(switch.state)))
        _hosts(world).noted.append(PowerStateChange(world.now, switch.hosts, switch.state))
        world.energy.note(POWER_STATES, world.now)
    return not switch.left


def _hosts(world: World) -> SwitchableHosts:
    assert world.energy is not None
    return world.energy.switchable
