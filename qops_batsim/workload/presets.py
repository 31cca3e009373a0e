"""Parameters of the synthetic workloads: the published ones, and three fitted to real logs.

The numbers of ``ctc-sp2``, ``sdsc-sp2`` and ``kth-sp2`` were printed by

    python benchmarks/fit_presets.py ../shared/traces

from the logs CTC-SP2-1996 (77,199 jobs), SDSC-SP2-1998 (54,006 jobs) and KTH-SP2-1996
(28,489 jobs) of the Parallel Workloads Archive. How, and how well they fit, is told in
``docs/synthetic-workloads.md``. Those of ``lublin-batch`` are the batch parameters that
Lublin and Feitelson publish with their model (2003).
"""

from __future__ import annotations

import msgspec

from qops_batsim.errors import InputError, did_you_mean
from qops_batsim.workload.estimates import EstimateModel
from qops_batsim.workload.lublin import ArrivalModel, LublinModel, RunTimeModel, SizeModel


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """A named set of parameters.

    Attributes
    ----------
    model
        Sizes, run times and arrivals.
    estimates
        What users request.
    offered_load
        Offered load of the log, which generated workloads get unless another is asked
        for. None: the load is as sampled.
    """

    model: LublinModel
    estimates: EstimateModel
    offered_load: float | None = None


def find_preset(name: str) -> Preset:
    """Return a preset by name.

    Raises
    ------
    InputError
        No preset has that name.
    """
    if name not in PRESETS:
        raise InputError(f"preset is {name!r}, which is not known{did_you_mean(name, PRESETS)}")
    return PRESETS[name]


# Two days of run time and five of gap are the limits of the published program,
# exp(12) and exp(13) seconds. Its gaps describe the rush hours; a factor on their
# shape (1.0519) makes them those of the whole day. The model says nothing about
# estimates: these are the round values that users like, equally often, and a killed
# share as in the three logs below.
_LUBLIN_BATCH = Preset(
    model=LublinModel(
        processors=128,
        sizes=SizeModel(
            serial_share=0.2927,
            power_of_two_share=0.6686,
            smallest_log2=1.2,
            middle_log2=5.0,
            largest_log2=7.0,
            lower_stage_share=0.875,
        ),
        run_times=RunTimeModel(
            short_shape=6.57,
            short_scale=0.823,
            long_shape=639.1,
            long_scale=0.0156,
            short_share_slope=-0.003,
            short_share_base=0.6986,
            longest=162_754,
        ),
        arrivals=ArrivalModel(
            gap_shape=6.0415 * 1.0519,
            gap_scale=0.8531,
            longest_gap=442_413.0,
            cycle_shape=6.1271,
            cycle_scale=5.2740,
        ),
    ),
    estimates=EstimateModel(
        table=tuple(
            (minutes * 60, 1.0, 0.1)
            for minutes in (5, 10, 15, 30, 60, 120, 240, 360, 480, 720, 1080, 1440, 2880)
        ),
    ),
)

