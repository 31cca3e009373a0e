cimport cython
from qops_batsim.schedulers.aroma.application cimport Application, SharedHost, Placement, Task

cdef double INFINITY, PLAN_TOLERANCE

@cython.locals(rate=double, share=double, task=Task, host=SharedHost)
cdef double granted_rate(Placement placement) except? -1

cdef class Recurrence:
    cdef readonly Placement blamed
    cdef readonly SharedHost where
    cdef list running
    cdef Py_ssize_t event, search
    @cython.locals(coming=list, ending=Placement, starting=Placement, placement=Placement, begun=Py_ssize_t, first_end=double, next_start=double)
    cpdef bint predict(self, double now, list placements, bint checked) except -1
    @cython.locals(coming=list, placement=Placement, place=Py_ssize_t)
    cdef list begin(self, double now, list placements)
    @cython.locals(placement=Placement, task=Task, host=SharedHost)
    cdef clear_hosts(self, list placements)
    @cython.locals(found=Placement, placement=Placement, first=double)
    cdef Placement next_to_end(self)
    @cython.locals(task=Task, host=SharedHost)
    cdef bint is_disturbed(self, Placement starting) except -1
    @cython.locals(task=Task, host=SharedHost)
    cdef enter(self, Placement placement)
    @cython.locals(task=Task, host=SharedHost)
    cdef leave(self, Placement placement)
    @cython.locals(end=double)
    cdef void go_on(self, Placement placement, double date, double pace) noexcept
    @cython.locals(task=Task, user=Task, host=SharedHost, other=Placement, share=double, pace=double, done=double)
    cdef share_anew(self, double date, Placement placement, Py_ssize_t come)
    @cython.locals(concerned=list, each=Placement)
    cpdef bint keeps(self, double now, Placement placement) except -1
    @cython.locals(concerned=list, hosts=list, task=Task, user=Task, host=SharedHost, other=Placement)
    cdef list connected(self, Placement placement)

@cython.locals(place=Py_ssize_t)
cdef strike_out(list listed, object gone)

cdef class MappingPlan:
    cdef public list placements
    cdef readonly double date
    cdef readonly Recurrence recurrence
    cdef Py_ssize_t added
    cdef dict _by_job
    cpdef Placement of(self, str job_id)
    cpdef Placement placement_of(self, Application application)
    @cython.locals(found=list, placement=Placement)
    cpdef list running(self)
    @cython.locals(found=list, placement=Placement)
    cpdef list planned(self)
    @cython.locals(task=Task)
    cpdef add(self, Placement placement)
    @cython.locals(task=Task)
    cpdef remove(self, Placement placement)
    @cython.locals(task=Task, host=SharedHost)
    cpdef put_on(self, Placement placement, list hosts, double longer)
    @cython.locals(place=Py_ssize_t)
    cdef _drop(self, list listed, object gone)
    @cython.locals(placement=Placement)
    cpdef advance(self, double now)
    @cython.locals(running=list, placement=Placement, task=Task)
    cpdef settle(self)
    @cython.locals(placement=Placement)
    cpdef refresh(self)
    cpdef bint is_kept(self) except -1
    cpdef bint keeps(self, Placement placement) except -1
    @cython.locals(found=list, placement=Placement, late=double)
    cpdef list overdue(self)
    @cython.locals(found=double, placement=Placement)
    cpdef double next_start(self, double after) except? -1
