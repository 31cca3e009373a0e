"""What ``scontrol show config`` and ``sprio`` of Slurm 22.05 tell of priorities and backfilling."""

from __future__ import annotations

import pytest

from qops_batsim import InputError, Slurm
from qops_batsim.schedulers.registry import read_options
from qops_batsim.slurm.config import read_slurm_config

CONFIG = """\
Configuration data as of 2026-11-27T23:32:48
PreemptType             = preempt/partition_prio
PriorityParameters      = (null)
PriorityDecayHalfLife   = 7-00:00:00
PriorityCalcPeriod      = 00:05:00
PriorityFavorSmall      = Yes
PriorityFlags           = ACCRUE_ALWAYS
PriorityMaxAge          = 14-00:00:00
PriorityUsageResetPeriod = NONE
PriorityType            = priority/multifactor
PriorityWeightAge       = 500
PriorityWeightAssoc     = 0
PriorityWeightFairShare = 20000
PriorityWeightJobSize   = 100
PriorityWeightPartition = 0
PriorityWeightQOS       = 0
PriorityWeightTRES      = (null)
SchedulerParameters     = bf_interval=60,bf_window=2880,bf_max_job_test=1000,bf_continue
SchedulerType           = sched/backfill
"""
SPRIO = """\
          JOBID PARTITION   PRIORITY       SITE        AGE    JOBSIZE
             41 main              31          0          0         31
           42_3 main              18          0          0         18
"""


def test_a_configuration_is_options_of_slurm() -> None:
    found = read_slurm_config(CONFIG + SPRIO, "config.txt")
    assert found.options == {
        "weight_age": 500,
        "weight_size": 100,
        "weight_partition": 0,
        "weight_qos": 0,
        "weight_fairshare": 20_000,
        "max_age": 14 * 86_400,
        "calc_period": 300,
        "half_life": 7 * 86_400,
        "favor_small": True,
        "bf_interval": 60,
        "bf_window": 2880 * 60,
        "bf_max_job_test": 1000,
    }
    assert read_options("slurm", Slurm, found.options).weight_age == 500
    assert found.lacks == [
        "PriorityFlags=ACCRUE_ALWAYS",
        "PreemptType=preempt/partition_prio",
        "bf_continue",
        "shares and usage of accounts",
    ]
    assert found.priorities == {"41": 31, "42_3": 18}


def test_basic_priorities_are_the_order_of_submission() -> None:
    found = read_slurm_config(CONFIG.replace("multifactor", "basic"), "config.txt")
    assert {found.options[name] for name in found.options if name.startswith("weight")} == {0}
    assert found.priorities == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "config.txt: PriorityType is null; the output of `scontrol show config`"),
        ("PriorityType = priority/mine\n", "PriorityType is 'priority/mine'"),
        (CONFIG.replace("= 500", "= many"), "PriorityWeightAge is 'many'; a number"),
        (
            CONFIG.replace("14-00:00:00", "two weeks"),
            "PriorityMaxAge is 'two weeks'; a time such as",
        ),
        (CONFIG.replace("interval=60", "interval="), "bf_interval is ''; a number"),
        (CONFIG + SPRIO.replace("PRIORITY", "WEIGHT"), "sprio has no column PRIORITY"),
        (CONFIG + SPRIO.replace("31  ", "-", 1), "PRIORITY of job 41 is '-'; a number"),
    ],
)
def test_what_is_no_configuration_is_one_error(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        read_slurm_config(text, "config.txt")
