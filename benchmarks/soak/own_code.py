"""Random modules behind a scheduler's file, of which one changes, and random tables as options.

A change of any module that the scheduler's import runs is run and has another digest, the same as
in a process that starts afresh; a change of another module changes nothing.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qops_batsim.experiments.changed_options import changed_options, hashable
from qops_batsim.experiments.deadline_runs import contestant_of
from qops_batsim.schedulers.registry import code_of_scheduler, scheduler_class

if TYPE_CHECKING:
    from harness import Tally

MINE = """
import sys

from qops_batsim import Easy
{imports}


class Mine(Easy):
    "A scheduler that tells the values of what it has imported."

    summary = " ".join(sorted(
        f"{{name}}={{each.VALUE}}" for name, each in sys.modules.items() if name in {names!r}
    ))
"""

FRESH = """
from qops_batsim.schedulers.registry import code_of_scheduler, scheduler_class
print(scheduler_class("mine.py:Mine").summary)
print(code_of_scheduler("mine.py:Mine").digest)
"""

WAYS = (
    "import {name}",
    "from {name} import VALUE as _",
    "import importlib\nimportlib.import_module('{name}')",
    "__import__('{name}'[:1] + '{name}'[1:])",
    "try:\n    import {name}\nexcept ImportError:\n    pass",
    "class _Holder:\n    import {name}",
    "def _now():\n    import {name}\n\n\n_now()",
)
"""How a module may import another while it is imported."""

LATE = "def _later():\n    import {name}"

PROCESSES = 0.2
"""Share of cases whose digests are compared with those of fresh processes, which take long."""


def case(seed: int, folder: Path, tally: Tally) -> None:
    """Draw modules, load the scheduler, change one module, load it again; and draw options."""
    rng = random.Random(seed)
    os.chdir(folder)
    _modules(rng, seed, tally)
    _options(rng, tally)


def _modules(rng: random.Random, seed: int, tally: Tally) -> None:
    names = [f"m{seed}_{number}" for number in range(rng.randint(1, 7))]
    names += [f"p{seed}.q{number}" for number in range(rng.randint(0, 3))]
    package = rng.random() < 0.5
    imports: dict[str, list[str]] = {"mine": []}
    texts: dict[str, str] = {}
    for place, name in enumerate(names):
        importer = rng.choice(["mine", *names[:place]])
        is_late = rng.random() < 0.2
        way = LATE if is_late else rng.choice(WAYS)
        texts[importer] = f"{texts.get(importer, '')}\n{way.format(name=name)}\n"
        if not is_late:
            imports.setdefault(importer, []).append(name)
    ran = _reached(imports)
    files = {name: Path(*name.split(".")).with_suffix(".py") for name in names}
    for name, path in files.items():
        path.parent.mkdir(exist_ok=True)
        if package and "." in name:
            path.with_name("__init__.py").touch()
        path.write_text(f"VALUE = 1\n{texts.get(name, '')}")
    Path("mine.py").write_text(MINE.format(imports=texts.get("mine", ""), names=names))
    before = _told()
    if before[0] != _expected(ran, {}):
        tally.fail("a module is missing", f"{before[0]} and not {_expected(ran, {})}")
    changed = rng.choice(names)
    files[changed].write_text(files[changed].read_text().replace("= 1", "= 2", 1))
    after = _told()
    tally.count("modules", len(names))
    expected = _expected(ran, {changed: 2})
    if after[0] != expected:
        tally.fail("stale code", f"{after[0]} and not {expected} after a change of {changed}")
    if (after[1] != before[1]) != (changed in ran):
        tally.fail("a digest does not tell a change", f"{changed}, imported: {sorted(ran)}")
    if rng.random() < PROCESSES:
        tally.count("fresh processes")
        done = subprocess.run(
            [sys.executable, "-c", FRESH], capture_output=True, text=True, check=True
        )
        if tuple(done.stdout.splitlines()) != after:
            tally.fail("another digest in a fresh process", f"{done.stdout} and not {after}")


def _reached(imports: dict[str, list[str]]) -> set[str]:
    found: set[str] = set()
    left = ["mine"]
    while left:
        more = [name for name in imports.get(left.pop(), []) if name not in found]
        found.update(more)
        left += more
    return found


def _expected(ran: set[str], changed: dict[str, int]) -> str:
    return " ".join(sorted(f"{name}={changed.get(name, 1)}" for name in ran))


def _told() -> tuple[str, str]:
    summary = scheduler_class("mine.py:Mine").summary
    record = code_of_scheduler("mine.py:Mine")
    assert record is not None
    return summary, record.digest


def _options(rng: random.Random, tally: Tally) -> None:
    """Check that options of any shape are keys, equal if and only if they are."""
    value = _value(rng, 3)
    tally.count("options")
    key = hashable(value)
    if json.loads(json.dumps(key)) != value or hash(key) != hash(hashable(value)):
        tally.fail("a value is not its key", json.dumps(value))
    table = {f"qos{number}": {"priority": rng.randint(0, 9)} for number in range(rng.randint(1, 4))}
    shuffled = dict(rng.sample([*table.items()], len(table)))
    given = [
        contestant_of(f"slurm:weight_qos=5,qos={json.dumps(each)}") for each in (table, shuffled)
    ]
    one, other = (each.identity()[0] for each in given)
    if one != other or hash(one) != hash(other):
        tally.fail("equal tables are two keys", json.dumps(table))
    if changed_options([("qos", {**table, "more": {}})]) == changed_options([("qos", table)]):
        tally.fail("two tables are one key", json.dumps(table))


def _value(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(6 if depth else 4)
    if kind == 4:
        return [_value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    if kind == 5:
        return {rng.choice("abcde"): _value(rng, depth - 1) for _ in range(rng.randint(0, 3))}
    return (rng.randint(-3, 3), rng.random(), rng.choice("xyz"), None)[kind]
