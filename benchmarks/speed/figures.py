"""What is measured, and the workloads for it: made from real logs, or drawn by a seed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("QOPS_SHARED", ROOT.parent / "shared")).resolve()
OWN = Path(__file__).with_name("own.py")

KTH = str(SHARED / "traces" / "KTH-SP2-1996-2.swf.gz")
LARGEST = 158_976
"""Hosts of RIKEN's Fugaku."""

CTC = str(SHARED / "traces" / "CTC-SP2-1996-rebuilt.swf.gz")

INPUTS: dict[str, tuple[str, str, str]] = {
    "kth": ("import", KTH, "--processors 100"),
    "kth_deadlines": ("deadlines", "kth", "--stringency 0.2"),
    "ctc": ("import", CTC, "--processors 430"),
    "ctc_1.6": ("scale", "ctc", "--load 1.6"),
    "ctc338": ("import", CTC, "--processors 338"),
    "ctc338_1.6": ("scale", "ctc338", "--first 10000 --load 1.6"),
    "ctc338_deadlines": ("deadlines", "ctc338_1.6", "--stringency 0.2 --estimates exact"),
    "deadlines": ("generate", "", "--preset kth-sp2 --jobs 5000 --load 1.3 --deadline-share 1"),
    "million": ("generate", "", "--preset kth-sp2 --jobs 1000000"),
    "largest": ("generate", "", f"--processors {LARGEST} --jobs 1300000 --load 0.9"),
}
"""How ``qops-batsim workload`` makes each workload: a command, from what, with what options."""


class Figure(NamedTuple):
    """A scheduler on a workload: its simulation, or else the whole command ``run --quiet``.

    ``wanted`` is the ratio of CPU time to 0.1.0 that was asked for when the core was compiled.
    """

    title: str
    scheduler: str
    workload: str
    in_process: bool = False
    wanted: float | None = None
    settings: tuple[str, ...] = ()


def simulated(
    title: str, scheduler: str, workload: str, wanted: float | None = None, *settings: str
) -> Figure:
    return Figure(title, scheduler, workload, True, wanted, settings)


KILLS = ("kill_and_restart=true",)
OFFERS = ("tolerance_factor=4", "slack_factor=2")

FIGURES = [
    simulated("easy, KTH", "easy", "kth", 0.02 / 0.025),
    simulated("easy with a key in Python, KTH", f"{OWN}:ShortestFirst", "kth", 0.025 / 0.046),
    simulated("easy with schedule overridden, KTH", f"{OWN}:Overridden", "kth", 0.05 / 1.12),
    simulated("slack, KTH", "slack", "kth", 0.3 / 0.44),
    simulated("qops, CTC 338 at load 1.6", "qops", "ctc338_deadlines", 3.0 / 4.7),
    simulated("fqops with kills, KTH", "fqops", "kth_deadlines", None, *KILLS),
    simulated("fqops with kills and offers, KTH", "fqops", "kth_deadlines", None, *KILLS, *OFFERS),
    simulated("easy, CTC at load 1.6", "easy", "ctc_1.6", 0.4 / 0.66),
    simulated("fcfs, KTH", "fcfs", "kth"),
    simulated("conservative, KTH", "conservative", "kth", None, "reserve=processors"),
    simulated("conservative with hosts, KTH", "conservative", "kth", None, "reserve=hosts"),
    Figure("run easy, tiny_8", "easy", "tiny_8"),
    Figure("run easy, KTH", "easy", "kth", wanted=0.75 / 1.35),
    Figure("run qops, KTH", "qops", "kth_deadlines"),
    Figure("run easy, a million jobs", "easy", "million", wanted=8 / 10.6),
    Figure("run easy, 1.3 million jobs, 158,976 hosts", "easy", "largest", wanted=20 / 33),
]

DECIDERS = ("easy", "conservative", "slack", "qops", "msb", "mrt")
"""Schedulers whose single decisions are timed, on the workload ``deadlines``."""


def is_at_hand(workload: str) -> bool:
    """Whether a workload is shipped, or what it is made from is here."""
    _, source, _ = INPUTS.get(workload, ("", "", ""))
    return is_at_hand(source) if source in INPUTS else not source or Path(source).is_file()
