cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.core.scheduler cimport ResourceManager, Scheduler

cdef int WAITING, RUNNING, OVER, BEGIN, ASK, GIVE_BACK, END
cdef double INFINITY, SAME_DATE, ROUNDING

cdef class Person:
    cdef readonly object told  # the User
    cdef readonly object chosen  # random numbers of this user only
    cdef public Py_ssize_t place  # of the next batch
    cdef readonly list breaks  # those of the log (seconds of the week's profile)
    cdef readonly bint lies, hoards

cdef class Visit:
    cdef readonly Person person
    cdef readonly object batch
    cdef public double last  # date of the last submission
    cdef public Py_ssize_t to_come  # jobs not submitted yet
    cdef public Py_ssize_t open  # jobs of which nothing has become yet

cdef class Wanted:
    cdef readonly Visit visit
    cdef public Py_ssize_t processors
    cdef public double run_time
    cdef public object walltime  # float or None
    cdef public list jobs  # of the last try: several of a hoarder
    cdef public str first  # name of the job by which it was asked for first
    cdef public str outcome
    cdef public Py_ssize_t tries
    cdef public double submitted
    cdef public double since  # the response time counts from here
    cdef public double ended  # NaN: not yet
    cdef public double needed, asked  # response times, infinite without a deadline
    cdef public double lost

cdef class Reacting(Scheduler):
    cdef readonly Scheduler inner
    cdef readonly object users
    cdef bint is_exact  # planning uses run times, without walltimes
    cdef bint needs_exactly  # needs are drawn from run times
    cdef double gap_limit
    cdef public object summary, keeps_decisions, needs_deadlines, kills

    # What users do next
    cdef readonly object clock  # of the week's profile
    cdef list heap  # (date, serial, BEGIN or ..., what)
    cdef Py_ssize_t serial
    cdef double soonest  # nothing is done before
    cdef list calls  # heap of dates that calls were asked for

    # Jobs and wishes
    cdef dict by_job  # wishes by full identifier
    cdef list wanted, hoards  # hoards: of whose copies none has started
    cdef list over  # jobs that have ended since the last decision
    cdef Py_ssize_t count  # jobs registered
    cdef Py_ssize_t waiting  # wishes asked for of which nothing has become yet
    cdef bint said_all
    cdef readonly dict cancelled_at

    # The workload that they make
    cdef list rows  # by job
    cdef dict names  # of users, as JSON
    cdef readonly object made  # None, or the workload of so many jobs

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
    @cython.locals(manager=ResourceManager, heap=list, job=Job, wanted=Wanted, soon=double, kind=int, refusals=list, place=Py_ssize_t)
    cpdef decide(self)
    cpdef finished(self)
    cdef _at(self, double date, int kind, object what)
    @cython.locals(visit=Visit, wanted=Wanted, now=double, offset=double)
    cdef _begin_batch(self, Person person)
    @cython.locals(date=double)
    cdef _next_session(self, Person person, double since, double seconds)
    @cython.locals(visit=Visit, person=Person, now=double, due=double, copies=Py_ssize_t, number=Py_ssize_t)
    cdef _ask(self, Wanted wanted)
    @cython.locals(now=double, estimate=double)
    cdef _know_needs(self, Wanted wanted)
    @cython.locals(now=double, name=str, full=str, job=Job)
    cdef Job _register(self, Wanted wanted, double due)
    @cython.locals(visit=Visit, person=Person, now=double, before=double, number=double, think=double)
    cdef _over(self, Wanted wanted, str outcome)
