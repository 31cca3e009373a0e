"""What the reproduction of Pascal et al. (2004) chose where the paper leaves a choice."""

from qops_batsim.papers.pascal2004.cases import Study

QUICK = Study(sizes=(10_000,), together=False)
FULL = Study(sizes=(10_000, 35_000), alone=(21_752,), seeds=(1, 2, 3, 4, 5), candidates=(0, 2, 64))
"""The first 21,752 usable jobs were submitted within 249 days, as the paper's 35,000 were."""

CHOICES = {
    "applications": "a job of n processors is an application of n tasks without communication. "
    "Table 1: they start together, alone on their hosts. Table 2: each task starts and progresses "
    "by itself, several may share a host, and the wait is that of the last to start; with tasks "
    "that progress together, as parts of one Batsim job, the same is shown for the real queues",
    "hosts": "128 equal hosts of one processor; memory unknown, so the weight M_f has no effect",
    "requested CPU time": "the run time, cut to the requested time, known exactly to AROMA; the "
    "log's CPU time field where it has one is reported beside it (4,347 of 4,606 simulated jobs)",
    "jobs": "jobs that ran; those cancelled before (355 of the first 4,961) are left out",
    "queues": "drawn with the mix of the first 4,961 jobs (normal 2,765, low 867, express 662, "
    "high 602, standby 65) where the rebuilt log lacks them, whatever a job's size and length",
    "classes": "low and standby: best_effort, normal: deadline, high: dedicated, express: "
    "high_priority; the paper does not mention standby",
    "as recorded": "the log's own waits; only the first 4,961 jobs have them here, so the paper's "
    "column NQS for 10,000 and 35,000 jobs cannot be computed again",
    "our NQS": "queues by name and requested time (limits 1, 4, 12, 18 h), first come first served "
    "in each, no reservations, no run limits; the site's own configuration is not known",
    "mapping time": "processor time of mapping one application, measured around the scheduler's "
    "search; the paper's is of a computer of 2004",
    "waiting time": "start - submission of applications that were not rejected",
}
