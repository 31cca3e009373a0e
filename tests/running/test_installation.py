"""Finding Batsim, and refusing what is none or speaks another protocol."""

from __future__ import annotations

import pytest

from qops_batsim import InputError
from qops_batsim.running.installation import Batsim, find_batsim
from support.fake_batsim import write_fake


def test_a_missing_batsim_is_one_message_with_the_ways_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError) as error:
        find_batsim()
    text = str(error.value)
    assert "no batsim on PATH" in text
    assert "https://batsim.readthedocs.io/en/v4.2.1/installation.html" in text
    assert "oarteam/batsim" in text
    assert "embedded engine" in text
    assert "\n" not in text
    with pytest.raises(InputError, match="no/such: no executable program"):
        find_batsim("no/such")


def test_batsim_is_found_on_path_and_asked_for_its_version(monkeypatch, tmp_path):
    path = write_fake(tmp_path / "batsim", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_batsim() == Batsim(path, "v4.2.1")
    monkeypatch.chdir(tmp_path)
    assert find_batsim("./batsim").path == path
    commit = "commit d4d3411 (built by Nix from master branch)"
    assert find_batsim(write_fake(path, "", version=commit)).version == commit


def test_later_versions_are_refused(tmp_path):
    with pytest.raises(InputError, match="is Batsim v6.1.0; Batsim 3.1 to 4.2, or 5, is expected"):
        find_batsim(write_fake(tmp_path / "batsim", "", version="v6.1.0"))


@pytest.mark.parametrize(
    ("version", "major"), [("v3.1.0", 3), ("v4.2.1", 4), ("5.0.0-rc2", 5), ("commit d4d3411", 4)]
)
def test_versions_are_told_apart(tmp_path, version, major):
    assert find_batsim(write_fake(tmp_path / "batsim", "", version=version)).major == major


@pytest.mark.parametrize(
    ("code", "timeout", "message"),
    [
        ("sleep 60", 0.3, "no answer to --version within 0.3 s; Batsim is expected"),
        ("echo usage: x; exit 4", 240, "--version ends with exit code 4 and says 'usage: x'"),
        ("true", 240, "--version ends with exit code 0 and says nothing"),
    ],
)
def test_programs_that_are_no_batsim(tmp_path, code, timeout, message):
    path = tmp_path / "batsim"
    path.write_text(f"#!/bin/sh\n{code}\n")
    path.chmod(0o755)
    with pytest.raises(InputError, match=message):
        find_batsim(path, timeout=timeout)


def test_words_around_the_version_are_passed_over(tmp_path):
    path = tmp_path / "batsim"
    path.write_text("#!/bin/sh\necho warning: unknown setting >&2\necho v4.2.0\n")
    path.chmod(0o755)
    assert find_batsim(path).version == "v4.2.0"
