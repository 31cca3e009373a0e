"""What is compiled, and that Python uses it, or not, as it says."""

from __future__ import annotations

import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import qops_batsim
from qops_batsim.compiled import COMPILED
from support.node_cases import platform_of, random_jobs, random_machine, workload_of

PACKAGE = Path(qops_batsim.__file__).parent


def test_what_is_declared_is_compiled() -> None:
    declared = {path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.pxd")}
    modules = {str(path.with_suffix("")) for path in declared if path.stem != "__init__"}
    assert modules == set(COMPILED)


@pytest.mark.parametrize("name", COMPILED)
def test_nothing_compiled_counts_from_the_end(name: str) -> None:
    """Compiled code has no wraparound: ``jobs[-1]`` of a list would read what is before it."""
    tree = ast.parse((PACKAGE / f"{name}.py").read_text())
    places = [
        each.lineno
        for each in ast.walk(tree)
        if isinstance(each, ast.Subscript)
        and isinstance(each.slice, ast.UnaryOp)
        and isinstance(each.slice.op, ast.USub)
    ]
    assert places == []


def ask(folder: Path, pure: str = "") -> subprocess.CompletedProcess[str]:
    """Ask the package in a folder whether it is compiled, and where its grid of dates lies."""
    script = (
        "import qops_batsim as q, qops_batsim.timing as t; print(q.is_compiled(), t.on_grid(1 / 3))"
    )
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env={**os.environ, "QOPS_BATSIM_PURE": pure, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout of what the question needs, uncompiled."""
    for name in ("__init__", "compiled", "lazy", "version", *COMPILED):
        path = tmp_path / "qops_batsim" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGE / f"{name}.py", path)
    for name in ("data_problems", "errors", "job_fields", "limits", "core/__init__"):
        shutil.copy(PACKAGE / f"{name}.py", tmp_path / "qops_batsim" / f"{name}.py")
    for name in COMPILED:
        shutil.copy(PACKAGE / f"{name}.pxd", tmp_path / "qops_batsim" / f"{name}.pxd")
    (tmp_path / "pyproject.toml").touch()
    return tmp_path


def test_a_checkout_that_was_never_compiled_runs(checkout: Path) -> None:
    assert ask(checkout).stdout == "False 0.333333\n"


def test_what_is_older_than_its_source_is_an_error_that_says_what_to_type(checkout: Path) -> None:
    for name in COMPILED:
        (checkout / "qops_batsim" / f"{name}{EXTENSION_SUFFIXES[0]}").touch()
    source = checkout / "qops_batsim" / "timing.py"
    now = source.stat().st_mtime + 10
    os.utime(source, (now, now))
    told = ask(checkout).stderr.splitlines()[-1]
    assert told.startswith(f"ImportError: {source} is newer than what was compiled from it; type: ")
    assert "python setup.py build_ext --inplace" in told
    assert ask(checkout, pure="1").stdout == "False 0.333333\n"


def test_a_module_that_was_not_compiled_with_the_others_is_an_error(checkout: Path) -> None:
    (checkout / "qops_batsim" / f"{COMPILED[0]}{EXTENSION_SUFFIXES[0]}").touch()
    assert f"{COMPILED[1]}.py was never compiled; type: python" in ask(checkout).stderr


def test_an_installation_that_could_not_be_compiled_says_so(checkout: Path) -> None:
    script = "from qops_batsim import compiled; print(compiled.warning())"

    def warning(**environment: str) -> str:
        told = {**os.environ, "PYTHONPATH": str(checkout), "QOPS_BATSIM_PURE": "", **environment}
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, cwd=checkout, env=told, capture_output=True, text=True)
        return done.stdout.strip()

    assert warning() == ""
    (checkout / "pyproject.toml").unlink()
    assert warning().startswith("it is installed uncompiled, and slower; pip install -v tells why")
    assert warning(QOPS_BATSIM_PURE="1") == ""
    (checkout / "qops_batsim" / f"{COMPILED[0]}{EXTENSION_SUFFIXES[0]}").touch()
    assert warning() == ""


@pytest.mark.skipif(not qops_batsim.is_compiled(), reason="nothing is compiled here")
def test_the_environment_has_compiled_modules_run_uncompiled() -> None:
    folder = PACKAGE.parent
    assert ask(folder).stdout == "True 0.333333\n"
    assert ask(folder, pure="1").stdout == "False 0.333333\n"


SHARED = """
import sys
from qops_batsim import simulate
for scheduler in ("easy", "conservative", "slack", "qops", "fqops", "msb", "mrt"):
    for each in simulate(scheduler, sys.argv[2], sys.argv[1]).ended:
        print(scheduler, each.local_id, each.state, each.start, each.finish, each.hosts)
"""
"""Schedules of a workload on a machine whose jobs share hosts, given the files of both."""


@pytest.mark.skipif(not qops_batsim.is_compiled(), reason="nothing is compiled here")
def test_shared_hosts_have_the_same_schedules_uncompiled(tmp_path: Path) -> None:
    rng = random.Random(7)
    shared = random_machine(rng)
    jobs = random_jobs(rng, shared, 40, deadlines=True)
    platform = tmp_path / "machine.xml"
    workload = tmp_path / "jobs.json"
    platform.write_text(platform_of(shared))
    workload.write_text(json.dumps(workload_of(shared, jobs)))

    def schedules(pure: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", SHARED, str(platform), str(workload)],
            env={**os.environ, "QOPS_BATSIM_PURE": pure, "PYTHONPATH": str(PACKAGE.parent)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    compiled = schedules("")
    assert compiled.count("COMPLETED_SUCCESSFULLY") > 100
    assert schedules("1") == compiled


# What a compiled class has: attributes are fields of C, and others cannot be added


_CLASS = re.compile(r"^cdef class (\w+)(?:\((\w+)\))?:", re.MULTILINE)
_FIELDS = re.compile(r"^    cdef (?:public |readonly )?(?:[\w.\[\]:*]+ )*?([\w, ]+)$", re.MULTILINE)


def declared_fields(text: str) -> dict[str, tuple[str, set[str]]]:
    """Return the base and the fields of each class that a ``.pxd`` declares."""
    found = {}
    text = re.sub(r" *#.*", "", text)
    headers = [*_CLASS.finditer(text)]
    ends = [*(header.start() for header in headers[1:]), len(text)]
    for header, end in zip(headers, ends, strict=False):
        body = text[header.end() : end]
        fields = {name.split()[-1] for names in _FIELDS.findall(body) for name in names.split(",")}
        found[header[1]] = (header[2] or "", fields)
    return found


def undeclared(source: str, declarations: dict[str, tuple[str, set[str]]]) -> list[str]:
    """Return the uses of ``self.x`` in compiled classes that nothing declares, with their lines."""
    own = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
    wrong = []
    for name, node in own.items():
        if name not in declarations:
            continue
        known = set(dir(object))
        each = name
        while each:
            base, fields = declarations[each]
            known |= fields | MEMBERS.get(each, set())
            each = base
        wrong += [
            f"{use.lineno}: self.{use.attr} of {name}"
            for use in ast.walk(node)
            if isinstance(use, ast.Attribute)
            and isinstance(use.value, ast.Name)
            and use.value.id == "self"
            and use.attr not in known
        ]
    return wrong


def members(node: ast.ClassDef) -> set[str]:
    """Return the names of methods and class attributes."""
    names = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
    for each in node.body:
        targets = each.targets if isinstance(each, ast.Assign) else []
        if isinstance(each, ast.AnnAssign):
            targets = [each.target]
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


DECLARED = {
    name: fields
    for path in COMPILED
    for name, fields in declared_fields((PACKAGE / f"{path}.pxd").read_text()).items()
}
MEMBERS = {
    node.name: members(node)
    for path in COMPILED
    for node in ast.parse((PACKAGE / f"{path}.py").read_text()).body
    if isinstance(node, ast.ClassDef)
}


@pytest.mark.parametrize("name", COMPILED)
def test_every_attribute_of_a_compiled_class_is_declared(name: str) -> None:
    source = (PACKAGE / f"{name}.py").read_text()
    assert [f"{name}.py:{use}" for use in undeclared(source, DECLARED)] == []


def test_an_attribute_that_is_not_declared_is_named_with_its_line() -> None:
    fields = "    cdef public double[::1] a, b  # Arrays."
    text = f"cdef class Made:\n{fields}\n    cdef c(self)\n"
    source = "class Made:\n    def f(self):\n        self.a = self.b\n        self.c.d = 1\n"
    assert declared_fields(text) == {"Made": ("", {"a", "b"})}
    assert undeclared(source, declared_fields(text)) == ["4: self.c of Made"]


# Whether a subclass overrides a method: of one with a C function, Class.method is a new wrapper


_C_METHODS = re.compile(r"^(?:cdef class (\w+)|    cp?def (?:[\w.\[\]:]+ )*?(\w+)\()", re.MULTILINE)


def new_wrappers(source: str, declarations: str) -> list[str]:
    """Return where ``is`` compares a method of ``type(self)`` with one that has a C function."""
    c_methods = set()
    name = ""
    for declared in _C_METHODS.finditer(declarations):
        name = declared[1] or name
        c_methods.add(f"{name}.{declared[2]}")
    comparison = re.compile(r"\btype\(self\)\.(\w+) is (?:not )?(\w+\.\1)\b")
    return [
        f"{line}: {compared[2]}"
        for line, text in enumerate(source.splitlines(), 1)
        for compared in comparison.finditer(text)
        if compared[2] in c_methods
    ]


@pytest.mark.parametrize("name", COMPILED)
def test_whether_a_method_is_overridden_is_not_asked_of_a_new_wrapper(name: str) -> None:
    """QoPS took its own insertion points for those of a subclass, which cost it a fifth."""
    source = (PACKAGE / f"{name}.py").read_text()
    declarations = (PACKAGE / f"{name}.pxd").read_text()
    assert [f"{name}.py:{each}" for each in new_wrappers(source, declarations)] == []


def test_a_comparison_with_a_new_wrapper_is_named_with_its_line() -> None:
    source = (
        "a = type(self).f is not Made.f\n"
        "b = type(self).g is Made.g\n"
        "c = type(self).h is not Made.h\n"
        "d = type(self).f is not vars(Made)['f']\n"
        "e = type(self).f is not Other.f\n"
    )
    declarations = (
        "cdef class Other:\n    cdef bint f\n    cpdef h(self)\n"
        "cdef class Made(Other):\n    cpdef f(self)\n    cdef double g(self, int b) except -1\n"
    )
    assert new_wrappers(source, declarations) == ["1: Made.f", "2: Made.g"]
