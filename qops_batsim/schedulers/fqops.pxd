cimport cython
from qops_batsim.core.job cimport Job, tried_places
from qops_batsim.core.plan cimport Plan
from qops_batsim.core.profile cimport Profile
from qops_batsim.core.scheduler cimport ResourceManager
from qops_batsim.schedulers.deadline cimport meets
from qops_batsim.schedulers.restarting cimport RestartingQops
from qops_batsim.timing cimport end_of

cdef double INFINITY, MAX_SECONDS

cdef class Fqops(RestartingQops):
    cdef public object tolerance  # asked whether a user takes an offer
    cdef double slack  # offers are later than the earliest deadline by this factor
    cdef Py_ssize_t retries

    # The search for the earliest deadline: the last plan that was found, while others are tried
    cdef readonly double failed
    cdef Profile spare  # its draft
    cdef list best, starts  # its jobs in order, and their starts
    cdef list places  # where hosts are shared

    cpdef begin(self, ResourceManager manager)
    cpdef answer(self, Job job)
    @cython.locals(slack=double, factor=double, soonest=double, offered=double)
    cdef answer_otherwise(self, Job job, object why)
    cdef note_offer(self, Job job, object offer)
    @cython.locals(lag=double)
    cdef admit_with(self, Job job, double offered, double soonest)
    cdef promise(self, Job job, double deadline, double lag)
    @cython.locals(lag=double, low=double, high=double, middle=double, soonest=double, retries=Py_ssize_t, works=bint)
    cpdef double find_earliest(self, Job new) except? -1
    @cython.locals(job=Job)
    cdef keep_draft(self)
    @cython.locals(job=Job, place=Py_ssize_t)
    cdef take_kept_draft(self)