PRESETS: dict[str, Preset] = {
    "lublin-batch": _LUBLIN_BATCH,
    "ctc-sp2": Preset(
        model=LublinModel(
            processors=338,
            sizes=SizeModel(
                serial_share=0.419643,
                power_of_two_share=0.348815,
                smallest_log2=0.803977,
                middle_log2=5.68655,
                largest_log2=8.40088,
                lower_stage_share=0.95345,
            ),
            run_times=RunTimeModel(
                short_shape=100.981,
                short_scale=0.0433885,
                long_shape=5.34981,
                long_scale=2.61692,
                short_share_slope=-0.00110621,
                short_share_base=0.131122,
                longest=64800,
            ),
            arrivals=ArrivalModel(
                gap_shape=2.3708,
                gap_scale=2.49999,
                longest_gap=3770,
                cycle_shape=6.98657,
                cycle_scale=4.53427,
            ),
        ),
        estimates=EstimateModel(
            table=(
                (300, 0.20935, 0.0211),
                (600, 0.1413, 0.1171),
                (900, 0.19951, 0.3133),
                (1200, 0.03465, 0.1015),
                (1800, 0.06117, 0.0921),
                (3600, 0.06851, 0.1104),
                (5400, 0.0181, 0.0397),
                (7200, 0.0527, 0.1115),
                (10800, 0.04644, 0.1036),
                (14400, 0.02125, 0.1205),
                (17400, 0.0076, 0.0205),
                (18000, 0.00628, 0.1369),
                (21600, 0.03488, 0.2078),
                (28800, 0.01233, 0.0742),
                (36000, 0.01035, 0.0711),
                (43200, 0.00843, 0.0695),
                (54000, 0.00615, 0.0465),
                (57600, 0.00299, 0.0485),
                (61200, 0.00199, 0.0387),
                (64800, 0.05601, 0.8398),
            ),
        ),
        offered_load=0.836,
    ),
    "sdsc-sp2": Preset(
        model=LublinModel(
            processors=128,
            sizes=SizeModel(
                serial_share=0.231122,
                power_of_two_share=0.55369,
                smallest_log2=0.593087,
                middle_log2=4.83286,
                largest_log2=7,
                lower_stage_share=0.868152,
            ),
            run_times=RunTimeModel(
                short_shape=59.4557,
                short_scale=0.0661247,
                long_shape=6.45515,
                long_scale=1.46774,
                short_share_slope=-0.0085479,
                short_share_base=0.335773,
                longest=64800,
            ),
            arrivals=ArrivalModel(
                gap_shape=3.86981,
                gap_scale=1.65109,
                longest_gap=12775,
                cycle_shape=4.91706,
                cycle_scale=6.47089,
            ),
        ),
        estimates=EstimateModel(
            table=(
                (300, 0.22441, 0.0202),
                (600, 0.1414, 0.1324),
                (720, 0.02249, 0.0223),
                (900, 0.04579, 0.132),
                (1200, 0.07926, 0.0716),
                (1800, 0.07025, 0.1076),
                (2700, 0.0255, 0.0867),
                (3600, 0.12334, 0.1554),
                (7200, 0.06424, 0.1532),
                (9000, 0.01199, 0.057),
                (10800, 0.03186, 0.0987),
                (14400, 0.04445, 0.1351),
                (18000, 0.01338, 0.1041),
                (21600, 0.01355, 0.2103),
                (25200, 0.00572, 0.0656),
                (28800, 0.01838, 0.1552),
                (36000, 0.01708, 0.1187),
                (43200, 0.01712, 0.138),
                (54000, 0.00423, 0.0701),
                (64800, 0.02555, 0.5138),
            ),
        ),
        offered_load=0.823,
    ),
    "kth-sp2": Preset(
        model=LublinModel(
            processors=100,
            sizes=SizeModel(
                serial_share=0.328921,
                power_of_two_share=0.27375,
                smallest_log2=0.641615,
                middle_log2=3.64374,
                largest_log2=6.64386,
                lower_stage_share=0.799049,
            ),
            run_times=RunTimeModel(
                short_shape=3.55376,
                short_scale=1.45472,
                long_shape=89.8431,
                long_scale=0.104651,
                short_share_slope=-0.00267884,
                short_share_base=0.688479,
                longest=216000,
            ),
            arrivals=ArrivalModel(
                gap_shape=4.41726,
                gap_scale=1.42284,
                longest_gap=10564,
                cycle_shape=11.1847,
                cycle_scale=2.79101,
            ),
        ),
        estimates=EstimateModel(
            table=(
                (60, 0.17523, 0.0031),
                (120, 0.08905, 0.0181),
                (180, 0.04234, 0.0156),
                (300, 0.21926, 0.0318),
                (600, 0.14694, 0.0617),
                (900, 0.07048, 0.0931),
                (1200, 0.03244, 0.0651),
                (1800, 0.05115, 0.1325),
                (3600, 0.05692, 0.1924),
                (6000, 0.01935, 0.1003),
                (7200, 0.01718, 0.2238),
                (9000, 0.01078, 0.0966),
                (10800, 0.00734, 0.1311),
                (12000, 0.0145, 0.1544),
                (13800, 0.00713, 0.4787),
                (14400, 0.02406, 0.6781),
                (36000, 0.00865, 0.3331),
                (48000, 0.00199, 0.4803),
                (52800, 0.00256, 0.945),
                (53400, 0.00093, 0.9947),
                (54000, 0.00114, 0.7484),
                (216000, 0.0006, 0.72),
            ),
        ),
        offered_load=0.689,
    ),
}
"""All presets by name."""
