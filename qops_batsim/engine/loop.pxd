cimport cython
from qops_batsim.core.host_bits cimport HostBits
from qops_batsim.core.job cimport Job
from qops_batsim.core.scheduler cimport ResourceManager, Scheduler

cdef double INFINITY, _SAME_DATE, _SHORTEST_CALL_DELAY
cdef int _WAITING, _RUNNING, _OVER, _PER_REPORT
cdef long long _CALL, _EVENT, _WORLD, _SUBMISSION
cdef tuple _STATES

cdef class FreeHosts:
    cdef long long[::1] lows, highs  # room for an interval more than there can be
    cdef Py_ssize_t size
    @cython.locals(begin=Py_ssize_t, end=Py_ssize_t, middle=Py_ssize_t)
    cdef Py_ssize_t place_of(self, long long host) noexcept
    @cython.locals(place=Py_ssize_t)
    cdef bint has(self, long long low, long long high) noexcept
    @cython.locals(place=Py_ssize_t, first="long long", last="long long")
    cpdef take(self, long long low, long long high)
    @cython.locals(place=Py_ssize_t, joins_higher=bint, joins_lower=bint)
    cpdef give_back(self, long long low, long long high)
    @cython.locals(later=Py_ssize_t)
    cdef void insert(self, Py_ssize_t place, long long low, long long high) noexcept
    @cython.locals(later=Py_ssize_t)
    cdef void remove(self, Py_ssize_t place) noexcept

cdef class Turns:
    cdef long long began
    cpdef long long next(self) noexcept

cdef class EmbeddedManager(ResourceManager):
    cdef FreeHosts hosts
    cdef Turns turns
    cdef readonly Py_ssize_t known  # jobs, those registered too
    cdef list jobs  # by index, those that have hosts; None for all others
    cdef readonly dict metadata  # texts by index
    cdef public object profiles  # by workload and name
    # asked for in this message
    cdef list started
    cdef list over  # rejected or killed, in the order of the calls
    cdef list added  # registered: job, run time, final state
    cdef Py_ssize_t calls  # how much of the next two is used
    cdef double[::1] call_dates
    cdef long long[::1] call_numbers
    # kills, and registered jobs
    cdef public bint registers
    cdef readonly object registry  # None where the scheduler itself neither kills nor registers
    cdef bint acknowledges  # whether a registered job is told of in a message
    cdef bint is_deciding  # whether no more events come before the decision
    cdef bint kills_last  # whether the last call was a kill, so that another one joins it
    cdef Py_ssize_t arrived  # jobs of the workload that were submitted
    cdef Py_ssize_t announced  # jobs registered in this message that will be told of
    cdef Py_ssize_t withdrawn  # waits in the heap that are of killed jobs
    cdef list kills  # not told yet, a list for each event
    cdef list early_kills  # those asked for by hooks
    cdef readonly set killed  # indices
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
    cdef public object away, taken
    cdef readonly long long[::1] idle
    @cython.locals(index=Py_ssize_t)
    cpdef start_job(self, Job job, object hosts)
    @cython.locals(hosts=FreeHosts, place=Py_ssize_t, low="long long", high="long long")
    cdef take_lowest(self, Py_ssize_t missing)
    @cython.locals(are_free=bint, low=Py_ssize_t, high=Py_ssize_t, behind=Py_ssize_t)
    cdef take_these(self, Job job, HostBits hosts)
    @cython.locals(place=Py_ssize_t, first=Py_ssize_t)
    cpdef hosts_of(self, Job job)
    cpdef count_free(self)
    cdef note_interval(self, long long low, long long high)
    cdef note_busy(self, long long more)
    cdef note_counts(self)
    cdef leave(self, Job job)
    @cython.locals(place=Py_ssize_t, first=Py_ssize_t)
    cdef release(self, Job job)
    cdef end_by_kill(self, Job job)
    @cython.locals(job=Job)
    cdef begin_decision(self)
    cdef Job run_of(self, Job job)
    @cython.locals(index=Py_ssize_t)
    cdef add(self, Job job, double seconds, str state)

