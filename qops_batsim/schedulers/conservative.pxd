from qops_batsim.core.job cimport Job
from qops_batsim.schedulers.planning cimport PlanScheduler

cdef class Conservative(PlanScheduler):
    cpdef answer(self, Job job)
