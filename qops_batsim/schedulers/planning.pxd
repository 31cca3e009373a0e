cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.core.plan_log cimport DecisionLog
from qops_batsim.core.plan cimport Claim, Plan
from qops_batsim.core.scheduler cimport ResourceManager, Scheduler
from qops_batsim.timing cimport end_of, up_to_grid

cdef double _INFINITY
cdef int _WAITING, _RUNNING
cdef int _BY_ADMISSION

cdef class PlanScheduler(Scheduler):
    cdef public bint by_host, learns
    cdef readonly Plan plan
    cdef public double called_for
    cdef public bint is_whole, is_final
    cdef bint refits, may_be_too_wide
    cdef readonly list asked_for
    cdef list unfit
    cpdef begin(self, ResourceManager manager)
    cpdef submitted(self, Job job)
    cpdef ended(self, Job job)
    cpdef joined(self, Job job)
    cpdef cancelled(self, Job job)
    cpdef hosts_changed(self, Py_ssize_t announced)
    @cython.locals(plan=Plan, manager=ResourceManager)
    cpdef decide(self)
    cpdef prepare_decision(self)
    cpdef conclude_decision(self)
    @cython.locals(plan=Plan, log=DecisionLog, job=Job)
    cdef answer_new(self)
    @cython.locals(plan=Plan, manager=ResourceManager, job=Job, planned=double)
    cdef start_due(self)
    cpdef compress(self)
    cpdef note_start(self, Job job)
    cpdef why_limited(self, Job job)
    cpdef answer(self, Job job)
    cpdef note_admission(self, Job job, object offer=*)
    cpdef refused(self, Job job, object refusal, object offer=*)
    @cython.locals(start=double, asked=double, target=double)
    cpdef reserve_start(self, Job job)
    @cython.locals(date=double, claim=Claim)
    cdef call_for_start(self)
