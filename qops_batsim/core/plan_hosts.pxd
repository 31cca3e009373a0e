from qops_batsim.core.host_bits cimport HostBits
from qops_batsim.core.job cimport Job
from qops_batsim.core.node_use cimport NodeUse

cdef class PlanHosts:
    cdef readonly Py_ssize_t machine_size
    cdef readonly bint by_host, names_hosts
    cdef readonly object all  # hosts of the machine, there or not: a mask (a Python int)

    # Of the hosts that are there: free_hosts is kept only if reservations name their hosts
    cdef public object everything  # int or HostBits
    cdef public Py_ssize_t present
    cdef public bint is_final
    cdef public Py_ssize_t free
    cdef readonly HostBits free_hosts

    cdef public Py_ssize_t lost
    cdef readonly list losing  # (job, number of hosts)

    cpdef amount_of(self, object hosts)
    cdef amount_for(self, Job job)
    cpdef occupy(self, Job job, object hosts)
    cdef restore_amount(self, Job job, object amount)
    cpdef bint can_hold(self, Job job) except -1
    cdef bint can_start(self, Job job) except -1
    cdef start(self, Job job)
    cpdef resize(self, Py_ssize_t present, bint is_final)

cdef class SharedPlanHosts(PlanHosts):
    cdef readonly NodeUse use
