cimport cython
from qops_batsim.core.job cimport Job, tried_places
from qops_batsim.core.job_sorting cimport sort_by_key, sort_by_start
from qops_batsim.core.node_request cimport Places
from qops_batsim.core.plan cimport Plan
from qops_batsim.core.profile cimport FitBounds, Profile
from qops_batsim.core.scheduler cimport ResourceManager
from qops_batsim.schedulers.planning cimport PlanScheduler
from qops_batsim.timing cimport duration_on_grid, end_of, on_grid, up_to_grid

cdef double _INFINITY, FOREVER, LEAST_PRIORITY, LEAST_SLACK, PRICE_TOLERANCE
cdef Py_ssize_t LONG
cdef int RUNNING, AST, AAT, DU, DC, DP, EXHAUSTIVE

cdef double power(double base, double exponent) except? -1

cdef class MovePrices:
    cdef double utilization, time, priority, fairness  # weights, which are exponents

    cpdef double of_wait(self, double wait, double size) except? -1
    cpdef double of_killing(self, double size, double estimate) except? -1
    @cython.locals(rate=double, slack=double, used=double)
    cpdef double rate_of(self, Job job, double new_priority) except? -1
    cpdef double of_move(self, double delay, Job job, double rate) except? -1

cdef class Search:
    cdef Plan plan
    cdef readonly MovePrices prices
    cdef public int heuristic  # AST, AAT ...
    cdef Py_ssize_t exhaustive_up_to
    cdef public bint compresses  # without a new job, begins with a compressed plan

    # What is asked: the new job (None: without one), and by when it has to start
    cdef Job new
    cdef double now, latest

    # The search. The base has the running jobs and the waiting ones before the position, the trial
    # all jobs placed so far; bounds are of the profile of the same name, and used if it learns.
    cdef public int order  # the heuristic; AST where there are too many jobs for an exhaustive one
    cdef readonly list waiting  # by planned start; a job's rank is its index
    cdef readonly list line  # the same jobs in the order in which they are placed
    cdef double[::1] rates  # by rank: price of a move, but for the distance
    cdef double[::1] gains  # by rank: the least that its move can cost, at most 0
    cdef double[::1] first_fits  # by rank: no schedule starts the job earlier
    cdef readonly Profile base, trial
    cdef bint learns
    cdef FitBounds base_bounds, bounds

    # The cheapest schedule so far; the profile and starts count if is_changed
    cdef readonly Profile best
    cdef readonly bint is_changed
    cdef readonly Py_ssize_t position  # the waiting jobs from this index on have new starts
    cdef readonly list starts  # by index in waiting
    cdef readonly list places  # likewise, where hosts are shared
    cdef readonly Places new_place  # of the new job, where hosts are shared
    cdef readonly double start, price
    cdef readonly Py_ssize_t moved

    @cython.locals(plan=Plan, job=Job, place=Py_ssize_t, end=double)
    cpdef double reschedule(self, Job new, double priority, double latest, double now, Py_ssize_t fixed, double most) except? -1
    @cython.locals(plan=Plan, base=Profile, position=Py_ssize_t, kept=Py_ssize_t, place=Py_ssize_t, waiting=list, start=double, after=double)
    cpdef find(self, Job new, double priority, double latest, double now, Py_ssize_t fixed)
    cdef keep(self, Job job)
    @cython.locals(start=double)
    cdef double soonest(self, Job job, double after, Profile profile, FitBounds bounds) except? -1
    @cython.locals(rank=Py_ssize_t, job=Job, fit=double, gain=double)
    cdef list_waiting(self, Py_ssize_t fixed, double priority)
    cdef double key_of(self, Job job) except? -1
    @cython.locals(count=Py_ssize_t, new=Job, profile=Profile, price=double)
    cdef stay(self, Py_ssize_t fixed)
    @cython.locals(price=double, best=Profile, now=double, place=Py_ssize_t, job=Job, start=double, starts=list)
    cdef double compress(self, Py_ssize_t fixed) except? -1
    @cython.locals(gain=double, place=Py_ssize_t)
    cdef double most_gain(self, Py_ssize_t position) except? -1
    @cython.locals(price=double, trial=Profile, new=Job, following=Py_ssize_t, tolerance=double, bound=double)
    cdef Py_ssize_t try_orders(self, Py_ssize_t position, double start) except -1
    @cython.locals(waiting=list, line=list, trial=Profile, bounds=FitBounds, count=Py_ssize_t, moved=Py_ssize_t, following=Py_ssize_t, placed=Py_ssize_t, limit=double, hope=double, tolerance=double, bound=double, fit=double, delay=double, place=Py_ssize_t, job=Job)
    cdef Py_ssize_t place_delayed(self, Py_ssize_t position, double start, double price) except -1

cdef class SlackPlan(Plan):
    cdef readonly bint promises_gains
    cdef readonly list promises  # (job, latest start), emptied at the end of each decision

    @cython.locals(job=Job)
    cpdef rebuild(self)
    cdef list planned(self)
    @cython.locals(job=Job, start=double)
    cdef promise_gains(self, list before)

cdef class Slack(PlanScheduler):
    cdef bint only_compresses  # at early ends
    cdef SlackPlan slacks  # the plan, as what it is
    cdef Search search
    cdef object average
    cdef double called_for_first  # last planned start that a call was asked for
    cdef readonly Py_ssize_t unsettled  # planned jobs whose start is not known yet (infinite)

    # Jobs that reach their estimates
    cdef bint watches
    cdef list ticks  # heap of (date, number, job)

    cpdef begin(self, ResourceManager manager)
    cpdef compress(self)
    @cython.locals(count=Py_ssize_t, job=Job)
    cdef Py_ssize_t due(self) except -1
    @cython.locals(plan=Plan, now=double)
    cpdef answer(self, Job job)
    cdef promise(self, Job job, double now)
    @cython.locals(job=Job)
    cdef settled(self, list jobs)
    @cython.locals(plan=Plan, job=Job, promised=double)
    cpdef conclude_decision(self)
    @cython.locals(plan=Plan, job=Job, start=double)
    cdef call_for_first_start(self)
    cpdef note_start(self, Job job)
    cdef watch(self, Job job)
    @cython.locals(plan=Plan, now=double, job=Job, run_time=double, extends=bint, is_first=bint)
    cpdef prepare_decision(self)
    @cython.locals(plan=Plan, now=double, more=double, cost=double, priority=double, fixed=Py_ssize_t, again=Job)
    cdef bint extend(self, Job job) except -1
    cdef kill(self, Job job, double run_time)
