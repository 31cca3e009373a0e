"""Users who ask for the jobs of the contract's cases, beside every scheduler."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from qops_batsim import InputError, run, simulate
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.running import Run
from qops_batsim.running.contract import ContractCase, cases
from qops_batsim.schedulers import scheduler_names
from qops_batsim.users import Reacting, Reactions, Users
from qops_batsim.users.reacting import DONE, ELSEWHERE, LEFT
from qops_batsim.users.user_model import Batch, BatchJob, User
from qops_batsim.workload import NeedChoices, NeedMix
from support.users import LATE

CASES = [each for each in cases() if each.workload.jobs]
"""All but that without jobs, since there is at least one user."""


def users_of_case(case: ContractCase) -> Users:
    """Return a user for each job of a case that the machine can hold, who asks for it once."""
    listed = []
    for job in case.workload.jobs:
        if 1 <= job.processors <= case.hosts:
            run_time = case.workload.profiles[job.profile]["delay"]
            asked = BatchJob(0.0, job.processors, run_time, job.walltime)
            since = float(math.floor(job.submission_time))
            only = Batch((asked,), 0.0, "break", LATE)
            listed.append(User(name=job.id, since=since, until=since, batches=(only,)))
    return Users(
        processors=case.hosts,
        users=tuple(listed),
        reactions=Reactions(liars=0.3, price=0.1, retry_after=20.0, answer_after=2.0),
        deadlines=NeedChoices(mix=NeedMix(slack=1.0), slack=10.0),
    )


def made(name: str, case: ContractCase, out: Path) -> Run:
    platform, users = make_cluster(case.hosts), users_of_case(case)
    return run(name, None, platform, users=users, events=case.events, out=str(out / "run"))


@pytest.mark.parametrize("name", scheduler_names())
def test_users_keep_the_contract_beside_every_scheduler(name: str, tmp_path: Path) -> None:
    assert len(CASES) == 21
    for number, case in enumerate(CASES):
        done, again = (made(name, case, tmp_path / f"{number}-{turn}") for turn in "ab")
        assert done.violations == [], case.name
        for file in ("_jobs.csv", "_users.csv", "_submitted.json"):
            first, second = (Path(f"{each.prefix}{file}").read_bytes() for each in (done, again))
            assert first == second, (case.name, file)


def test_whatever_a_user_wants_is_done_or_given_up() -> None:
    found = set()
    for case in CASES:
        users = users_of_case(case)
        beside = Reacting(make_scheduler("fqops").scheduler, users)
        simulate(beside, users.no_jobs(), make_cluster(case.hosts), events=case.events)
        found |= {wish.outcome for wish in beside.wishes}
        assert {wish.user for wish in beside.wishes} == {user.name for user in users.users}
    assert found == {DONE, LEFT, ELSEWHERE}


def test_users_submit_all_jobs() -> None:
    case = next(each for each in CASES if each.name == "one job")
    beside = Reacting(make_scheduler("fcfs").scheduler, users_of_case(case))
    with pytest.raises(InputError, match="contract case has 1 jobs; users who react submit all"):
        simulate(beside, case.workload, make_cluster(case.hosts))