cdef class Heap:
    cdef readonly Py_ssize_t size
    cdef double[::1] dates
    cdef long long[::1] numbers, jobs
    @cython.locals(place=Py_ssize_t, above=Py_ssize_t, other=double)
    cpdef push(self, double date, long long number, long long job)
    @cython.locals(count=Py_ssize_t, date=double, number="long long", place=Py_ssize_t, below=Py_ssize_t, other=double)
    cpdef void pop(self) noexcept
    @cython.locals(one=double, two=double)
    cdef bint comes_before(self, Py_ssize_t place, Py_ssize_t other) noexcept

cdef class Submissions:
    cdef str prefix
    cdef list ids, names, requests
    cdef double[::1] dates, walltimes
    cdef long long[::1] places, profiles, processors
    cdef object fields
    cdef readonly Py_ssize_t size
    cdef Py_ssize_t next
    @cython.locals(limit=double, made=Job, place=Py_ssize_t, job_id=str)
    cdef Job job(self, Py_ssize_t index)

cdef class Loop:
    cdef readonly ResourceManager manager
    cdef EmbeddedManager sleepers  # the manager where jobs only sleep, else None
    cdef object conversation, world  # both None where jobs only sleep and none is registered
    cdef bint executes  # whether the world has anything to execute
    cdef bint follows_kills  # whether the scheduler may kill or register jobs
    cdef bint withdraws  # whether waits in the heap may count no more: one of these two
    # waits
    cdef Turns turns
    cdef Heap waits
    cdef double busy_until  # until when the decision side hears nothing
    # jobs, by index
    cdef list workloads
    cdef double[::1] run_times  # NaN for what the world executes
    cdef long long[::1] end_states  # positions in FINAL_STATES, or None
    cdef readonly double[::1] starts, finishes
    cdef readonly long long[::1] ended
    cdef readonly Py_ssize_t ended_count
    cdef list running_since
    # events
    cdef Py_ssize_t submitting  # workloads of which jobs are left
    cdef list events, cancelled
    cdef Py_ssize_t happened  # of the external events
    cdef readonly list happened_dates
    cdef dict given_up
    # for the next message
    cdef list closing
    cdef Py_ssize_t told, told_before
    cpdef begin_at(self, double date, list running_since)
    @cython.locals(manager=EmbeddedManager, submissions=Submissions, job=Job, index=Py_ssize_t, start=double, date=double)
    cdef join_running(self, Scheduler scheduler)
    @cython.locals(messages=Py_ssize_t)
    cpdef run(self, Scheduler scheduler, object on_progress)
    @cython.locals(manager=ResourceManager, waits=Heap, date=double, soon=double)
    cdef bint next_message(self, Scheduler scheduler) except -1
    cdef come_to(self, double date)
    @cython.locals(waits=Heap)
    cdef end_all(self, Scheduler scheduler, double soon)
    cdef tell_closing(self, Scheduler scheduler)
    @cython.locals(job=Job)
    cdef tell_cancelled(self, Scheduler scheduler)
    @cython.locals(waits=Heap, date=double, number="long long", index=Py_ssize_t, due=list)
    cdef end_due(self, Scheduler scheduler, double soon)
    @cython.locals(job=Job)
    cdef end(self, Scheduler scheduler, Py_ssize_t index, long long number, double date)
    @cython.locals(manager=EmbeddedManager, index=Py_ssize_t)
    cdef end_job(self, Scheduler scheduler, Job job)
    @cython.locals(manager=EmbeddedManager, job=Job)
    cdef end_executed(self, Scheduler scheduler)
    @cython.locals(manager=EmbeddedManager, waits=Heap, index=Py_ssize_t)
    cdef drop_withdrawn(self)
    @cython.locals(submissions=Submissions, index=Py_ssize_t, latest=double, job=Job)
    cdef submit(self, Scheduler scheduler, Py_ssize_t which)
    @cython.locals(submissions=Submissions, date=double)
    cdef wait_for_next(self, Py_ssize_t which)
    @cython.locals(manager=EmbeddedManager, job=Job, index=Py_ssize_t, date=double, place=Py_ssize_t)
    cdef carry_out(self, Scheduler scheduler)
    @cython.locals(manager=EmbeddedManager, job=Job, index=Py_ssize_t, kills=list, together=list)
    cdef tell_kills(self, Scheduler scheduler)
    @cython.locals(job=Job, index=Py_ssize_t)
    cdef add_registered(self)
    cdef void note_ended(self, Py_ssize_t index) noexcept
