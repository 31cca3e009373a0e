"""Files that Batsim 5 has written, made into those of Batsim 4."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from qops_batsim import read_run, verify
from qops_batsim.file_set import run_files
from qops_batsim.running.releases import write_as_batsim4


@pytest.mark.parametrize("name", ["delays_nonet", "het_nonet", "share_host", "empty"])
def test_what_it_gets_wrong_is_found_from_the_jobs(
    batsim5_sessions: Path, tmp_path: Path, name: str
) -> None:
    shutil.copytree(batsim5_sessions / name / "out", tmp_path / "real")
    with run_files(tmp_path / "run") as files:
        write_as_batsim4(tmp_path / "real", files, [])
        files.publish_alone()
    result = read_run(tmp_path / "run")
    assert result.hosts_over_time is not None
    assert (result.hosts_over_time.idle + result.hosts_over_time.computing == result.hosts).all()
    assert verify(result) == [] or name == "share_host"
