cimport cython
from qops_batsim.core.host_bits cimport HostBits
from qops_batsim.core.job cimport Job
from qops_batsim.core.plan_log cimport DecisionLog
from qops_batsim.core.profile cimport HostProfile, Profile
from qops_batsim.timing cimport end_of, on_grid

cdef double INFINITY, _NO_DATE, _DEADLINE_TOLERANCE, _GRID_TOLERANCE
cdef int _RUNNING
cdef Py_ssize_t _SHORT, _MOVES

cdef int _BY_ARRIVAL, _BY_START, _BY_KEY

cpdef sort_by_arrival(list jobs)

cpdef sort_by_start(list jobs, Py_ssize_t first)

@cython.locals(job=Job, place=Py_ssize_t, end=Py_ssize_t)
cpdef sort_by_key(list jobs, Py_ssize_t first, Py_ssize_t last)

@cython.locals(one=double, two=double)
cdef bint is_before(Job job, Job other, int order) noexcept

@cython.locals(job=Job, before=Job, last=Py_ssize_t, place=Py_ssize_t)
cdef bint insertion_sort(list jobs, Py_ssize_t first, Py_ssize_t end, int order, Py_ssize_t moves) except -1

@cython.locals(place=Py_ssize_t, middle=Py_ssize_t, left=Py_ssize_t, right=Py_ssize_t)
cdef merge_sort(list jobs, Py_ssize_t first, Py_ssize_t end, list spare, int order)

cpdef double more_time(double so_far, double limit) noexcept

cdef class Claim:
    cdef public double start, end
    cdef public Job job
    cdef public object amount

cdef class Plan:
    cdef public Py_ssize_t machine_size, present, free, arrivals, turns, lost, suspensions
    cdef public bint by_host, keeps_promises, promises_starts, is_late, is_freed
    cdef public bint is_resized, is_final, had_windows
    cdef public Profile profile
    cdef public object everything, all_hosts
    cdef public HostBits free_hosts
    cdef public list waiting, running, claims, gone, new, starting
    cdef public list settled, renewals, losing, undone, cancelled
    cdef public DecisionLog log
    cdef public double now, tolerance, most_lag, soonest, grace, given_from, given_until
    cpdef arrived(self, Job job)
    cpdef joined(self, Job job, double start, object hosts, Py_ssize_t there)
    cpdef left(self, Job job)
    @cython.locals(place=Py_ssize_t)
    cpdef withdraw(self, Job job)
    @cython.locals(each=Job)
    cpdef bint holds(self, Job job) except -1
    @cython.locals(place=Py_ssize_t, claim=Claim)
    cpdef Py_ssize_t claim_of(self, Job job) except -2
    cpdef bint cancel(self, Job job) except -1
    cpdef undo_kill(self, Job again)
    cpdef tell(self, double now, Py_ssize_t free)
    cpdef announced(self, Py_ssize_t hosts)
    cpdef note_size(self, Py_ssize_t present, bint is_final)
    cpdef reserve_for(self, Job job, object hosts)
    @cython.locals(lost=Py_ssize_t, job=Job, promise=double)
    cdef bint has_lost_hosts(self) except -1
    @cython.locals(job=Job, promise=double, planned=double)
    cpdef settle(self)
    cdef promise(self, Job job, double date)
    cdef note_renewal(self, Job job, double broken, double promise)
    @cython.locals(now=double, job=Job, claim=Claim)
    cpdef double nominal(self) except? -1
    @cython.locals(early=bint, overdue=bint, late=double, job=Job)
    cpdef bint renew(self) except -1
    @cython.locals(early=bint, job=Job)
    cdef bint forget_gone(self) except -1
    @cython.locals(now=double, due=double, found=bint, job=Job, so_far=double, limit=double)
    cdef bint extend_overdue(self) except -1
    @cython.locals(job=Job)
    cdef bint has_missed_start(self) except -1
    @cython.locals(job=Job)
    cdef take_up_lags(self)
    cdef give_back(self, Job job, double start, double end)
    cpdef add_running(self, Job job, double end, double lag)
    @cython.locals(last=Job)
    cdef remove_running(self, Job job)
    cpdef expect_end(self, Job job, double end)
    cpdef place(self, Job job, double now)
    cpdef place_new(self, Job job)
    @cython.locals(waiting=list, place=Py_ssize_t, earlier=Job)
    cpdef insert(self, Job job)
    @cython.locals(now=double, line=list, any_moved=bint, profile=Profile, job=Job, start=double, end=double, first=double, last=double, after=double)
    cpdef compress(self)
    @cython.locals(first=double, last=double, own_first=double, own_last=double, place=Py_ssize_t, job=Job)
    cdef tell_earlier(self, list line)
    @cython.locals(job=Job)
    cpdef reserve_running(self, Profile profile, double now)
    @cython.locals(claim=Claim)
    cdef take_claims(self, Profile profile, double now, bint with_job)
    @cython.locals(job=Job)
    cdef take_running(self, Profile profile, double now)
    @cython.locals(job=Job, late=Py_ssize_t)
    cdef Py_ssize_t place_waiting(self) except -1
    @cython.locals(job=Job)
    cpdef reserve_plan(self, double now)
    @cython.locals(waiting=list, mends=bint, late=Py_ssize_t, job=Job, end=double)
    cpdef rebuild(self)
    @cython.locals(job=Job)
    cpdef aim_again(self)
    @cython.locals(job=Job)
    cpdef adopt(self, list jobs)
    cdef bint can_start(self, Job job) except -1
    @cython.locals(lag=double)
    cdef bint start_now(self, Job job) except -1
    @cython.locals(late=bint, soon=double, waiting=list, count=Py_ssize_t, job=Job)
    cdef bint start_what_fits(self) except -1
    @cython.locals(late=bint)
    cpdef list start_due(self)
    @cython.locals(late=bint, place=Py_ssize_t, soon=double, claim=Claim, job=Job)
    cdef bint start_claimed(self) except -1
    @cython.locals(asked=double, start=double)
    cpdef double promise_start(self, Job job) except? -1
    @cython.locals(claim=Claim)
    cdef bint has_claims_before(self, double date) except -1
    @cython.locals(start=double, claim=Claim)
    cpdef double next_claimed_start(self, double date) except? -1
    @cython.locals(claim=Claim, job=Job)
    cdef refit_claims(self)
    @cython.locals(is_left=bint, profile=Profile, due=double, is_due=bint, claim=Claim, job=Job, after=double, start=double)
    cdef bint fit_claims(self, bint is_idle) except -1
    cdef amount_of(self, Job job)
    @cython.locals(end=double)
    cpdef claim(self, Job job, double start)
