"""Whether the summaries of a long queue match its jobs."""

from __future__ import annotations

import math

from qops_batsim.core import WAITING
from qops_batsim.schedulers.queue_scheduler import BLOCK, Queue, width_of

WIDTHS = 16
NO_WIDTH = 2**62


def check_queue(queue: Queue) -> None:
    counted = queue.jobs[: queue.summarized]
    for place, job in enumerate(counted):
        if job.phase == WAITING:
            assert (queue.widths[place], queue.durations[place]) == (job.processors, job.duration)
        else:
            assert queue.widths[place] == NO_WIDTH
    for block, first in enumerate(range(0, len(counted), BLOCK)):
        jobs = [job for job in counted[first : first + BLOCK] if job.phase == WAITING]
        assert queue.narrowest[block] == min((job.processors for job in jobs), default=NO_WIDTH)
        for width in range(WIDTHS):
            fitting = [job.duration for job in jobs if width_of(job.processors) <= width]
            assert queue.shortest[block * WIDTHS + width] == min(fitting, default=math.inf)
