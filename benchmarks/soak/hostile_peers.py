"""Damaged messages of engines to schedulers, and of schedulers to the embedded engine.

A case makes an honest session of a random scheduler and workload, and has it again many times in
this process, each time with damage from some message on.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import msgspec
from commands import CONTROLS, watched
from mutations import mutated
from random_runs import random_settings

from qops_batsim.engine.outputs import write_outputs
from qops_batsim.engine.simulation import Deadlock, Simulation
from qops_batsim.errors import InputError, SimulationError
from qops_batsim.platform.simgrid_read import read_platform
from qops_batsim.protocol.messages import decode_decisions, encode_message
from qops_batsim.protocol.port import make_scheduler
from qops_batsim.protocol.session import DecisionSession
from qops_batsim.running.simulate import default_engine
from qops_batsim.schedulers.registry import scheduler_names
from qops_batsim.workload.batsim_json import read_workload
from support import random_simulations

if TYPE_CHECKING:
    from harness import Tally

SESSIONS = 12
"""Damaged sessions of each side in a case."""


@dataclass
class Session:
    """An honest session: what the engine said, and how to have a simulation again."""

    scheduler: str
    settings: dict[str, Any]
    simulation: Callable[..., Simulation]
    """Made of a decision side, and of changes to the engine's options."""
    said: list[bytes] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)

    def scheduler_again(self) -> DecisionSession:
        return DecisionSession(self.scheduler, self.settings, any_engine=True)


@dataclass
class Answering:
    """The decision side of a simulation, which hears and answers texts, as over a socket."""

    answer: Callable[[bytes], bytes]
    session: Session

    def exchange(self, message: Any) -> Any:
        text = encode_message(message)
        answer = self.answer(text)
        self.session.said.append(text)
        self.session.answers.append(answer)
        try:
            return decode_decisions(answer)
        except InputError as error:
            raise SimulationError(f"a wrong message: {error}") from None


def honest_session(rng: random.Random, folder: Path) -> Session:
    """Return the session of a random scheduler and workload with the embedded engine."""
    scheduler = rng.choice(scheduler_names())
    settings = random_settings(scheduler, rng)
    hosts = rng.choice([2, 4, 8])
    network = rng.random() < 0.3
    style = random_simulations.Style(network, rng.random() < 0.5, rng.random() < 0.5, False, True)
    workload, platform, events = (folder / name for name in ("w.json", "p.xml", "events.txt"))
    jobs = rng.choice([4, 8, 16])
    workload.write_text(json.dumps(random_simulations.workload(rng, hosts, jobs, style)))
    make = (
        rng.choice(random_simulations.NETWORKS) if network else random_simulations.without_network
    )
    platform.write_text(make(rng, hosts))
    outages = rng.random() < 0.3
    if outages:
        lines = (f"{json.dumps(each)}\n" for each in random_simulations.outages(rng, hosts))
        events.write_text("".join(lines))
    options = default_engine(
        make_scheduler(scheduler, settings), events=events if outages else None
    )

    def simulation(peer: Any, **changes: Any) -> Simulation:
        changed = msgspec.structs.replace(options, **changes)
        return Simulation(read_platform(platform), [read_workload(workload)], peer, changed)

    session = Session(scheduler, settings, simulation)
    simulation(Answering(session.scheduler_again().answer, session)).run()
    return session


def damaged(texts: list[bytes], place: int, rng: random.Random) -> list[bytes]:
    """Return what stands in place of a message: it with other bytes, or events of others."""
    text = texts[place]
    what = rng.randrange(8)
    if what < 4:
        return [mutated(text, rng)[0]]
    if what == 4:
        return [text, text]
    if what == 5:
        return [rng.choice(texts), text]
    try:
        message, other = json.loads(text), json.loads(rng.choice(texts))
    except ValueError:
        return []
    events, more = message["events"], other["events"]
    if what == 6 and more:
        for _ in range(rng.choice([1, 1, 3])):
            events.insert(rng.randrange(len(events) + 1), rng.choice(more))
    elif events:
        _disorder(events, rng)
    return [json.dumps(message).encode()]


def _disorder(events: list[Any], rng: random.Random) -> None:
    """Drop, double or swap events, or give one another's field."""
    one, other = rng.choice(events), rng.choice(events)
    what = rng.randrange(4)
    if what == 0:
        events.remove(one)
    elif what == 1:
        events.append(one)
    elif what == 2:
        rng.shuffle(events)
    elif isinstance(one.get("data"), dict) and isinstance(other.get("data"), dict):
        for key in rng.sample(sorted(other["data"]), min(1, len(other["data"]))):
            one["data"][key] = other["data"][key]
            one["type"] = rng.choice([one["type"], other["type"]])


def hear(do: Callable[[], None], about: str, tally: Tally) -> None:
    """Do what may end well or in one error that can be printed, soon and in little space."""
    tally.count("damaged messages")

    def wrong(message: str) -> str:
        return "a message that is not printable" if CONTROLS.search(message) else ""

    watched(do, about, tally, wrong)


def hostile_engine(session: Session, rng: random.Random, tally: Tally) -> None:
    """Let a scheduler hear a session with damage."""
    place = rng.randrange(len(session.said))
    texts = session.said[:place]
    texts += damaged(session.said, place, rng)
    texts += session.said[place + 1 :]
    if rng.random() < 0.2:
        del texts[rng.randrange(len(texts))]

    def listen() -> None:
        scheduler = session.scheduler_again()
        for text in texts:
            decode_decisions(scheduler.answer(text))
            if scheduler.ended:
                return

    hear(listen, f"engine to {session.scheduler} {session.settings}, message {place}", tally)


def hostile_scheduler(session: Session, rng: random.Random, folder: Path, tally: Tally) -> None:
    """Let the embedded engine hear a session with damage, and write what came of it."""
    place = rng.randrange(len(session.answers))
    answers = session.answers[:place]
    answers += damaged(session.answers, place, rng)
    answers += session.answers[place + 1 :]
    rest = iter(answers)

    unheard = Session("", {}, session.simulation)

    def simulate() -> None:
        try:
            simulation = session.simulation(
                Answering(lambda _: next(rest, b"that was all"), unheard)
            )
            simulation.run()
        except Deadlock as error:
            simulation = error.simulation
        write_outputs(simulation, folder / "run")

    hear(simulate, f"{session.scheduler} to engine, message {place}", tally)


def case(seed: int, folder: Path, tally: Tally) -> None:
    """Damage the sessions of a seed."""
    rng = random.Random(seed)
    session = honest_session(rng, folder)
    tally.count("sessions")
    for _ in range(SESSIONS):
        hostile_engine(session, rng, tally)
        hostile_scheduler(session, rng, folder, tally)
