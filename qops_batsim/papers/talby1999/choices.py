"""What the reproduction of Talby and Feitelson (1999) chose where the paper leaves a choice."""

CHOICES = {
    "machine": "128 processors, as in the paper; the log's own machine has 100",
    "months": "of the log's site, each simulated by itself from an empty machine; jobs that "
    "were submitted and ended in the same month. So the months have nearly as many jobs as the "
    "paper's, 28,232 instead of about 28,284; run times of 0 s are 1 s",
    "estimates": "the users'; jobs that exceed them are killed",
    "early ends": "noticed at the next arrival or beginning of a time slot of the plan, which "
    "the paper's September shows; at once in a usual simulator",
    "removal": "waiting jobs are moved up one by one in order of their starts (compression), "
    "and a start gained so is a promise like any other: only so is a slack factor of 0 "
    "conservative backfilling, as section 4.8 says. The improvements of all four readings were "
    "known when this one was chosen; they are in a table",
    "average wait": "2401 s for all months, the paper's, except where it is said",
    "preferred jobs": "every fifth of a month by submission: the 5th, the 10th, ...",
    "intervals": "95 % (Student) over the months",
}

PROCESSORS = 128
"""The paper's machine; the log's own has 100."""
