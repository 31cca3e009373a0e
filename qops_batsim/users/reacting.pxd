cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.core.scheduler cimport ResourceManager, Scheduler

cdef int _WAITING, _RUNNING, _OVER, _BEGIN, _ASK, _GIVE_BACK, _END
cdef double _INFINITY, _SAME_DATE, _ROUNDING

cdef class _Person:
    cdef readonly object told, chosen
    cdef readonly list breaks
    cdef public Py_ssize_t place
    cdef readonly bint lies, hoards

cdef class _Visit:
    cdef readonly _Person person
    cdef readonly object batch
    cdef public double last
    cdef public Py_ssize_t open, to_come

cdef class _Wanted:
    cdef readonly _Visit visit
    cdef public list jobs
    cdef public str first, outcome
    cdef public Py_ssize_t processors, tries
    cdef public double run_time, submitted, since, ended, needed, asked, lost
    cdef public object walltime

cdef class Reacting(Scheduler):
    cdef readonly Scheduler inner
    cdef readonly object users, clock, made
    cdef public object summary, keeps_decisions, needs_deadlines, kills
    cdef list heap, calls, over, hoards, wanted, rows
    cdef Py_ssize_t serial, count, waiting
    cdef double soonest, gap_limit
    cdef dict by_job, names
    cdef readonly dict cancelled_at
    cdef bint said_all, is_exact
    cpdef begin(self, ResourceManager manager)
    cpdef submitted(self, Job job)
    cpdef ended(self, Job job)
    cpdef killed(self, Job job)
    cpdef progressed(self, Job job, object progress)
    cpdef cancelled(self, Job job)
    cpdef joined(self, Job job)
    cpdef hosts_changed(self, Py_ssize_t announced)
    cpdef all_submitted(self)
    cpdef called(self)
    cpdef notified(self, object notification)
    @cython.locals(manager=ResourceManager, heap=list, job=Job, wanted=_Wanted, soon=double, kind=int, refusals=list, place=Py_ssize_t)
    cpdef decide(self)
    cpdef finished(self)
    cdef _at(self, double date, int kind, object what)
    @cython.locals(visit=_Visit, wanted=_Wanted, now=double, offset=double)
    cdef _begin_batch(self, _Person person)
    @cython.locals(date=double)
    cdef _next_session(self, _Person person, double since, double seconds)
    @cython.locals(visit=_Visit, person=_Person, now=double, due=double, copies=Py_ssize_t, number=Py_ssize_t)
    cdef _ask(self, _Wanted wanted)
    @cython.locals(now=double, estimate=double)
    cdef _know_needs(self, _Wanted wanted)
    @cython.locals(now=double, name=str, full=str, job=Job)
    cdef Job _register(self, _Wanted wanted, double due)
    @cython.locals(visit=_Visit, person=_Person, now=double, before=double, number=double, think=double)
    cdef _over(self, _Wanted wanted, str outcome)
