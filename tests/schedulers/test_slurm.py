"""``slurm``: hand-drawn schedules, naive rules, and windows that the real slurmctld has run."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from qops_batsim import InputError, Job, Slurm, simulate
from qops_batsim.core import HostSet
from qops_batsim.core.host_bits import HostBits
from qops_batsim.engine import ExternalEvent, maintenance_events
from qops_batsim.engine.embedded_manager import EmbeddedManager
from qops_batsim.engine.wait_heap import Turns
from qops_batsim.jobs import REJECTED
from qops_batsim.platform import make_cluster
from qops_batsim.protocol import make_scheduler
from qops_batsim.schedulers.slurm.fair_share import FairTree
from qops_batsim.schedulers.slurm.slurm_options import SlurmOptions
from qops_batsim.workload import Workload, delay_profile
from support import slurm_oracle
from support.slurm_judge import WINDOWS, agreement
from support.slurm_oracle import Machine, Wish

RECORDINGS = Path(__file__).parent / "slurm_windows"

NOTHING: dict[str, Any] = {
    f"weight_{each}": 0 for each in ("age", "size", "partition", "qos", "fairshare")
}
"""No priorities: first come, first served, with backfilling."""

FAST: dict[str, Any] = {**NOTHING, "bf_interval": 1.0, "bf_resolution": 1.0}

Row = tuple[float, int, float, float, dict[str, Any]]
"""Submission, processors, run time, requested time (s), further fields."""


def starts(
    machine: int,
    rows: Sequence[Row],
    events: Sequence[ExternalEvent] = (),
    scheduler: Any = "slurm",
    **options: Any,
) -> list[float]:
    """Run jobs and return their starts, NaN for a rejected one."""
    jobs, profiles = [], {}
    for index, (submission, processors, run_time, requested, fields) in enumerate(rows):
        name, profiles[name] = delay_profile(run_time)
        row = {"id": f"{index:04d}", "subtime": submission, "res": processors, "profile": name}
        jobs.append(Job.from_fields({**row, "walltime": requested, **fields}, where="row"))
    workload = Workload(jobs=jobs, profiles=profiles, processors=machine)
    told = {**FAST, **options}
    cluster = make_cluster(machine)
    ended = simulate(scheduler, workload, cluster, told, events=events or None).ended
    found = {each.local_id: math.nan if each.state == REJECTED else each.start for each in ended}
    return [found[job.id] for job in jobs]


def test_a_later_job_starts_if_it_delays_none_before_it() -> None:
    # 1 waits for 0, which asks for time until 100. 2 asks for time until 99; 3 until 100, and that
    # is too long: a slot of the map has to end before the next one.
    #
    # |00000000001111133
    # |000000000011111
    # |  22222   11111
    rows: list[Row] = [(0, 2, 10, 100, {}), (1, 3, 5, 9, {}), (2, 1, 5, 97, {}), (2, 1, 2, 98, {})]
    assert starts(3, rows) == [0, 10, 2, 15]


def test_running_jobs_that_end_soon_after_each_other_count_as_ending_together() -> None:
    # 2 could start at 100, but 0 and 1 end within 30 s: so it is planned for 110, and 3 fits.
    rows: list[Row] = [
        (0, 1, 90, 100, {}),
        (0, 1, 95, 110, {}),
        (1, 2, 5, 9, {}),
        (2, 1, 5, 108, {}),
    ]
    assert starts(3, rows) == [0, 0, 90, 2]


def ending_apart(last: float) -> list[Row]:
    """Return four jobs, of which the first two have to end by 100 and at a later date."""
    return [(0, 1, 90, 100, {}), (0, 1, 95, last, {}), (1, 2, 5, 9, {}), (2, 1, 5, 128, {})]


# The window of ends is up to 30 s longer than the half minute in which the first one is: until 150.
#
# By 151, hosts are kept for 2 from 100 on, which 3 would need until 130 (a letter is 5 s).
#
# by 150: |0000000000000000002    by 151: |0000000000000000002
#         |1111111111111111111            |11111111111111111113
#         |33                2            |                  2
@pytest.mark.parametrize(("last", "expected"), [(150, [0, 0, 90, 2]), (151, [0, 0, 90, 95])])
def test_ends_are_together_for_half_a_minute(last: float, expected: list[float]) -> None:
    assert starts(3, ending_apart(last)) == expected


def test_the_second_window_of_ends_is_twice_as_long() -> None:
    # The first end is at 100: ends up to 150 are one, then those up to 180. 3 needs one of these
    # as well and is planned for 180, not for 200; that keeps 4 from the free host until 190.
    rows: list[Row] = [
        *((0, 1, 90, end, {}) for end in (100, 180, 200)),
        (1, 3, 5, 9, {}),
        (2, 1, 5, 188, {}),
    ]
    assert starts(4, rows) == [0, 0, 0, 90, 90]


def test_the_defaults_are_those_of_slurm() -> None:
    options, day = SlurmOptions(), 86_400.0
    assert (options.half_life, options.max_age, options.calc_period) == (7 * day, 7 * day, 300.0)
    assert (options.bf_interval, options.bf_resolution, options.bf_window) == (30.0, 60.0, day)
    assert options.bf_max_job_test == 500


@pytest.mark.parametrize(("arrival", "expected"), [(0.0, 0.0), (0.5, 50.0)])
def test_a_job_may_end_just_when_maintenance_begins(arrival: float, expected: float) -> None:
    """Slurm's clock has whole seconds, the job's end counts from its real start."""
    windows = maintenance_events(0.0, HostSet.first(2), 30.0, 50.0)
    assert starts(2, [(arrival, 2, 5, 30, {})], windows) == [expected]


def test_backfilling_waits_for_its_interval() -> None:
    # The main pass stops at 1. Passes of backfilling: at 1, when 1 comes, then at 31.
    rows: list[Row] = [(0, 2, 50, 100, {}), (1, 3, 5, 9, {}), (2, 1, 5, 20, {})]
    assert starts(3, rows, bf_interval=30.0) == [0, 50, 31]


def test_beyond_the_window_nothing_is_kept() -> None:
    # 1 is planned for 100; with a window of 60 s it is not, and 2 delays it.
    rows: list[Row] = [(0, 2, 100, 100, {}), (1, 3, 5, 9, {}), (2, 1, 150, 160, {})]
    assert starts(3, rows) == [0, 100, 105]
    assert starts(3, rows, bf_window=60.0) == [0, 152, 2]


def test_only_the_first_jobs_are_tried() -> None:
    rows: list[Row] = [(0, 2, 50, 100, {}), (1, 3, 5, 9, {}), (2, 1, 5, 20, {})]
    assert starts(3, rows, bf_max_job_test=1) == [0, 50, 55]


def test_the_order_is_that_of_priorities() -> None:
    rows: list[Row] = [(0, 4, 10, 20, {}), (1, 3, 5, 9, {"queue": "long"}), (2, 4, 5, 9, {})]
    assert starts(4, rows) == [0, 10, 15]
    assert starts(4, rows, weight_size=100) == [0, 15, 10]
    assert starts(4, rows, weight_size=100, favor_small=True) == [0, 10, 15]
    more = {"partitions": {"long": 1.0, "short": 4.0}}
    assert starts(4, rows, weight_size=100, weight_partition=100, **more) == [0, 15, 10]
    qos = {"urgent": {"priority": 9.0}}
    urgent: list[Row] = [rows[0], rows[1], (2, 3, 5, 9, {"qos_name": "urgent"})]
    assert starts(4, urgent, weight_qos=10, qos=qos) == [0, 15, 10]


def test_a_qos_counts_by_its_part_of_the_dearest() -> None:
    # 2 of 8 are 250 of 1000 points: more than a sixth of the machine, less than a third.
    qos = {"good": {"priority": 2.0}, "best": {"priority": 8.0}}
    for processors, expected in ((2, [0, 15, 10]), (4, [0, 10, 15])):
        rows: list[Row] = [
            (0, 12, 10, 20, {}),
            (1, processors, 5, 9, {"queue": "a"}),
            (2, 12, 5, 9, {"qos_name": "good", "queue": "b"}),
        ]
        # All of the machine would count 1000 by itself, which its partition takes away.
        more = {"partitions": {"a": 2.0, "b": 1.0}, "weight_partition": 2000}
        assert starts(12, rows, weight_size=1000, weight_qos=1000, qos=qos, **more) == expected


def test_age_is_counted_each_period() -> None:
    # 1 is older by 50 s, which counts 1000 from 60 on; that 2 is larger counts 1025, or 975.
    rows: list[Row] = [(0, 4, 70, 80, {}), (1, 3, 5, 9, {}), (51, 4, 5, 9, {})]
    of_both = {"weight_size": 4100, "weight_age": 100_000, "max_age": 5000.0}
    assert starts(4, rows, calc_period=60.0, **of_both) == [0, 75, 70]
    assert starts(4, rows, calc_period=60.0, **(of_both | {"weight_size": 3900})) == [0, 70, 75]


def test_who_has_used_less_is_first() -> None:
    # a has used the machine for 70 s; b asked for it after a did, and gets it first.
    a, b = {"user": "a", "group": "x"}, {"user": "b", "group": "x"}
    rows: list[Row] = [(0, 2, 70, 80, a), (1, 2, 5, 9, a), (2, 2, 5, 9, b)]
    shares = {"x/a": 1.0, "x/b": 1.0}
    assert starts(2, rows, weight_fairshare=10, calc_period=60.0, shares=shares) == [0, 75, 70]


def test_an_account_without_shares_has_one() -> None:
    # Both have used as much; with a share more, x is owed more than y.
    x, y = {"user": "a", "group": "x"}, {"user": "b", "group": "y"}
    rows: list[Row] = [
        *((0, 1, 70, 80, user) for user in (x, y)),
        *((1, 2, 5, 9, user) for user in (y, x)),
    ]
    of_both = {"weight_fairshare": 10, "calc_period": 60.0}
    assert starts(2, rows, shares={"y": 1.0}, **of_both)[2:] == [70, 75]
    assert starts(2, rows, shares={"y": 0.95}, **of_both)[2:] == [75, 70]


def test_jobs_above_a_limit_are_passed_over() -> None:
    a, b = {"user": "a"}, {"user": "b"}
    rows: list[Row] = [(0, 1, 10, 20, a), (1, 1, 5, 9, a), (2, 2, 5, 9, b)]
    assert starts(4, rows) == [0, 1, 2]
    assert starts(4, rows, max_jobs_per_user=1) == [0, 10, 2]
    refused = starts(4, rows, max_processors_per_user=1)  # No more than 1 at once: never 2.
    assert refused[:2] == [0, 10]
    assert math.isnan(refused[2])
    qos = {"small": {"max_processors": 2}}
    small: list[Row] = [(0, 1, 10, 20, a), *((1, 1, 5, 9, {"qos_name": "small"}) for _ in range(3))]
    assert starts(4, small, qos=qos) == [0, 1, 1, 6]


def test_jobs_that_could_miss_their_deadline_are_cancelled() -> None:
    # 1 asks for 9 s and has to end by 15: at 7 it is too late, although its 3 s are not.
    # 2 is refused at submission.
    def by(date: float) -> dict[str, Any]:
        return {"qos": {"deadline": date}}

    rows: list[Row] = [(0, 2, 10, 20, {}), (1, 2, 3, 9, by(15)), (2, 2, 3, 9, by(10.5))]
    ended = starts(2, rows)
    assert ended[0] == 0
    assert all(math.isnan(each) for each in ended[1:])
    assert starts(2, rows, deadlines=False) == [0, 10, 13]


def test_a_late_job_is_cancelled_by_the_next_pass_even_if_nothing_happens() -> None:
    rows: list[Row] = [(0, 2, 100, 200, {}), (1, 2, 3, 9, {"qos": {"deadline": 15.0}})]
    workload = Workload(
        jobs=[
            Job("a", 0.0, 2, "p", 200.0),
            Job.from_fields(
                {"id": "b", "subtime": 1, "res": 2, "profile": "p", "walltime": 9.0, **rows[1][4]},
                where="row",
            ),
        ],
        profiles={"p": {"type": "delay", "delay": 100}},
        processors=2,
    )
    module = make_scheduler("slurm", {**FAST, "bf_interval": 4.0})
    simulate(module, workload, make_cluster(2))
    (refusal,) = module.qos_log.record("w0!b").reasons
    assert refusal.time_left == 15 - 9  # Passes at 1, 5 and 9; from 7 on it is too late.


def naive_choice(hosts: set[int], wanted: int) -> set[int]:
    """Return hosts as Slurm chooses neighbours: the tightest fit, else the most."""
    chosen: set[int] = set()
    while len(chosen) < wanted:
        left, missing = hosts - chosen, wanted - len(chosen)
        runs = []
        for host in sorted(left):
            if runs and runs[-1][-1] == host - 1:
                runs[-1].append(host)
            else:
                runs.append([host])
        enough = [run for run in runs if len(run) >= missing]
        best = min(enough, key=len) if enough else max(runs, key=len)
        chosen |= set(best[:missing])
    return chosen


def begun(hosts: int, options: SlurmOptions | None = None) -> Slurm:
    """Return a scheduler on an idle machine."""
    scheduler = Slurm(options)
    scheduler.begin(EmbeddedManager(hosts, 9, Turns()))
    return scheduler


@pytest.mark.parametrize("seed", range(20))
def test_hosts_are_the_best_fit_of_neighbours(seed: int) -> None:
    rng = random.Random(seed)
    scheduler = begun(150)
    hosts = {host for host in range(150) if rng.random() < 0.7}
    wanted = rng.randint(1, len(hosts))
    scheduler.choose(HostBits.of(HostSet.of(hosts).mask, 150), wanted)
    assert set(HostSet(scheduler.chosen.mask())) == naive_choice(hosts, wanted)


def naive_factors(users: list[tuple[int, float, float]], accounts: list[float]) -> list[float]:
    """Return the fair-share factors of users (account, shares, usage), as Slurm's documentation
    has Fair Tree, with its user root, and without merging accounts that are level."""
    count, factors = len(users) + 1, [0.0] * len(users)
    state = {"rank": count, "next": count - 1}

    def level(shares: float, all_shares: float, usage: float, all_usage: float) -> float:
        if not shares:
            return 0.0
        return math.inf if not usage * all_usage else shares / all_shares / (usage / all_usage)

    used = [sum(usage for of, _, usage in users if of == at) for at in range(len(accounts))]
    levels = [level(own, sum(accounts) + 1, used[at], sum(used)) for at, own in enumerate(accounts)]
    before = math.inf
    for account in sorted(range(len(accounts)), key=lambda at: (-levels[at], at)):
        tied, before = levels[account] == before, levels[account]
        members = [at for at, user in enumerate(users) if user[0] == account]
        total = sum(users[at][1] for at in members)
        found = {at: level(users[at][1], total, users[at][2], used[account]) for at in members}
        last = None
        for at in sorted(members, key=lambda at: (-found[at], at)):
            if not (tied or found[at] == last):
                state["rank"] = state["next"]
            tied, last = False, found[at]
            factors[at] = state["rank"] / count
            state["next"] -= 1
    return factors


@pytest.mark.parametrize("seed", range(30))
def test_fair_share_is_that_of_the_tree(seed: int) -> None:
    rng = random.Random(seed)
    accounts = [rng.choice([0.0, 1.0, 1.0, 2.0]) for _ in range(rng.randint(1, 4))]
    places = [*range(len(accounts)), *(rng.randrange(len(accounts)) for _ in range(8))]
    users = [(at, rng.choice([0.0, 1.0, 1.0, 3.0]), rng.choice([0.0, 5.0, 5.0, rng.random()]))
             for at in places]  # fmt: skip
    shares = {f"g{at}": own for at, own in enumerate(accounts)}
    shares |= {f"g{account}/u{at}": own for at, (account, own, _) in enumerate(users)}
    tree = FairTree(shares)
    for at, (account, _, usage) in enumerate(users):
        tree.user(f"g{account}", f"u{at}").usage = usage
    tree.set_factors()
    found = [user.factor for user in tree.users]
    assert found == pytest.approx(naive_factors(users, accounts))


def hosts_in(bits: HostBits) -> set[int]:
    return set(HostSet(bits.mask()))


def machine_of(slurm: Slurm) -> tuple[Machine, list[Wish]]:
    """Return the state of the scheduler as the oracle has it, and the waiting jobs in order."""
    quotas = [*slurm.quotas.values(), slurm.no_quota, slurm.of_all]
    every, used, limits = len(quotas) - 1, {}, {}
    for number, quota in enumerate(quotas):
        limits["jobs per user", number] = quota.most_user_jobs
        limits["processors per user", number] = quota.most_user_processors
        limits["jobs", number], limits["processors", number] = (
            quota.most_jobs,
            quota.most_processors,
        )
        used["jobs", number, -1], used["processors", number, -1] = quota.jobs, quota.processors
        for user in slurm.tree.users:
            used["jobs", number, user.number] = quota.user_jobs.get(user.number, 0)
            processors = quota.user_processors.get(user.number, 0)
            used["processors", number, user.number] = processors
    running = [(each.end, each.number, hosts_in(each.hosts)) for each in slurm.active]
    line = [
        Wish(
            entry.number,
            entry.job.processors,
            entry.requested,
            entry.job.deadline,
            tuple((entry.user.number, at) for at in (quotas.index(entry.quota), every)),
        )
        for entry in slurm.entries
    ]
    free, there = hosts_in(slurm.free_hosts), hosts_in(slurm.there)
    return Machine(free, there, running, used, limits, naive_choice, slurm.cancels), line


PASSES: list[dict[str, Any]] = [
    {},
    {"bf_resolution": 7.0, "bf_interval": 5.0},
    {"bf_window": 60.0, "bf_resolution": 20.0, "bf_max_job_test": 4},
    {"max_jobs_per_user": 3, "weight_age": 1000, "calc_period": 10.0},
    {
        "max_processors_per_user": 5,
        "weight_qos": 100,
        "qos": {"q": {"priority": 2, "max_jobs_per_user": 2}, "r": {"max_processors": 4}},
    },
    {"deadlines": False, "weight_size": 50},
]


@pytest.mark.parametrize("options", PASSES, ids=["plain", "coarse", "near", "jobs", "qos", "size"])
def test_both_passes_are_those_of_the_oracle(options: dict[str, Any]) -> None:
    """Whatever state the passes begin with in random runs, they decide what the oracle decides."""
    did: Counter[str] = Counter()

    class Checked(Slurm):
        def main_pass(self, now: float) -> None:
            machine, line = machine_of(self)
            before = len(self.starting), len(self.late)
            super().main_pass(now)
            slurm_oracle.main_pass(now, machine, line)
            self.compare("main_pass", machine, *before)

        def backfill_pass(self, now: float) -> None:
            machine, line = machine_of(self)
            before = len(self.starting), len(self.late)
            super().backfill_pass(now)
            told = self.window, self.resolution, self.most_tests
            slurm_oracle.backfill_pass(now, *told, machine, line)
            self.compare("backfill_pass", machine, *before)

        def compare(self, name: str, machine: Machine, starting: int, late: int) -> None:
            started = [(each.number, hosts_in(each.hosts)) for each in self.starting[starting:]]
            cancelled = [each.number for each in self.late[late:]]
            assert (started, cancelled) == (machine.started, machine.cancelled)
            did.update({f"{name} starts": len(started), f"{name} cancels": len(cancelled)})

    for seed in range(6):
        rng = random.Random(f"{seed} passes")
        hosts, now, rows = rng.choice([3, 6, 9]), 0.0, list[Row]()
        for _ in range(30):
            now += rng.choice([0, 0, 1, 3, 8])
            asked = rng.randint(5, 90)
            ran = asked if rng.random() < 0.3 else rng.randint(1, asked)
            fields: dict[str, Any] = {"user": rng.choice("abc"), "qos_name": rng.choice("qrs")}
            if rng.random() < 0.5:
                fields["qos"] = {"deadline": now + asked * rng.choice([1, 1.5, 3])}
            rows.append((now, rng.randint(1, hosts), ran, asked, fields))
        starts(hosts, rows, scheduler=Checked, **options)
    # Random jobs hardly ever end just where a window of ends does.
    for last in (150, 151):
        starts(3, ending_apart(last), scheduler=Checked, **options)
    assert min(did["main_pass starts"], did["backfill_pass starts"]) > 20
    assert sum(each for what, each in did.items() if "cancels" in what) > 5 or not options.get(
        "deadlines", True
    )


def test_unknown_names_of_shares_are_refused() -> None:
    with pytest.raises(
        InputError, match="option shares names 'a/b/c'; names of the form ACCOUNT or"
    ):
        make_scheduler("slurm", {"shares": {"a/b/c": 1.0}})


@pytest.mark.parametrize("window", WINDOWS, ids=[window.name for window in WINDOWS])
def test_the_real_slurmctld_starts_jobs_in_the_same_order(window: Any) -> None:
    path = RECORDINGS / f"{window.name}.json"
    found = agreement(window, json.loads(path.read_text()))
    assert found.in_order >= LEAST.get(window.name, 0.95) * found.ran
    assert found.same_fate >= 0.95 * found.jobs


LEAST: dict[str, float] = {}


def test_many_periods_of_the_same_running_jobs_are_a_series() -> None:
    ends = []
    for at_once in (False, True):
        slurm = begun(4, SlurmOptions(half_life=5000.0, calc_period=10.0))
        for name, processors, usage in (("a", 3, 3e5), ("b", 1, 70.0)):
            fields = {"id": name, "subtime": 0, "res": processors, "profile": "p", "user": name}
            entry = slurm.entry_of(Job.from_fields(fields, where="here"))
            entry.user.usage = usage
            slurm.run(entry, 0.0)
        if at_once:
            slurm.fade_often(1500.0, 15000.0)
        else:
            for period in range(1500):
                slurm.fade(10.0 * period, 10.0 * period + 10.0)
        users, active = slurm.tree.users, slurm.active
        ends.append(([user.usage for user in users], [entry.since for entry in active]))
    assert ends[1][0] == pytest.approx(ends[0][0], rel=1e-12)
    assert ends[1][1] == ends[0][1] == [15000.0, 15000.0]


def test_a_job_that_runs_for_ages_ends() -> None:
    a, b = {"user": "a", "group": "x"}, {"user": "b", "group": "x"}
    rows: list[Row] = [(0, 1, 1e9, 2e9, a), (9e8, 1, 5, 9, b)]
    assert starts(2, rows, weight_fairshare=10, calc_period=1.0) == [0, 9e8]
