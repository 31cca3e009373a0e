"""Damaged messages of Batsim 5 at sockets: to ``serve``, and of schedulers to our engine as 5.

A case makes an honest session of a random scheduler and workload, in process. Engines then have it
with one ``serve --loop`` after the other, each with damage from some message on, and at last an
honest one, which must get the answers that it got before. And schedulers have it with an ``engine
--as 5`` each, which must end soon and in one line.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import zmq
from commands import call
from hostile_peers import Session, damaged, honest_session
from hostile_sockets import LIMIT, answer_all, beside, judge, settings_of

from qops_batsim.cli.engine5 import arguments5, simulate5
from qops_batsim.protocol.v5.components import DecisionComponent
from qops_batsim.protocol.v5.engine_side import EngineSide
from qops_batsim.workload.batsim5 import format_batsim5
from qops_batsim.workload.batsim_json import read_workload

if TYPE_CHECKING:
    from harness import Tally

ENGINES, SCHEDULERS = 20, 8
"""Damaged sessions in a case."""


class InProcess(DecisionComponent):
    """A decision component that notes what is said."""

    def __init__(self, side: EngineSide, answer: Callable[[bytes], bytes], session: Session):
        super().__init__("in process", side)
        self._answer = answer
        self._session = session

    def ask(self, frame: bytes) -> bytes:
        answer = self._answer(frame)
        self._session.said.append(frame)
        self._session.answers.append(answer)
        return answer


def batsim5_session(rng: random.Random, folder: Path) -> Session:
    """Return a session that a random scheduler has with the embedded engine as Batsim 5."""
    other = honest_session(rng, folder)
    text, _ = format_batsim5(read_workload(folder / "w.json"), only_used=True)
    (folder / "w5.json").write_text(text)
    session = Session(other.scheduler, other.settings, other.simulation)
    words = [*engine_words(folder), "-s", "tcp://localhost:1", ""]
    answer = session.scheduler_again().answer
    simulate5(arguments5(words), words, lambda side: InProcess(side, answer, session))
    return session


def engine_words(folder: Path) -> list[str]:
    """Return the options of the engine as Batsim 5 but for its decision process."""
    inputs = ["-p", str(folder / "p.xml"), "-w", str(folder / "w5.json")]
    return [*inputs, "-e", f"{folder}/out/", "-q", "--timeout", "2"]


def damage(frames: list[bytes], rng: random.Random) -> list[bytes]:
    """Return frames up to one that is damaged, and sometimes those behind it."""
    place = rng.randrange(len(frames))
    changed = damaged([each.rstrip(b"\0") or each for each in frames], place, rng)
    rest = frames[place + 1 :] if rng.random() < 0.5 else []
    return [*frames[:place], *changed, *rest]


def hostile_engines(session: Session, rng: random.Random, folder: Path, tally: Tally) -> None:
    """Let engines with damaged messages have one ``serve`` after each other, then an honest one."""
    endpoint = f"ipc://{folder}/serve.sock"
    context = zmq.Context()

    def talk(frames: list[bytes], answers: list[bytes] | None) -> bool:
        with context.socket(zmq.REQ) as engine:
            engine.linger = 0
            engine.rcvtimeo = LIMIT
            engine.connect(endpoint)
            for number, frame in enumerate(frames):
                engine.send(frame)
                answer = engine.recv()
                if not number and answer.startswith(b"refused: another engine"):
                    return False
                if answers is not None:
                    assert answer == answers[number], f"another answer to message {number}"
                elif answer.startswith((b"refused: ", b"qops-batsim serve: ")):
                    break
        return True

    def play() -> None:
        for _ in range(ENGINES):
            talk(damage(session.said, rng), None)
            tally.count("damaged messages to serve")
        # It is refused as long as the one before has not gone.
        while not talk(session.said, session.answers):
            time.sleep(0.05)
        tally.count("honest engines")

    arguments = ["serve", session.scheduler, "--socket", endpoint, "--any-engine", "-q", "--loop"]
    arguments += settings_of(session)
    arguments += ["--timeout", "4", "--out", str(folder / "run")]
    ended, failures = beside(play, lambda: call(arguments, 300))
    context.destroy(linger=0)
    judge(ended, failures, {0, 2, 3}, tally)


def hostile_scheduler(session: Session, rng: random.Random, folder: Path, tally: Tally) -> None:
    """Let a scheduler with a damaged message answer the engine."""
    endpoint = f"ipc://{folder}/engine.sock"
    context = zmq.Context()
    answers = damage(session.answers, rng)

    def play() -> None:
        answer_all(context, endpoint, answers, rng)

    arguments = ["engine", "--as", "5", *engine_words(folder), "-s", endpoint, ""]
    ended, failures = beside(play, lambda: call(arguments, 60))
    context.destroy(linger=0)
    tally.count("damaged messages to the engine")
    judge(ended, failures, {0, 2}, tally)


def case(seed: int, folder: Path, tally: Tally) -> None:
    """Damage the sessions of a seed."""
    rng = random.Random(seed)
    session = batsim5_session(rng, folder)
    tally.count("sessions")
    hostile_engines(session, rng, folder, tally)
    for _ in range(SCHEDULERS):
        hostile_scheduler(session, rng, folder, tally)
