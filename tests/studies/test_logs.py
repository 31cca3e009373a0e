"""Logs of the papers, where they are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from qops_batsim import InputError
from studies.logs import CTC, KTH, read_log
from studies.request import StudyRequest

JOB = "1 0 5 60 4 -1 -1 4 120 -1 1 1 1 1 1 1 -1 -1\n"


def test_the_archives_file_does_where_ours_is_missing(tmp_path: Path) -> None:
    (tmp_path / "CTC-SP2-1996-3.1-cln.swf.gz").write_text(JOB)
    assert len(read_log(StudyRequest(traces=tmp_path), CTC)) == 1


def test_what_is_missing_is_named_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"^{KTH}: not found in .* workload fetch kth-sp2"):
        read_log(StudyRequest(traces=tmp_path), KTH)
