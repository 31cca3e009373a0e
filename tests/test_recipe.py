"""The conda recipe: it asks for what the project's own metadata ask for."""

import re
import tomllib
from pathlib import Path

import qops_batsim

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / ".ci" / "conda" / "recipe.yaml"

OTHER_NAMES = {"matplotlib": "matplotlib-base", "tzdata": "python-tzdata"}
"""Names of packages in conda-forge, where they are not those of PyPI."""


def listed(recipe: str, key: str) -> list[str]:
    """Return the items of the list under a key of a YAML text."""
    found = re.search(rf"^( *){key}:\n((?:\1  - .*\n)+)", recipe, re.MULTILINE)
    assert found is not None, key
    return [line.strip().removeprefix("- ") for line in found[2].splitlines()]


def as_conda(requirement: str) -> str:
    """Return a requirement of Python's metadata as conda writes it."""
    name, sign, version = requirement.partition(">=")
    return f"{OTHER_NAMES.get(name, name)} {sign}{version}"


def test_the_recipe_agrees_with_the_metadata() -> None:
    recipe = RECIPE.read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    metadata, build = project["project"], project["build-system"]
    python = f"python {metadata['requires-python']}"
    needed = [as_conda(each) for each in metadata["dependencies"]]
    assert sorted(listed(recipe, "run")) == sorted([python, *needed])
    assert listed(recipe, "host") == [python, "pip", *map(as_conda, build["requires"])]
    scripts = [f"{name} = {target}" for name, target in metadata["scripts"].items()]
    assert listed(recipe, "entry_points") == scripts
    assert f'version: "{qops_batsim.__version__}"' in recipe
    assert f"summary: {metadata['description']}" in recipe
