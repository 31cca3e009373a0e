"""AROMA as a decision process of its own decides as in process."""

from __future__ import annotations

from pathlib import Path

import pytest

from qops_batsim.engine import Simulation
from qops_batsim.platform import write_platform
from qops_batsim.protocol import (
    Decision,
    DecisionSession,
    Event,
    Message,
    decode_decisions,
    encode_message,
    make_scheduler,
)
from qops_batsim.running import default_engine
from support.aroma_oracles import mixed_work, random_machine, run, spans


class Wire:
    """A session that is told texts, as over a socket."""

    def __init__(self, session: DecisionSession) -> None:
        self.session = session

    def exchange(self, message: Message[Event]) -> Message[Decision]:
        return decode_decisions(self.session.answer(encode_message(message)))


@pytest.mark.parametrize("seed", range(3))
def test_texts_lead_to_the_same_schedule(tmp_path: Path, seed: int) -> None:
    workload, platform = mixed_work(seed, hosts=6, gap=5.0), random_machine(seed, 6)
    write_platform(platform, tmp_path / "platform.xml")
    session = DecisionSession("aroma", {"platform": str(tmp_path / "platform.xml")})
    engine = default_engine(make_scheduler("aroma"))
    simulation = Simulation(platform, [workload], Wire(session), engine)
    simulation.run()
    expected, _ = run(workload, platform)
    found = spans(simulation)
    assert found.keys() == spans(expected).keys()
    for name, span in spans(expected).items():
        if isinstance(span, str):
            assert found[name] == span
        else:
            # Dates have six decimals on the wire.
            assert found[name][:2] == pytest.approx(span[:2], abs=1e-4)
            assert found[name][2] == span[2]
