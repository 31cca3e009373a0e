cimport cython
from qops_batsim.core.fixed_reservations cimport FixedReservation, FixedReservations
from qops_batsim.core.job cimport Job
from qops_batsim.core.job_sorting cimport sort_by_arrival, sort_by_key, sort_by_start
from qops_batsim.core.node_profile cimport NodeProfile
from qops_batsim.core.node_use cimport NodeUse
from qops_batsim.core.plan_hosts cimport PlanHosts, SharedPlanHosts
from qops_batsim.core.plan_log cimport PlanLog
from qops_batsim.core.profile cimport FitBounds, Profile
from qops_batsim.timing cimport end_of, on_grid

cdef double INFINITY, NO_DATE, DEADLINE_TOLERANCE, GRID_TOLERANCE
cdef int RUNNING

cpdef double more_time(double so_far, double limit) noexcept

cdef class Plan:
    cdef readonly Py_ssize_t machine_size
    cdef readonly bint by_host, keeps_promises, promises_starts
    cdef readonly PlanHosts hosts
    cdef readonly NodeUse use  # None: hosts are whole
    cdef readonly FixedReservations fixed
    # The running jobs at least until their expected ends, fixed reservations, and the waiting jobs
    # at their starts; a search replaces it together with the starts
    cdef public Profile profile
    cdef public PlanLog log  # None: nothing is logged

    # Jobs. A job is in one of new, waiting, fixed and running, a job that has ended in running and
    # gone until the next update.
    cdef public list waiting  # by start, ties by arrival
    cdef public list running  # a job's place is its index
    cdef public list new, gone
    cdef public list starting  # by the last start_due()
    cdef public list undone, cancelled  # since the last update, for the log
    cdef public Py_ssize_t arrivals, turns  # the next job.number and job.turn

    # Dates: planned ones are nominal, and news up to the tolerance late changes no plan
    cdef public double now
    cdef public double soonest  # no running job is expected to end before
    cdef public bint is_late  # news is
    cdef public double grace, tolerance
    cdef public double most_lag  # a start that is later leads to a rebuild

    # What the next update has to do
    cdef public bint is_freed  # a reservation was released: compress
    cdef public bint is_resized  # hosts have changed: fit everything again
    cdef public double given_from, given_until  # released since; infinite and minus: nothing

    # Promises that lost their hosts
    cdef public Py_ssize_t suspensions  # waiting jobs whose job.suspended is a number
    cdef public list settled  # jobs whose promises the last settle() decided about
    cdef public list renewals

    cpdef share_hosts(self, NodeUse use)
    cpdef Profile empty_profile(self)
    cpdef FitBounds fit_bounds(self)
    cpdef arrived(self, Job job)
    cpdef joined(self, Job job, double start, object hosts, Py_ssize_t there)
    cpdef left(self, Job job)
    @cython.locals(place=Py_ssize_t)
    cpdef withdraw(self, Job job)
    @cython.locals(waiting=Job)
    cpdef bint holds(self, Job job) except -1
    cpdef bint cancel(self, Job job) except -1
    cpdef undo_kill(self, Job again)
    cpdef tell(self, double now, Py_ssize_t free)
    cpdef note_size(self, Py_ssize_t present, bint is_final)
    @cython.locals(lost=Py_ssize_t)
    cdef bint has_lost_hosts(self) except -1
    @cython.locals(job=Job, promise=double)
    cdef suspend(self, Py_ssize_t lost, double date)
    @cython.locals(job=Job, promise=double, planned=double)
    cpdef settle(self)
    cdef promise(self, Job job, double date)
    cdef note_renewal(self, Job job, double broken, double promise)
    @cython.locals(now=double, job=Job)
    cpdef double nominal(self) except? -1
    @cython.locals(early=bint, overdue=bint, late=double, job=Job, first=Job)
    cpdef bint renew(self) except -1
    @cython.locals(early=bint, job=Job)
    cdef bint forget_gone(self) except -1
    @cython.locals(now=double, due=double, is_any_overdue=bint, job=Job, so_far=double, limit=double)
    cdef bint extend_overdue(self) except -1
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
    cdef compress_everywhere(self)
    @cython.locals(first=double, last=double, own_first=double, own_last=double, place=Py_ssize_t, job=Job)
    cdef tell_earlier(self, list line)
    cpdef reserve_running(self, Profile profile, double now)
    @cython.locals(job=Job)
    cdef take_running(self, Profile profile, double now)
    @cython.locals(job=Job)
    cdef Py_ssize_t place_waiting(self) except -1
    @cython.locals(job=Job, start=double, end=double, displaced=list)
    cdef Py_ssize_t place_displaced(self) except -1
    @cython.locals(job=Job, late=Py_ssize_t)
    cdef Py_ssize_t count_late(self) except -1
    @cython.locals(job=Job)
    cpdef reserve_plan(self, double now)
    @cython.locals(waiting=list, mends=bint, late=Py_ssize_t, job=Job, end=double)
    cpdef rebuild(self)
    @cython.locals(job=Job)
    cpdef aim_again(self)
    @cython.locals(job=Job)
    cpdef adopt(self, list jobs)
    @cython.locals(lag=double)
    cdef bint start_now(self, Job job) except -1
    @cython.locals(late=bint, soon=double, waiting=list, count=Py_ssize_t, job=Job)
    cdef bint start_what_fits(self) except -1
    @cython.locals(late=bint)
    cpdef list start_due(self)
    @cython.locals(listed=list, late=bint, place=Py_ssize_t, soon=double, reservation=FixedReservation, job=Job)
    cdef bint start_fixed(self) except -1
    @cython.locals(fixed=FixedReservations, profile=Profile, now=double, due=double, lost=Py_ssize_t, job=Job)
    cdef refit_fixed(self)
