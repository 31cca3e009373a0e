"""Parameters of the synthetic workloads: the published ones, and three fitted to real logs.

The numbers stand in ``presets.json``. ``benchmarks/fit_presets.py ../shared/traces`` printed those
of ``ctc-sp2``, ``sdsc-sp2`` and ``kth-sp2`` from the logs CTC-SP2-1996 (77,199 jobs),
SDSC-SP2-1998 (54,006) and KTH-SP2-1996 (28,489) of the Parallel Workloads Archive; how, and how
well they fit, is told in ``docs/synthetic-workloads.md``.

Those of ``lublin-batch`` are the batch parameters that Lublin and Feitelson publish with their
model (2003), with the limits of the published program: run times up to exp(12), gaps up to
exp(13) seconds. Its gaps describe the rush hours; a factor on their shape (6.0415 × 1.0519) makes
them those of the whole day. The model says nothing about estimates: these are the round values
that users like, equally often, and a killed share as in the three logs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from qops_batsim.errors import require_one_of
from qops_batsim.workload.estimates import EstimateModel
from qops_batsim.workload.lublin import ArrivalModel, LublinModel, RunTimeModel, SizeModel


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """A named set of parameters: sizes, run times and arrivals, and what users request.

    ``offered_load`` is that of the log, which generated workloads get unless another is asked
    for. None: the load is as sampled.
    """

    model: LublinModel
    estimates: EstimateModel
    offered_load: float | None = None


def find_preset(name: str) -> Preset:
    """Return a preset by name."""
    require_one_of("preset", name, PRESETS)
    return PRESETS[name]


def _preset(data: dict[str, Any]) -> Preset:
    # Numbers stay as they are written: 7 is recorded in a workload as 7, not as 7.0.
    parts = {"sizes": SizeModel, "run_times": RunTimeModel, "arrivals": ArrivalModel}
    models = {name: kind(**data[name]) for name, kind in parts.items()}
    model = LublinModel(processors=data["processors"], **models)
    table = tuple((value, weight, killed) for value, weight, killed in data["estimates"])
    return Preset(
        model=model, estimates=EstimateModel(table=table), offered_load=data["offered_load"]
    )


PRESETS: dict[str, Preset] = {
    name: _preset(data)
    for name, data in json.loads(Path(__file__).with_suffix(".json").read_text("utf-8")).items()
}
"""All presets by name."""
