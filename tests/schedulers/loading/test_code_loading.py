"""What a scheduler's code consists of, and what is run of it after a change."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from qops_batsim import InputError
from qops_batsim.schedulers import registry, scheduler_class
from qops_batsim.schedulers.registry import code_of_scheduler
from support.own_code import scheduler_text, write_distribution, write_files

MINE = "mine.py:Mine"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to work in, which holds no module of an earlier test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    before = {*sys.modules}
    registry._registered.cache_clear()
    yield tmp_path
    registry._registered.cache_clear()
    for name in {*sys.modules} - before:
        del sys.modules[name]


def code(scheduler: str = MINE) -> tuple[str, dict[str, str]]:
    """Return what a scheduler says of itself, and the digests of its modules."""
    kind = scheduler_class(scheduler)
    found = code_of_scheduler(scheduler)
    assert found is not None
    return kind.summary, found.modules


LOAD = """
import importlib.util as util
spec = util.spec_from_file_location("other", "parts/deep.py")
module = util.module_from_spec(spec)
spec.loader.exec_module(module)
VALUE = module.VALUE
"""

GRAPHS = {
    "beside": ("from deep import VALUE", {"deep.py": "VALUE = 1\n"}),
    "two imports deep": (
        "from helper import VALUE",
        {"helper.py": "from deep import *\n", "deep.py": "VALUE = 1\n"},
    ),
    "three imports deep, with a circle": (
        "import one\nVALUE = one.VALUE",
        {
            "one.py": "import two\nVALUE = two.value()\n",
            "two.py": "import one, deep\n\n\ndef value():\n    return deep.VALUE\n",
            "deep.py": "VALUE = 1\n",
        },
    ),
    "a package with relative imports": (
        "from lab import VALUE",
        {
            "lab/__init__.py": "from .rules import VALUE\n",
            "lab/rules/__init__.py": "from ..deep import VALUE\n",
            "lab/deep.py": "VALUE = 1\n",
        },
    ),
    "a package's own text": (
        "import lab.part\nVALUE = lab.VALUE",
        {"lab/part.py": "", "lab/__init__.py": "VALUE = 1\n"},
    ),
    "a namespace package": (
        "from space.inner import deep\nVALUE = deep.VALUE",
        {"space/inner/deep.py": "VALUE = 1\n"},
    ),
    "an import by name": (
        "import importlib\nVALUE = importlib.import_module('deep').VALUE",
        {"deep.py": "VALUE = 1\n"},
    ),
    "an import by a computed name": (
        "VALUE = __import__('de' + 'ep').VALUE",
        {"deep.py": "VALUE = 1\n"},
    ),
    "a file that is loaded by its path": (LOAD, {"parts/deep.py": "VALUE = 1\n"}),
    "one of two modules": (
        "try:\n    import missing\nexcept ImportError:\n    import deep\nVALUE = deep.VALUE",
        {"deep.py": "VALUE = 1\n"},
    ),
    "a function that runs at once": (
        "def value():\n    import deep\n    return deep.VALUE\n\n\nVALUE = value()",
        {"deep.py": "VALUE = 1\n"},
    ),
    "a folder that the file names": (
        "import sys\nsys.path.insert(0, 'parts')\nfrom deep import VALUE",
        {"parts/deep.py": "VALUE = 1\n"},
    ),
}
"""Imports of a scheduler's file, and its modules, of which one holds the value."""


@pytest.mark.parametrize("name", GRAPHS)
def test_a_change_in_any_module_is_run_and_digested(folder: Path, name: str) -> None:
    imports, files = GRAPHS[name]
    write_files(folder, {"mine.py": scheduler_text(imports, "VALUE"), **files})
    before = code()
    assert before[0] == "1"
    assert len(before[1]) == 1 + len(files)
    assert code() == before
    for file, text in files.items():
        if "VALUE = 1" in text:
            # Within a second and of the same size: compiled files tell no difference.
            Path(file).write_text(text.replace("1", "2"))
    after = code()
    assert after[0] == "2"
    assert after[1].keys() == before[1].keys()
    assert sum(after[1][each] != before[1][each] for each in after[1]) == 1
    assert code_of_scheduler(MINE).not_covered == ()  # type: ignore[union-attr]


def test_a_module_that_the_process_has_imported_before_is_run_as_it_is_now(folder: Path) -> None:
    sys.path.insert(0, str(folder))
    write_files(folder, {"helper.py": "from deep import VALUE\n", "deep.py": "VALUE = 1\n"})
    held = importlib.import_module("helper")
    write_files(
        folder,
        {"deep.py": "VALUE = 2\n", "mine.py": scheduler_text("import helper", "helper.VALUE")},
    )
    summary, modules = code()
    assert summary == "2"
    assert modules.keys() == {"mine.py", "helper", "deep"}
    # What the program holds is left alone.
    assert held.VALUE == 1


