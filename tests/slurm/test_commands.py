"""Asking Slurm: what a command inherits, which errors are outages, and what its answers mean."""

from __future__ import annotations

import pytest

from qops_batsim.slurm.commands import CommandFailed, Unreachable, run_command, settings_of


def test_the_filters_of_an_operator_hide_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SQUEUE_USERS", "SQUEUE_STATES", "SINFO_PARTITION", "SQUEUE_FORMAT2"):
        monkeypatch.setenv(name, "nobody")
    said = run_command(["env"], "Comment:0<a>").splitlines()
    assert [each for each in said if each.startswith(("SQUEUE", "SINFO"))] == [
        "SQUEUE_FORMAT2=Comment:0<a>"
    ]


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (
            "echo 'slurm_load_jobs error: Zero Bytes were transmitted' >&2; exit 1",
            Unreachable,
        ),
        ("echo 'Invalid job id specified' >&2; exit 1", CommandFailed),
        # squeue --json of 22.05 says so and exits with 0.
        ("echo 'squeue: error: Unable to contact slurm controller' >&2", Unreachable),
    ],
)
def test_errors_are_told_from_no_answer(script: str, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        run_command(["sh", "-c", script])


def test_a_setting_of_a_plugin_hides_none_of_slurm() -> None:
    said = "KillWait = 30 sec\n\nPlugin Configuration:\nKillWait = 5 sec\n"
    assert settings_of(lambda command, form: said) == {"killwait": "30 sec"}
