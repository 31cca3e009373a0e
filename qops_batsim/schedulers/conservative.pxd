cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.core.plan cimport Claim, Plan
from qops_batsim.core.scheduler cimport ResourceManager, Scheduler
from qops_batsim.timing cimport up_to_grid

cdef double _INFINITY

cdef class PlanScheduler(Scheduler):
    cdef public bint by_host
    cdef readonly Plan plan
    cdef double called_for
    cpdef begin(self, ResourceManager manager)
    @cython.locals(size=Py_ssize_t)
    cpdef submitted(self, Job job)
    cpdef ended(self, Job job)
    @cython.locals(plan=Plan, manager=ResourceManager, job=Job)
    cpdef decide(self)
    cpdef compress(self)
    cpdef answer(self, Job job)
    @cython.locals(start=double, asked=double, target=double)
    cpdef reserve_start(self, Job job)
    @cython.locals(date=double, claim=Claim)
    cdef call_for_start(self)

cdef class Conservative(PlanScheduler):
    cpdef answer(self, Job job)
