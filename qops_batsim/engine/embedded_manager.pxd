cimport cython
from qops_batsim.core.host_bits cimport HostBits
from qops_batsim.core.job cimport Job
from qops_batsim.core.scheduler cimport ResourceManager
from qops_batsim.engine.wait_heap cimport Turns

# Assigned by the imports of the same names.
cdef int WAITING, RUNNING, OVER
cdef double SHORTEST_CALL_DELAY

cdef class EmbeddedManager(ResourceManager):
    # A host is in one of these two sets, or in none while it is away; a job that was killed keeps
    # its hosts until the scheduler hears of that.
    cdef HostBits free_hosts, given_hosts
    cdef Py_ssize_t none_below  # no host below is free
    cdef Turns turns  # the loop's
    cdef readonly Py_ssize_t known  # jobs, those registered too
    cdef list jobs  # by index, those that have hosts; None for all others
    cdef readonly dict metadata  # texts by index
    # asked for in this message
    cdef list started
    cdef list over  # rejected or killed, in the order of the calls
    cdef list added  # registered: job, run time, final state
    cdef list calls  # dates and numbers
    # kills, and registered jobs
    cdef public bint registers
    cdef readonly object registry  # None where the scheduler itself neither kills nor registers
    cdef bint acknowledges  # whether a registered job is told of in a message
    cdef bint is_deciding  # whether no more events come before the decision
    cdef bint kills_last  # whether the last call was a kill, so that another one joins it
    cdef Py_ssize_t announced  # jobs registered in this message that will be told of
    cdef list kills  # not told yet, a list for each event
    cdef list early_kills  # those asked for by hooks
    cdef set killed  # indices of jobs
    cdef dict latest  # of each registered job, by the id of the job as it was submitted: its last run
    cdef dict computing_jobs  # registered jobs that do more than sleep, by id
    # which hosts each job has: pieces, from its offset on, of lows and highs, of which so many are used
    cdef readonly Py_ssize_t used
    cdef readonly long long[::1] offsets, pieces, lows, highs
    cdef long long[::1] numbers  # of the waits for the ends of jobs
    # how many hosts compute, and from each change on
    cdef long long busy
    cdef readonly Py_ssize_t changes
    cdef readonly double[::1] change_dates
    cdef readonly long long[::1] computing
    # where hosts go away
    cdef readonly bint has_outages
    cdef public object away, taken  # bits; taken without the hosts of killed jobs
    cdef readonly long long[::1] idle
    @cython.locals(index=Py_ssize_t)
    cpdef start_job(self, Job job, object hosts)
    @cython.locals(low=Py_ssize_t, count=Py_ssize_t)
    cdef take_lowest(self, Py_ssize_t missing)
    @cython.locals(low=Py_ssize_t, behind=Py_ssize_t, count=Py_ssize_t)
    cdef take_these(self, Job job, HostBits hosts)
    cdef take_interval(self, Py_ssize_t low, Py_ssize_t count)
    cdef note_interval(self, Py_ssize_t low, Py_ssize_t high)
    @cython.locals(index=Py_ssize_t)
    cdef begin_run(self, Job job, long long more)
    cdef note_taken(self, Job job)
    cdef HostBits bits_of(self, Job job, object hosts)
    @cython.locals(place=Py_ssize_t, first=Py_ssize_t)
    cpdef hosts_of(self, Job job)
    cpdef count_free(self)
    cdef leave(self, Job job)
    @cython.locals(place=Py_ssize_t, first=Py_ssize_t, low=Py_ssize_t)
    cdef release(self, Job job)
    cdef note_busy(self, long long more)
    cdef note_counts(self)
    cdef end_by_kill(self, Job job)
    @cython.locals(job=Job)
    cdef begin_decision(self)
    cdef Job run_of(self, Job job)
    @cython.locals(index=Py_ssize_t)
    cdef add(self, Job job, double seconds, str state)
