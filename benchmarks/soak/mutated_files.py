"""Damaged files of every format, given to the commands that read them.

A command may accept a file or refuse it in one line that names it, within seconds and a
gibibyte, and leaves nothing behind when it refuses; what it writes, our own readers accept.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import random
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from commands import GROUPS, call, judge, read
from mutations import mutated

from qops_batsim.engine.engine_options import read_external_events
from qops_batsim.measures.metrics.measures import run_measures
from qops_batsim.measures.results.run_result import read_run
from qops_batsim.measures.verify.verifier import verify
from qops_batsim.platform.simgrid_read import read_platform
from qops_batsim.running.history import read_history
from qops_batsim.workload.batsim_json import read_workload
from qops_batsim.workload.conversion import convert_log
from qops_batsim.workload.swf import read_swf
from support import random_simulations
from support.changed_runs import allow_changes
from support.swf_lines import swf_line

if TYPE_CHECKING:
    from harness import Tally

READ = 40
"""Files that are only read, for each one that is given to a command."""

RUNS = {
    "easy": ("d.json", "v.xml", []),
    "conservative": ("w.json", "v.xml", ["--events", "events.txt"]),
    "qops": ("d.json", "v.xml", []),
    "fqops": ("d.json", "v.xml", ["--set", "kill_and_restart=true", "--set", "tolerance_factor=4"]),
    "slack": ("w.json", "s.xml", []),
    "aroma": ("c.json", "v.xml", []),
}
"""Runs whose files are damaged: workload, platform, further options."""

COMMANDS: Sequence[tuple[int, Sequence[str]]] = [
    (8, ["metrics", "{run}"]),
    (4, ["metrics", "{run}", "--json"]),
    (12, ["verify", "{run}"]),
    (6, ["diff", "{run}", "easy"]),
    (6, ["charges", "{run}", "--json", "--reference", "easy"]),
    (1, ["charges", "{run}", "--fill"]),
    (6, ["explain", "{run}", "{job}"]),
    (6, ["explain", "{run}", "{job}", "--json"]),
    (6, ["quote", "{run}@{date}", "2x20"]),
    (1, ["run", "--again", "{run}_run.json", "--quiet"]),
    (1, ["plot", "utilization", "{run}", "-o", "o.svg"]),
    (1, ["plot", "gantt", "{run}", "-o", "o.svg"]),
    (1, ["plot", "occupation", "{run}", "-o", "o.svg"]),
]
"""Commands that read a run, and how often each is taken."""


@dataclass(frozen=True)
class Scene:
    """A file of some kind, and the commands that read it."""

    file: str
    commands: Sequence[tuple[int, Sequence[str]]]
    often: int


SCENES = [
    Scene(
        "log.swf",
        [
            (4, ["workload", "import", "log.swf"]),
            (2, ["workload", "import", "log.swf", "--json"]),
            (6, ["workload", "import", "log.swf", "o.json"]),
            (2, ["workload", "import", "log.swf", "o.json", "--repair", "overrun=clip",
                 "--repair", "no-requested-time=clip", "--repair", "too-wide=keep", "--rebase"]),
            (1, ["workload", "import", "log.swf", "o.json", "--month", "1996-10"]),
            (2, ["workload", "classes", "d.json", "o.json", "--log", "log.swf",
                 "--cpu-time", "log"]),
        ],
        10,
    ),
    Scene(
        "w.json",
        [
            *((1, ["run", name, "-w", "w.json", "-o", "o", "-q"])
              for name in ("fcfs", "easy", "conservative", "slack", "nqs", "qops", "msb", "mrt")),
            (1, ["run", "fqops", "-w", "w.json", "-o", "o", "--json",
                 "--set", "kill_and_restart=true"]),
            (1, ["run", "easy", "-w", "w.json", "-p", "n.xml", "-o", "o", "--smaller-machine"]),
            (1, ["workload", "classes", "w.json", "o.json"]),
            (1, ["workload", "scale", "w.json", "o.json", "--load", "1.5"]),
            (1, ["workload", "deadlines", "w.json", "o.json"]),
        ],
        8,
    ),
    Scene(
        "d.json",
        [
            (2, ["workload", "scale", "d.json", "o.json", "--load", "1.5"]),
            (1, ["workload", "scale", "d.json", "o.json", "--load", "1.5",
                 "--method", "expansion"]),
            (2, ["workload", "deadlines", "d.json", "o.json"]),
            (1, ["workload", "deadlines", "d.json", "o.json", "--artificial", "turnaround",
                 "--deadline-share", "0.4"]),
            (2, ["workload", "classes", "d.json", "o.json", "--tasks", "apart"]),
            (1, ["compare", "easy", "qops", "-w", "d.json", "--loads", "1", "--seeds", "1",
                 "--out", "o"]),
        ],
        4,
    ),
    Scene("c.json", [(1, ["run", "aroma", "-w", "c.json", "-p", "n.xml", "-o", "o", "-q"]),
                     (1, ["run", "nqs", "-w", "c.json", "-p", "v.xml", "-o", "o", "-q"])], 3),
    *(
        Scene(
            name,
            [
                (2, ["platform", "show", name]),
                (1, ["platform", "show", name, "--json"]),
                (2, ["run", "easy", "-w", "c.json", "-p", name, "-o", "o", "--quiet"]),
                (1, ["run", "aroma", "-w", "c.json", "-p", name, "-o", "o", "--quiet"]),
            ],
            2,
        )
        for name in ("v.xml", "s.xml", "n.xml", "f.xml")
    ),
    Scene(
        "events.txt",
        [
            (1, ["run", name, "-w", "w.json", "-p", "v.xml", "--events", "events.txt", "-o", "o",
                 "-q"])
            for name in ("easy", "conservative", "qops", "slack", "nqs")
        ],
        5,
    ),
]  # fmt: skip
"""The inputs of runs; the files of runs are found in the larder."""


def prepare() -> None:
    """Make the files, which compiles what is not yet."""
    larder()


@functools.cache
def larder() -> Path:
    """Make all files, undamaged, in a directory of this process; return it."""
    folder = Path(tempfile.mkdtemp(prefix="soak-larder"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    rng = random.Random(1)
    (folder / "log.swf").write_text(_log(rng))
    for name, classes, delays in (
        ("w.json", False, False), ("d.json", False, True), ("c.json", True, False)
    ):  # fmt: skip
        style = random_simulations.Style(True, False, delays, True, classes)
        made = random_simulations.workload(rng, 8, 14, style)
        (folder / name).write_text(json.dumps(made, indent=1))
    for name, make in (
        ("v.xml", random_simulations.without_network), ("s.xml", random_simulations.star),
        ("n.xml", random_simulations.clusters), ("f.xml", random_simulations.fully_connected),
    ):  # fmt: skip
        (folder / name).write_text(make(rng, 8))
    events = random_simulations.outages(rng, 8)
    (folder / "events.txt").write_text("".join(f"{json.dumps(each)}\n" for each in events))
    os.chdir(folder)
    for name, (workload, platform, further) in RUNS.items():
        given = ["run", name, "-w", workload, "-p", platform, "-o", name, "-q", *further]
        ended = call(given, seconds=0)
        if ended.code != 0:
            raise RuntimeError(f"{given}: {ended}")
    os.chdir("/")
    return folder


def _log(rng: random.Random) -> str:
    head = "; Version: 2\n; MaxJobs: 20\n; MaxProcs: 8\n; MaxNodes: 8\n"
    head += "; UnixStartTime: 843000000\n; TimeZoneString: Europe/Stockholm\n"
    head += "; Queue: 0 normal\n; Queue: 1 express\n; Note: damaged on purpose\n"
    rows = []
    for number in range(1, 21):
        rows.append(
            swf_line(
                job_number=number,
                submit_time=60 * number,
                run_time=rng.randint(1, 5000),
                average_cpu_time=rng.randint(1, 900),
                requested_processors=rng.choice([1, 2, 4, 8, 9]),
                requested_time=rng.choice([-1, rng.randint(1, 9000)]),
                queue=rng.choice([0, 1]),
                status=rng.choice([1, 1, 1, 0, 5]),
            )
        )
    return head + "\n".join(rows) + "\n"


def case(seed: int, folder: Path, tally: Tally) -> None:
    """Damage files: many are only read, one is given to a command."""
    home = larder()
    rng = random.Random(seed)
    for path in home.iterdir():
        if path.is_file():
            os.link(path, folder / path.name)
    os.chdir(folder)
    for last in [False] * READ + [True]:
        run = rng.choice(list(RUNS))
        if rng.random() < 0.5:
            own = sorted(path.name for path in home.glob(f"{run}_*"))
            scene, named = Scene(rng.choice(own), COMMANDS, 1), run
            # By its digest almost any other file would be refused.
            if rng.random() < 0.9:
                allow_changes(run)
        else:
            scene = rng.choices(SCENES, [each.often for each in SCENES])[0]
            named = scene.file
        content, done = mutated((home / scene.file).read_bytes(), rng)
        Path(scene.file).unlink()
        Path(scene.file).write_bytes(content)
        tally.count("files")
        told = _Told(tally, f"{scene.file}: {done}")
        if last:
            weights = [often for often, _ in scene.commands]
            command = rng.choices([command for _, command in scene.commands], weights)[0]
            words = {"run": run, "job": f"{rng.randrange(14)}", "date": rng.choice(["10", "1h"])}
            _judge_both([each.format(**words) for each in command], named, told)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # of odd fields of jobs
                read(lambda: _read(scene.file, run), named, told)  # type: ignore[arg-type]  # noqa: B023
            Path(scene.file).unlink()
            os.link(home / scene.file, scene.file)
    os.chdir("/")


def _read(name: str, run: str) -> None:
    """Read a file with what reads its kind."""
    if name.endswith(".swf"):
        convert_log(read_swf(name))
    elif name.endswith("_decisions.jsonl"):
        read_history(run)
    elif name.startswith(run):
        result = read_run(run)
        run_measures(result)
        verify(result)
    elif name.endswith(".json"):
        read_workload(Path(name))
    elif name.endswith(".xml"):
        read_platform(Path(name))
    else:
        read_external_events(Path(name))


class _Told:
    """A tally that tells with each failure what was done to the file."""

    def __init__(self, tally: Tally, about: str) -> None:
        self.count: Callable[..., None] = tally.count
        self._tally = tally
        self._about = about

    def fail(self, kind: str, detail: str = "") -> None:
        self._tally.fail(kind, f"{self._about}\n{detail}")


def _judge_both(command: Sequence[str], named: str, tally: _Told) -> None:
    """Run a command; if it writes a workload or a run, have that read as well."""
    told = command[0] in ("verify", "diff")
    ended = judge(command, named, tally, (0, 1, 2) if told else (0, 2))  # type: ignore[arg-type]
    if ended.code != 0 or ended.failure:
        return
    if Path("o.json").exists():
        checks = [["run", "fcfs", "-w", "o.json", "-o", "again", "--quiet"]]
    elif Path("o_jobs.csv").exists():
        checks = [["verify", "o"], ["metrics", "o"], ["explain", "o", "1"]]
        checks = [random.Random(str(command)).choice(checks)]
    else:
        return
    for check in checks:
        again = call(check)
        if again.code != 0 and "no job" not in again.errors:
            words = command[: 2 if command[0] in GROUPS else 1]
            kind = f"{' '.join(words)}: what it wrote is refused by {check[0]}"
            tally.fail(kind, f"{' '.join(command)}\n{again.output[-1000:]}{again.errors[-2000:]}")
