from pathlib import Path

import pytest

from qops_batsim import InputError, read_platform, read_workload
from qops_batsim.shipped import find_input, resolve_path, shipped_directory, shipped_names


def test_the_shipped_inputs_are_found_and_can_be_read() -> None:
    workloads, platforms = shipped_names("workloads"), shipped_names("platforms")
    assert "tiny_8" in workloads
    assert "kth_sp2_100" in platforms
    for name in workloads:
        assert read_workload(find_input(name, "workloads")).jobs
    for name in platforms:
        assert read_platform(find_input(name, "platforms")).compute_hosts


@pytest.mark.parametrize("name", ["tiny_8", "tiny_8.json", "workloads/tiny_8.json"])
def test_a_shipped_file_has_three_names(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_input(name, "workloads") == shipped_directory("workloads") / "tiny_8.json"


def test_an_existing_path_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny_8").write_text("mine")
    assert find_input("tiny_8", "workloads") == Path("tiny_8")


def test_a_shipped_name_in_another_directory_is_not_taken() -> None:
    with pytest.raises(InputError, match=r"^other/tiny_8\.json: no such file"):
        find_input("other/tiny_8.json", "workloads")


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(InputError) as caught:
        find_input("tiny8", "workloads")
    message = str(caught.value)
    assert "tiny8: no such file, nor one of the shipped workloads" in message
    assert "did you mean 'tiny_8'?" in message
    assert "\n" not in message


def test_a_workload_is_no_platform() -> None:
    with pytest.raises(InputError, match="nor one of the shipped platforms"):
        find_input("tiny_8", "platforms")


def test_a_path_below_platforms_is_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shipped = shipped_directory("workloads") / "tiny_8.json"
    assert resolve_path("workloads/tiny_8.json", "workloads") == shipped
    for other in ("tiny_8", "tiny_8.json", "other/tiny_8.json", "workloads/tiny_9.json", ""):
        assert resolve_path(other, "workloads") == Path(other)
    (tmp_path / "workloads").mkdir()
    (tmp_path / "workloads" / "tiny_8.json").write_text("mine")
    assert resolve_path("workloads/tiny_8.json", "workloads") == Path("workloads/tiny_8.json")
