"""Which small faults of the package do its tests see?

    python benchmarks/mutants.py                              # ten mutants
    python benchmarks/mutants.py --only workload/swf --count 20
    python benchmarks/mutants.py --count 300 --list           # only show them

A mutant is the package with one expression or statement changed: a comparison, an operator of
arithmetic, ``and`` for ``or``, a number, True for False, a condition negated, min for max (any for
all, floor for ceil), or a statement left out (a call, an assignment to an element or attribute, an
augmented assignment, ``raise``). Lines are drawn from all rooms, each as likely as any other, and
one mutant of each; equal seeds draw equal mutants from equal sources.

It is made in a copy of the tree, where tests run until one fails: the files of the mirrored folder
(``tests/workload`` for ``qops_batsim/workload/swf.py``) and those elsewhere that import the module,
the nearest first. The package runs uncompiled, so that no mutant waits for a compiler.
Without ``--shared`` tests do not find the recordings beside the project. A mutant is

killed
    if a test fails that passes without it; it is named;
endless
    if a test takes more than ``--slow`` seconds that takes less without it: it counts as killed;
undecided
    if no test that ran in time has failed: together they take more than ``--limit`` seconds of
    processor time. It counts as survived;
survived
    if all tests pass, but for those that always take longer than ``--slow``, of which nothing is
    known. Its difference is printed: either it is equivalent, or a test is missing.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, NoReturn

import hypothesis
import msgspec  # noqa: F401 - what tests import is imported once
import numpy as np  # noqa: F401
import pandas as pd  # noqa: F401
import pytest
import typer  # noqa: F401
from soak.harness import processor_time

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "qops_batsim"

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
}
PAIRS = (
    ("min", "max"),
    ("minimum", "maximum"),
    ("fmin", "fmax"),
    ("argmin", "argmax"),
    ("any", "all"),
    ("floor", "ceil"),
)
IDLE = 20
"""How many times as long tests may wait as they may compute."""

NAMES = dict(PAIRS) | {b: a for a, b in PAIRS}


@dataclass(frozen=True)
class Mutant:
    """One change of a source: its lines and kind, the bytes from ``begin`` to ``end``, new ones."""

    path: Path
    line: int
    kind: str
    last_line: int
    begin: int
    end: int
    text: str

    def applied(self, source: bytes) -> bytes:
        """Return the changed source."""
        return source[: self.begin] + self.text.encode() + source[self.end :]

    def difference(self, source: bytes) -> list[str]:
        """Return the changed lines."""
        before, after = (each.decode().splitlines() for each in (source, self.applied(source)))
        lines = difflib.unified_diff(before, after, n=0, lineterm="")
        return [each for each in lines if not each.startswith(("---", "+++", "@@"))]

    @property
    def place(self) -> str:
        """The file and line."""
        return f"{self.path}:{self.line}"


def mutants_of(path: Path, source: bytes) -> Iterator[Mutant]:
    """Yield all mutants of a module. Parts of literals, annotations and texts have none."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place(node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        first, last = starts[node.lineno - 1], starts[node.end_lineno - 1]
        return first + node.col_offset, last + node.end_col_offset

    for node in _nodes(ast.parse(source)):
        begin, end = place(node)
        for kind, text in _changes(node):
            yield Mutant(path, node.lineno, kind, node.end_lineno or 0, begin, end, text)
        if isinstance(node, ast.If | ast.IfExp):
            text = f"(not ({ast.unparse(node.test)}))"
            last = node.test.end_lineno or 0
            yield Mutant(path, node.test.lineno, "negation", last, *place(node.test), text)