def test_modules_that_a_scheduler_does_not_import_stay(folder: Path) -> None:
    sys.path.insert(0, str(folder))
    write_files(folder, {"other.py": "COUNT = []\n", "mine.py": scheduler_text("", "1")})
    other = importlib.import_module("other")
    assert code()[1].keys() == {"mine.py"}
    assert sys.modules["other"] is other
    write_files(folder, {"mine.py": scheduler_text("import other, no_such", "1")})
    with pytest.raises(InputError, match="cannot be loaded .ModuleNotFoundError"):
        code()
    assert sys.modules["other"] is other


def test_two_schedulers_share_a_module_and_both_know_it(folder: Path) -> None:
    mine = scheduler_text("from helper import VALUE", "VALUE")
    write_files(
        folder,
        {
            "mine.py": mine,
            "yours.py": mine,
            "helper.py": "from deep import VALUE\n",
            "deep.py": "VALUE = 1\n",
        },
    )
    one, other = code(), code("yours.py:Mine")
    assert one[1]["deep"] == other[1]["deep"]
    Path("deep.py").write_text("VALUE = 3\n")
    assert code("yours.py:Mine")[0] == code()[0] == "3"


def test_modules_of_one_name_in_two_folders_are_kept_apart(folder: Path) -> None:
    for name, value in (("a", 1), ("b", 2)):
        write_files(
            folder / name,
            {
                "mine.py": scheduler_text("import helper", "helper.VALUE"),
                "helper.py": f"VALUE = {value}\n",
            },
        )
    for _ in range(2):
        assert code("a/mine.py:Mine")[0] == "1"
        assert code("b/mine.py:Mine")[0] == "2"


def test_a_module_that_becomes_a_package_is_noticed(folder: Path) -> None:
    write_files(
        folder,
        {"mine.py": scheduler_text("import helper", "helper.VALUE"), "helper.py": "VALUE = 1\n"},
    )
    assert code()[0] == "1"
    write_files(folder, {"helper/__init__.py": "VALUE = 2\n"})
    importlib.invalidate_caches()
    assert code()[0] == "2"


def test_a_change_that_cannot_be_loaded_is_an_error_each_time(folder: Path) -> None:
    write_files(
        folder,
        {"mine.py": scheduler_text("import helper", "helper.VALUE"), "helper.py": "VALUE = 1\n"},
    )
    code()
    Path("helper.py").write_text("VALUE = ")
    for _ in range(2):
        with pytest.raises(InputError, match="cannot be loaded .SyntaxError"):
            code()
    Path("helper.py").unlink()
    with pytest.raises(InputError, match="cannot be loaded .ModuleNotFoundError"):
        code()


LATE = """
from typing import TYPE_CHECKING
import covered

if TYPE_CHECKING:
    import only_for_types


def choose(name):
    import json
    import covered
    import numpy as np
    from late import one, two
    import late.deep
    import missing
    module = __import__(name)
    return lambda: __import__("later")


if __name__ == "__main__":
    import only_as_program
"""


def test_imports_in_functions_are_named_as_not_covered(folder: Path) -> None:
    files = dict.fromkeys(("covered.py", "late/__init__.py", "late/deep.py", "later.py"), "")
    write_files(folder, {"mine.py": scheduler_text(LATE, "1"), **files})
    line = (folder / "mine.py").read_text().splitlines().index("def choose(name):") + 1
    assert code()[1].keys() == {"mine.py", "covered"}
    found = code_of_scheduler(MINE)
    assert found is not None
    assert found.not_covered == tuple(
        f"mine.py, line {line + place}: {what}"
        for place, what in (
            (4, "from late import one, two"),
            (5, "import late.deep"),
            (6, "import missing"),
            (7, "__import__(…)"),
            (8, "__import__('later')"),
        )
    )
    assert found.packages.keys() == {"numpy"}


def test_code_that_is_run_from_a_text_is_named_as_not_covered(folder: Path) -> None:
    write_files(
        folder,
        {
            "mine.py": scheduler_text("exec(open('deep.py').read())", "VALUE"),
            "deep.py": "VALUE = 1\n",
        },
    )
    code()
    assert code_of_scheduler(MINE).not_covered == ("mine.py, line 5: exec(…)",)  # type: ignore[union-attr]


def digest_elsewhere(folder: Path, scheduler: str = MINE) -> str:
    """Return a scheduler's digest in a fresh process."""
    script = (
        "import sys\nsys.path.append('site')\nfrom qops_batsim.schedulers import registry\n"
        f"registry.scheduler_class({scheduler!r})\n"
        f"print(registry.code_of_scheduler({scheduler!r}).digest)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=folder
    )
    return done.stdout.strip()


def test_the_digest_is_that_of_any_process_and_place(folder: Path) -> None:
    imports, files = GRAPHS["three imports deep, with a circle"]
    write_files(
        folder / "a", {"mine.py": scheduler_text(f"import numpy\n{imports}", "VALUE"), **files}
    )
    code("a/mine.py:Mine")
    found = code_of_scheduler("a/mine.py:Mine")
    assert found is not None
    shutil.copytree("a", "b")
    assert found.digest == digest_elsewhere(folder / "b")


