cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.core.plan cimport Plan
from qops_batsim.core.profile cimport Profile
from qops_batsim.core.scheduler cimport ResourceManager
from qops_batsim.schedulers.planning cimport PlanScheduler
from qops_batsim.timing cimport end_of, on_grid

cdef double _INFINITY, DEADLINE_TOLERANCE
cdef int RUNNING, OVER

cpdef bint has_own_promise(Job job)

cpdef bint meets(double start, double duration, double target) noexcept

@cython.locals(job=Job, earlier=Job)
cpdef lift(list jobs, Py_ssize_t place, Py_ssize_t to)

cdef class DeadlineScheduler(PlanScheduler):
    # A search: draft and order are the plan that it has found, with starts in job.trial
    cdef readonly Profile running  # what running jobs leave free; built where has_profile
    cdef readonly Profile base, draft
    cdef readonly list order
    cdef public dict failures  # None unless it is only asked about
    cdef bint has_profile  # at this decision's date, and no start was promised since

    cdef bint has_search  # a subclass overrides try_admission()
    cdef bint is_own  # a user's class, whose changes of our lists are looked for
    cdef double most_hours  # of the whole machine, promised to one holder; infinite: no limit

    cpdef begin(self, ResourceManager manager)
    cpdef decide(self)
    cpdef reserve_start(self, Job job)
    cpdef answer(self, Job job)
    cpdef attempt(self, Job job)
    cpdef admit(self, Job job)
    @cython.locals(plan=Plan, profile=Profile, place=Py_ssize_t, planned=Job, given_from=double, given_until=double)
    cpdef try_admission(self, Job job)
    cpdef admit_found(self, Job job)
    @cython.locals(plan=Plan, left=double)
    cpdef why_impossible(self, Job job)
    @cython.locals(plan=Plan, other=Job, held=double, left=double, work=double, most=double)
    cpdef why_limited(self, Job job)
    @cython.locals(now=double)
    cpdef prepare(self)
    @cython.locals(plan=Plan)
    cpdef adopt(self)
    cdef checked_refusal(self, object answer)
    @cython.locals(waiting=list, place=Py_ssize_t, earlier=Job, later=Job, is_changed=bint)
    cdef check_plan(self, list before, object refusal)
    @cython.locals(waiting=Job)
    cpdef check_admitted(self, Job job)