def _nodes(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Yield what can be changed: no texts, no annotations, nothing for type checkers only."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "type_params", "decorator_list"):
            continue
        if isinstance(tree, ast.ClassDef) and name == "keywords":
            continue
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or isinstance(node, ast.JoinedStr | ast.Assert):
                continue
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                continue
            if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal":
                continue
            if isinstance(node, ast.expr | ast.stmt):
                yield node
            yield from _nodes(node)


def _changes(node: ast.expr | ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield kinds and texts of what may stand in place of a node."""
    match node:
        case ast.Compare():
            for index, old in enumerate(node.ops):
                ops = [*node.ops]
                ops[index] = COMPARISONS[type(old)]()
                changed = ast.Compare(node.left, ops, node.comparators)
                yield "comparison", f"({ast.unparse(changed)})"
        case ast.BinOp() if type(node.op) in OPERATORS and not _is_text(node):
            changed_op = ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
            yield "arithmetic", f"({ast.unparse(changed_op)})"
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield "boolean", f"({ast.unparse(ast.BoolOp(other, node.values))})"
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield "negation", f"({ast.unparse(node.operand)})"
        case ast.Constant(value=bool()):
            yield "boolean", str(not node.value)
        case ast.Constant(value=int(number)):
            yield "constant", str(number + 1)
        case ast.Constant(value=float(number)):
            yield "constant", str(number * 1.1 if number else 1.0)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in NAMES:
            text, head = ast.unparse(node), ast.unparse(node.func)
            yield "min and max", head.removesuffix(name) + NAMES[name] + text[len(head) :]
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise():
            yield "dropped", "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
            yield "dropped", "pass"


def _is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(each, ast.JoinedStr)
        or (isinstance(each, ast.Constant) and isinstance(each.value, str | bytes))
        for each in (node.left, node.right)
    )


def drawn(only: str, seed: int) -> list[Mutant]:
    """Return one mutant of each line that can have one, in random order."""
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z", f"{PACKAGE}/*.py"], capture_output=True, check=True
    )
    lines: dict[str, list[Mutant]] = {}
    for name in sorted(listed.stdout.decode().split("\0")):
        if name and only in name:
            for mutant in mutants_of(Path(name), (ROOT / name).read_bytes()):
                lines.setdefault(mutant.place, []).append(mutant)
    chosen = random.Random(seed)
    places = list(lines)
    chosen.shuffle(places)
    return [chosen.choice(lines[place]) for place in places]


def tests_of(path: Path, tree: Path) -> list[str]:
    """Return the files of tests that a mutant of a module has to pass, the nearest ones first."""
    module = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    above, _, name = module.rpartition(".")
    imported = re.compile(
        rf"\b{re.escape(module)}\b|^from {re.escape(above)} import .*\b{name}\b", re.MULTILINE
    )
    folder = tree.joinpath("tests", *path.parts[1:-1])
    room = tree.joinpath("tests", *path.parts[1:2]) if len(path.parts) > 2 else folder
    found = []
    for file in sorted(tree.glob("tests/**/test_*.py")):
        of_name = file.stem == f"test_{path.stem}" and (file.parent == folder or room == folder)
        names_it = imported.search(file.read_text()) is not None
        in_room = room in file.parents if room != tree / "tests" else file.parent == room
        if of_name or names_it or in_room:
            nearness = (
                of_name,
                folder in file.parents and names_it,
                names_it,
                folder in file.parents,
            )
            found.append((tuple(not each for each in nearness), str(file.relative_to(tree))))
    return [name for _, name in sorted(found)]


class Outcome(NamedTuple):
    """Outcome of tests: the one that failed, if any, and the seconds of processor time.

    ``slow`` are tests that were ended, and ``whole`` tells whether all had their turn.
    """

    failed: str = ""
    seconds: float = 0.0
    slow: tuple[str, ...] = ()
    whole: bool = True


@dataclass
class Bench:
    """A copy of the tree in which one mutant at a time is made and tested."""

    tree: Path
    limit: float
    slow: float
    environment: dict[str, str]
    usual: dict[str, Outcome] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    """Tests that fail without a mutant, and are left out."""

    def judge(self, mutant: Mutant) -> tuple[str, str, float]:
        """Return what became of a mutant, the test that failed, and how long it took (seconds)."""
        file = self.tree / mutant.path
        source, dates = file.read_bytes(), file.stat()
        tests = tests_of(mutant.path, self.tree)
        seconds = 0.0
        while True:
            file.write_bytes(mutant.applied(source))
            try:
                found = self._run(tests)
            finally:
                file.write_bytes(source)
                os.utime(file, ns=(dates.st_atime_ns, dates.st_mtime_ns))
            seconds += found.seconds
            if found.failed:
                is_crash = found.failed.startswith("exit code")
                if is_crash or not self._usual(found.failed).failed:
                    return "killed", found.failed, seconds
                # It fails without any mutant: as Python, or without the recordings.
                self.broken.add(found.failed)
                if seconds < self.limit:
                    continue
                return "undecided", f"{found.failed} fails without it", seconds
            for test in found.slow[:2]:
                if not self._usual(test).slow:
                    return "endless", f"{test}: {self._usual(test).seconds:.0f} s without", seconds
            if not found.whole:
                return "undecided", "the time ran out", seconds
            told = f"{len(tests)} files of tests, {len(found.slow)} tests too slow"
            return "survived", told, seconds

    def _usual(self, test: str) -> Outcome:
        """Return the outcome of a test without a mutant."""
        if test not in self.usual:
            self.usual[test] = self._run([test])
        return self.usual[test]

    def _run(self, tests: Sequence[str]) -> Outcome:
        """Run tests in a process of their own until one fails, or the time runs out."""
        output, slow = self.tree.parent / "output", self.tree.parent / "slow"
        slow.write_text("")
        process = os.fork()
        if process == 0:
            chosen = [*(f"--deselect={each}" for each in self.broken), *tests]
            _test(self.tree, chosen, output, _Watch(slow, self.slow), self.environment)
        begin = time.monotonic()
        seconds = 0.0
        status = None
        try:
            while status is None:
                is_over, code, usage = os.wait4(process, os.WNOHANG)
                if is_over:
                    seconds, status = usage.ru_utime + usage.ru_stime, code
                    break
                seconds = processor_time(process)
                if seconds > self.limit or time.monotonic() - begin > IDLE * self.limit:
                    break
                time.sleep(0.2)  # to look costs time as well
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(process, 0)
        ended = tuple(slow.read_text().splitlines())
        if status is None:
            return Outcome("", seconds, ended, whole=False)
        code = os.waitstatus_to_exitcode(status)
        if code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return Outcome("", seconds, ended)
        told = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", output.read_text(), re.MULTILINE)
        return Outcome(told[1] if told else f"exit code {code}", seconds, ended)


class _Watch:
    """Plugin of pytest that skips tests which take longer than a limit, and notes them."""

    def __init__(self, file: Path, seconds: float) -> None:
        self.file = file
        self.seconds = seconds
        self.test = ""

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.test = nodeid
        signal.signal(signal.SIGPROF, self._end)
        signal.setitimer(signal.ITIMER_PROF, self.seconds)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0.0)

    def _end(self, *_: object) -> None:
        with self.file.open("a") as file:
            file.write(f"{self.test}\n")
        pytest.skip("takes too long")


def _test(
    tree: Path, tests: Sequence[str], output: Path, watch: _Watch, environment: dict[str, str]
) -> NoReturn:
    """Run tests in this process, and end it."""
    code = 70
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with Path(os.devnull).open() as nothing, output.open("w") as told:
            os.dup2(nothing.fileno(), 0)
            os.dup2(told.fileno(), 1)
            os.dup2(told.fileno(), 2)
        os.chdir(tree)
        os.environ.clear()
        os.environ.update(environment)
        sys.path.insert(0, str(tree))
        sys.dont_write_bytecode = True
        # A failure need not be made small, and no mutant is judged by examples of another one.
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile("mutant", deadline=None, database=None, phases=phases)
        options = ["-x", "-q", "-p", "no:cacheprovider", "-c", "pyproject.toml", "--numprocesses=0"]
        options += ["--hypothesis-profile=mutant", f"--basetemp={tree.parent / 'pytest'}"]
        code = pytest.main([*options, *tests], plugins=[watch])
        sys.stdout.flush()
    finally:
        os._exit(code)


def _environment(tree: Path, *, shared: bool) -> dict[str, str]:
    """Return the environment of tests in a copy of the tree."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    environment["QOPS_BATSIM_PURE"] = "1"
    return environment if shared else {**environment, "QOPS_SHARED": "/nonexistent"}


def _copy(tree: Path) -> None:
    """Copy what git knows of the tree."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)


def _arguments() -> argparse.Namespace:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--count", type=int, default=10, help="how many mutants (10)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (1)")
    parser.add_argument("--only", default="", help="part of the paths of modules")
    parser.add_argument(
        "--limit", type=float, default=60.0, help="seconds of processor time for each (60)"
    )
    parser.add_argument("--slow", type=float, default=4.0, help="seconds of a test (4)")
    parser.add_argument("--shared", action="store_true", help="with the recordings beside it")
    parser.add_argument("--list", action="store_true", help="print the mutants, and test none")
    return parser.parse_args()


def main() -> None:
    """Draw mutants, test them, and print what became of each."""
    chosen = _arguments()
    everything = drawn(chosen.only, chosen.seed)
    mutants = everything[: chosen.count]
    print(f"{len(mutants)} of {len(everything)} lines that can have a mutant", flush=True)
    if chosen.list:
        for mutant in mutants:
            print(f"{mutant.place}  {mutant.kind}")
            print("\n".join(mutant.difference((ROOT / mutant.path).read_bytes())))
        return
    outcomes: Counter[str] = Counter()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory) / "tree"
        _copy(tree)
        environment = _environment(tree, shared=chosen.shared)
        bench = Bench(tree, chosen.limit, chosen.slow, environment)
        for mutant in mutants:
            outcome, why, seconds = bench.judge(mutant)
            outcomes[outcome] += 1
            print(f"{outcome:<9}  {mutant.place}  {mutant.kind}  ({why}; {seconds:.0f} s)")
            if outcome in ("survived", "undecided"):
                print("\n".join(mutant.difference((tree / mutant.path).read_bytes())))
            sys.stdout.flush()
    _summary(outcomes)


def _summary(outcomes: Counter[str]) -> None:
    """Print how many were killed."""
    killed, tested = outcomes["killed"] + outcomes["endless"], outcomes.total()
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    print(f"{killed} of {tested} killed ({100 * killed / max(tested, 1):.0f} %): {told}")


if __name__ == "__main__":
    main()
