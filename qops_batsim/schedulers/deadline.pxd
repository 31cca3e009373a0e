cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.core.plan cimport Plan
from qops_batsim.core.profile cimport Profile
from qops_batsim.core.scheduler cimport ResourceManager
from qops_batsim.schedulers.planning cimport PlanScheduler
from qops_batsim.timing cimport end_of, on_grid

cdef double _INFINITY, _DEADLINE_TOLERANCE
cdef int _RUNNING, _OVER

cpdef bint has_own_promise(Job job)

cpdef bint meets(double start, double duration, double target) noexcept

cpdef double deadline_key(Job job, bint by_laxity) noexcept

@cython.locals(job=Job, earlier=Job)
cpdef lift(list jobs, Py_ssize_t place, Py_ssize_t to)

cdef class DeadlineScheduler(PlanScheduler):
    cdef readonly Profile running, base, draft
    cdef readonly list order
    cdef bint has_profile, has_search, is_own
    cdef double most_hours
    cpdef begin(self, ResourceManager manager)
    cpdef decide(self)
    cpdef reserve_start(self, Job job)
    cpdef answer(self, Job job)
    cpdef attempt(self, Job job)
    cpdef admit(self, Job job)
    @cython.locals(plan=Plan, kept=Profile, place=Py_ssize_t, each=Job, given_from=double, given_until=double)
    cpdef try_admission(self, Job job)
    cpdef admit_found(self, Job job)
    @cython.locals(plan=Plan, left=double)
    cpdef why_impossible(self, Job job)
    @cython.locals(plan=Plan, each=Job, held=double, left=double, work=double, most=double)
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
