cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.core.plan_log cimport PlanLog
from qops_batsim.core.plan cimport Plan
from qops_batsim.core.scheduler cimport ResourceManager, Scheduler
from qops_batsim.timing cimport end_of, up_to_grid

cdef double _INFINITY
cdef int WAITING, RUNNING, BY_ADMISSION

cdef class PlanScheduler(Scheduler):
    cdef public bint by_host, learns
    cdef readonly Plan plan
    cdef public double called_for  # last date that a call was asked for; -1: none

    # The machine
    cdef public bint is_whole  # no host has ever been away, no job was started by others
    cdef public bint is_final  # no host that is away will return
    cdef bint refits  # at the next decision, as a job has left hosts of a maintenance window
    cdef bint may_be_too_wide  # some waiting job may be wider than the machine will be again

    # Jobs of a decision
    cdef readonly list asked_for  # cancelled by their users, and not rejected yet
    cdef list unfit  # new jobs that can never run

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
    @cython.locals(plan=Plan, log=PlanLog, job=Job)
    cdef answer_new(self)
    @cython.locals(plan=Plan, manager=ResourceManager, job=Job, planned=double)
    cdef start_due(self)
    cpdef compress(self)
    cpdef note_start(self, Job job)
    cpdef why_limited(self, Job job)
    cpdef answer(self, Job job)
    cpdef note_admission(self, Job job, object offer=*)
    cdef note_promise(self, Job job)
    @cython.locals(plan=Plan, log=PlanLog, job=Job, size=Py_ssize_t)
    cdef log_starts(self)
    cpdef refused(self, Job job, object refusal, object offer=*)
    @cython.locals(known=Job)
    cdef Py_ssize_t blamed_number(self, Job job, object refusal) except? -1
    @cython.locals(start=double, asked=double, target=double)
    cpdef reserve_start(self, Job job)
    @cython.locals(date=double)
    cdef call_for_start(self)