def install(version: str, required: str = "") -> None:
    """Install distribution ``plug`` with this version in the folder ``site``."""
    shutil.rmtree("site", ignore_errors=True)
    told = f"Name: plug\nVersion: {version}\n" + (
        f"Requires-Dist: {required}\n" if required else ""
    )
    write_distribution(Path("site"), "plug", version, {"plug.py": "VALUE = 1\n"}, METADATA=told)


def test_the_version_of_a_distribution_counts(folder: Path) -> None:
    write_files(folder, {"mine.py": scheduler_text("from plug import VALUE", "VALUE")})
    install("1.0")
    before = digest_elsewhere(folder)
    assert digest_elsewhere(folder) == before
    install("1.1")
    assert digest_elsewhere(folder) != before


def test_another_version_in_the_same_process_is_an_error(folder: Path) -> None:
    sys.path.append(str(folder / "site"))
    write_files(folder, {"mine.py": scheduler_text("from plug import VALUE", "VALUE")})
    install("1.0", required="base>=2 ; python_version > '3'")
    write_distribution(Path("base-site"), "base", "2.0", {"base.py": ""})
    sys.path.append(str(folder / "base-site"))
    assert code()[1].keys() == {"mine.py"}
    assert code_of_scheduler(MINE).packages == {"base": "2.0", "plug": "1.0"}  # type: ignore[union-attr]
    install("1.1", required="base")
    with pytest.raises(
        InputError, match=r"package plug had version 1.0 .* 1.1 now; run this in a new"
    ):
        code()


ENTRY = "[qops_batsim.schedulers]\nplug = plug.rules:Mine\n"


def plug(value: int) -> dict[str, str]:
    """Return the files of a package that registers a scheduler."""
    return {
        "plug/__init__.py": "",
        "plug/rules.py": scheduler_text("from plug.deep import VALUE", "VALUE"),
        "plug/deep.py": f"VALUE = {value}\n",
    }


@pytest.mark.parametrize("is_editable", [False, True])
def test_a_registered_scheduler_is_known_by_its_files(folder: Path, is_editable: bool) -> None:
    told = {"entry_points__txt": ENTRY}
    if is_editable:
        told |= {"direct_url__json": '{"url": "file:///src", "dir_info": {"editable": true}}'}
        write_files(Path("src"), plug(1))
        write_distribution(Path("site"), "plug", "1.0", {"plug.pth": "../src\n"}, **told)
        sys.path.append(str(folder / "src"))
    else:
        write_distribution(Path("site"), "plug", "1.0", plug(1), **told)
    sys.path.append(str(folder / "site"))
    before = code("plug")
    assert before[0] == "1"
    assert before[1].keys() == {"plug", "plug.rules", "plug.deep"}
    found = code_of_scheduler("plug")
    assert found is not None
    assert found.packages == {"plug": "1.0"}
    write_files(Path("src" if is_editable else "site"), {"plug/deep.py": "VALUE = 2\n"})
    after = code("plug")
    assert after[0] == "2"
    assert after[1]["plug.deep"] != before[1]["plug.deep"]


def test_our_own_schedulers_have_the_version_of_the_package_alone() -> None:
    scheduler_class("qops")
    assert code_of_scheduler("qops") is None


def test_a_package_with_compiled_modules_is_known_by_all_its_files(folder: Path) -> None:
    name = f"_bisect{sysconfig.get_config_var('EXT_SUFFIX')}"
    compiled = Path(sysconfig.get_config_var("DESTSHARED") or "", name)
    if not compiled.is_file():
        pytest.skip("Python has this module built in")
    imports = "from lab import VALUE\nimport lab._bisect"
    write_files(
        folder,
        {
            "mine.py": scheduler_text(imports, "VALUE"),
            "yours.py": scheduler_text("from lab.more import VALUE", "VALUE"),
            "lab/__init__.py": "VALUE = 1\nfrom . import _bisect\n",
            "lab/more.py": "from lab import VALUE\n",
        },
    )
    shutil.copy(compiled, folder / "lab" / name)
    files = {"lab/__init__.py", "lab/more.py", f"lab/{name}"}
    assert code()[1].keys() == {"mine.py", *files}
    # Python has the package already, and does not load it again.
    assert code("yours.py:Mine")[1].keys() == {"yours.py", *files}
    found = code_of_scheduler("yours.py:Mine")
    assert found is not None
    assert found.digest == digest_elsewhere(folder, "yours.py:Mine")
    Path("lab/more.py").write_text("VALUE = 2\n")
    with pytest.raises(InputError, match="has changed since Python imported it .* new Python proc"):
        code()


def test_a_module_in_an_archive_is_known_by_the_archive(folder: Path) -> None:
    def pack(value: int) -> None:
        with zipfile.ZipFile("all.zip", "w") as archive:
            archive.writestr("helper.py", f"VALUE = {value}\n")

    pack(1)
    sys.path.append(str(folder / "all.zip"))
    text = scheduler_text("import helper", "helper.VALUE")
    write_files(folder, {"mine.py": text, "yours.py": text})
    one, other = code(), code("yours.py:Mine")
    assert one[1]["helper"] == other[1]["helper"]
    pack(2)
    with pytest.raises(InputError, match="all.zip: has changed since Python imported it as helper"):
        code()
