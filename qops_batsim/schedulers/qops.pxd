cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.core.job_sorting cimport sort_by_key
from qops_batsim.core.plan cimport Plan
from qops_batsim.core.profile cimport FitBounds, Profile
from qops_batsim.core.scheduler cimport ResourceManager
from qops_batsim.schedulers.deadline cimport DeadlineScheduler, lift, meets
from qops_batsim.schedulers.job_orders cimport key_in
from qops_batsim.timing cimport end_of, on_grid, up_to_grid

cdef double _INFINITY, DEADLINE_TOLERANCE, PATIENT, FOREVER, PRICE_TOLERANCE, ROUNDING
cdef int FIRST, LAST, BY_WORK, BY_RESPONSE, BY_SLACK
cdef Py_ssize_t KEPT, SHORTEST_STRIDE, SHORT_LINE

@cython.locals(job=Job, earlier=Job, last=Py_ssize_t, place=Py_ssize_t)
cdef sort_by_trial(list jobs, Py_ssize_t first, Py_ssize_t end)

cdef class Qops(DeadlineScheduler):
    # In which order jobs are placed
    cdef bint has_key, has_points  # a subclass overrides key(), insertion_points()
    cdef public int placing  # index in ORDERS
    cdef bint by_start, new_job_first
    cdef double share  # of the machine, that stays free beside a job
    cdef bint predicts

    # What a violation undoes: the half placed later, unless one of the two says otherwise
    cdef Py_ssize_t k_factor
    cdef bint undoes_all, undoes_by_start

    # Which insertion point gives the plan
    cdef int insertion  # FIRST, LAST or BY_...
    cdef bint stops_at_failure

    # The search. kept[i] is the draft as it was with (i + 1) * stride jobs placed from the point
    # on, kept_bounds[i] the bounds; the bounds hold for the draft only.
    cdef readonly Py_ssize_t point
    cdef Py_ssize_t furthest  # index in the order up to which the last attempt came
    cdef readonly Job blamed
    cdef list kept, kept_bounds
    cdef FitBounds bounds
    cdef bint has_bounds  # of fits in this attempt
    cdef list last_order  # jobs as the last search sorted them; some may have left
    cdef object past

    cpdef begin(self, ResourceManager manager)
    cpdef decide(self)
    @cython.locals(blamed=Job)
    cpdef try_admission(self, Job job)
    @cython.locals(count=Py_ssize_t, point=Py_ssize_t, following=Py_ssize_t, points=list)
    cpdef insertion_points(self, Job job, list waiting)
    cdef list checked_points(self, object points, Py_ssize_t count)
    cdef set_key(self, Job job, double now)
    @cython.locals(job=Job, room=Py_ssize_t)
    cdef leave_headroom(self, list line, Job new)
    @cython.locals(waiting=list)
    cdef bint search(self, Job new) except -1
    @cython.locals(base=Profile, in_order=list, now=double, soonest=double, count=Py_ssize_t, kept=Py_ssize_t, point=Py_ssize_t, points=object, chosen=Py_ssize_t, cost=double, cheapest=double)
    cdef bint try_points(self, list line, Job new) except -1
    @cython.locals(place=Py_ssize_t, job=Job)
    cdef keep(self, list line, Py_ssize_t kept, Py_ssize_t point)
    @cython.locals(order=list, job=Job, rank=Py_ssize_t, count=Py_ssize_t, place=Py_ssize_t, index=Py_ssize_t, bounds=FitBounds, now=double)
    cdef list in_order(self, list line, Job new)
    @cython.locals(order=list, job=Job, place=Py_ssize_t, failures=dict)
    cdef bint try_point(self, list line, list in_order, Job new, Py_ssize_t point) except -1
    @cython.locals(order=list, last=Job, draft=Profile, base=Profile, profile=Profile, bounds=FitBounds, known=FitBounds, number=Py_ssize_t, job=Job, placed=Py_ssize_t, touched=Py_ssize_t, end=Py_ssize_t, violations=Py_ssize_t, due=double, stride=Py_ssize_t, middle=Py_ssize_t, late=Py_ssize_t, now=double, start=double, soonest=double)
    cdef bint place_line(self, Py_ssize_t point, Job new) except -1
    @cython.locals(draft=Profile, bounds=FitBounds, needed=Py_ssize_t, after=double, room=Py_ssize_t, start=double)
    cdef double fit_beside(self, Job job, double now) except? -1
    @cython.locals(profile=Profile, known=FitBounds, order=list, job=Job, number=Py_ssize_t, place=Py_ssize_t)
    cdef go_back(self, Py_ssize_t point, Py_ssize_t middle, Py_ssize_t stride)
    @cython.locals(job=Job, cost=double, now=double, wait=double, slack=double)
    cdef double cost_of(self, Py_ssize_t point) except? -1
    @cython.locals(plan=Plan, job=Job, now=double)
    cdef predict(self)
