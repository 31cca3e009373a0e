"""The recorded sessions of the real Batsim 5, played again with our engine in its place."""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
from pathlib import Path
from typing import Any

from qops_batsim import QopsError
from qops_batsim.cli.engine5 import arguments5, simulate5
from qops_batsim.protocol.v5.components import DecisionComponent
from qops_batsim.protocol.v5.engine_side import EngineSide
from qops_batsim.protocol.v5.handshake import join_answer


class Recorded(DecisionComponent):
    """A decision process that answers as it did, if it is told what it was."""

    def __init__(self, side: EngineSide, transcript: Path) -> None:
        super().__init__("recorded", side)
        lines = [json.loads(line) for line in transcript.open()]
        hello = lines[1]["raw"]
        self.hello = join_answer(hello["flags"], hello["hello"].encode())
        self.lines = lines[2:]
        self.place = 0
        self.greeted = False
        self.differences: list[str] = []
        self.error: QopsError | None = None

    def ask(self, frame: bytes) -> bytes:
        if not self.greeted:
            self.greeted = True
            return self.hello
        told = json.loads(frame.rstrip(b"\0"))
        if self.place >= len(self.lines):
            raise AssertionError(f"one more message: {frame!r}")
        real = json.loads(self.lines[self.place]["raw"])
        found = difference(told, real, "")
        if found:
            self.differences.append(f"message {self.place // 2}: {found}")
        answer: str = self.lines[self.place + 1]["raw"]
        self.place += 2
        return answer.encode()


IGNORED = (".batsim_arguments", ".filename")


def difference(ours: Any, real: Any, place: str) -> str:
    """Return in which field two messages differ first; empty if they do not."""
    if place.endswith(IGNORED):
        return ""
    if isinstance(real, dict) and isinstance(ours, dict):
        if list(ours) != list(real) and sorted(ours) != sorted(real):
            return f"{place}: fields {sorted(ours)} and {sorted(real)}"
        pairs = [(ours[name], real[name], f"{place}.{name}") for name in real]
    elif isinstance(real, list) and isinstance(ours, list):
        if len(ours) != len(real):
            return f"{place}: {len(ours)} and {len(real)} elements: {ours} and {real}"[:800]
        pairs = [(a, b, f"{place}[{n}]") for n, (a, b) in enumerate(zip(ours, real, strict=True))]
    elif isinstance(real, float) and isinstance(ours, (int, float)):
        return "" if abs(ours - real) <= 1e-9 * max(1, abs(real)) else f"{place}: {ours} {real}"
    else:
        return "" if ours == real and type(ours) is type(real) else f"{place}: {ours!r} {real!r}"
    return next(filter(None, (difference(*pair) for pair in pairs)), "")


def play(session: Path, directory: Path) -> Recorded:
    """Simulate what was recorded in a directory, where files are written to its ``out``.

    Return what took the place of the decision process, with the error that ended it, if any.
    """
    for file in session.iterdir():
        if file.is_file():
            shutil.copyfile(file, directory / file.name)
    words = shlex.split((session / "command.txt").read_text())[1:]
    peers: list[Recorded] = []

    def component(side: EngineSide) -> Recorded:
        peers.append(Recorded(side, session / "transcript.jsonl"))
        return peers[0]

    with contextlib.chdir(directory):
        try:
            simulate5(arguments5(words), ["batsim", *words], component)
        except QopsError as error:
            peers[0].error = error
    return peers[0]
