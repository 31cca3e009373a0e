"""The public contract test: our schedulers pass it, broken ones do not."""

from __future__ import annotations

import pytest

from qops_batsim import check_scheduler
from qops_batsim.errors import InputError
from qops_batsim.jobs import Job
from qops_batsim.platform.hostset import HostSet
from qops_batsim.protocol.decisions import ExecuteJob
from qops_batsim.running.contract import SchedulerContractError
from qops_batsim.scheduling.fcfs import Fcfs
from qops_batsim.scheduling.module import DecisionModule
from qops_batsim.scheduling.registry import make_scheduler, scheduler_names
from qops_batsim.scheduling.space_sharing import SpaceSharingScheduler


@pytest.mark.parametrize("name", scheduler_names())
def test_every_registered_scheduler_keeps_the_contract(name: str) -> None:
    assert check_scheduler(name) == 18


def test_conservative_keeps_it_with_processors_as_well() -> None:
    assert check_scheduler(lambda: make_scheduler("conservative", {"reserve": "processors"})) == 18


def test_an_unknown_name_is_an_input_error() -> None:
    with pytest.raises(InputError, match="unknown scheduler"):
        check_scheduler("nobody")


class Forgetful(Fcfs):
    """Never starts the second job."""

    def arrived(self, job: Job) -> None:
        if not job.id.endswith("!1"):
            super().arrived(job)


class Greedy(SpaceSharingScheduler):
    """Starts every job on the same hosts at once."""

    def arrived(self, job: Job) -> None:
        self._decisions.append(ExecuteJob(job.id, HostSet.first(job.processors)))

    def left(self, job_id: str) -> None:
        pass

    def schedule(self, now: float) -> None:
        pass


class Moody(Fcfs):
    """Takes the lowest hosts in one run and the highest in the next."""

    runs = 0

    def begin(self, system: object) -> None:
        super().begin(system)  # type: ignore[arg-type]
        type(self).runs += 1

    def start(self, job: Job, hosts: HostSet | None = None) -> None:
        if type(self).runs % 2:
            hosts = HostSet.of(sorted(self.free_hosts, reverse=True)[: job.processors])
        super().start(job, hosts)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Forgetful, "case 'equal arrivals': .*deadlock"),
        (Greedy, "case 'equal arrivals': .*it is computing"),
        (Moody, "case 'one job': two runs differ on the same input"),
    ],
)
def test_broken_schedulers_are_found(kind: type[DecisionModule], message: str) -> None:
    with pytest.raises(SchedulerContractError, match=message):
        check_scheduler(kind)
