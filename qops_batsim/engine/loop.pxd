cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.core.scheduler cimport Scheduler
from qops_batsim.engine.embedded_manager cimport EmbeddedManager
from qops_batsim.engine.wait_heap cimport Heap, Turns

cdef double INFINITY
cdef int KILLED  # position in FINAL_STATES
# Assigned by the imports of the same names.
cdef int WAITING, RUNNING, OVER, MESSAGES_PER_REPORT
cdef long long CALL, EVENT, WORLD, SUBMISSION
cdef double SAME_DATE
cdef tuple FINAL_STATES

cdef class Submissions:
    cdef str prefix
    # all by index, in the order of submission
    cdef list ids, requests, hosts_asked
    cdef double[::1] dates, walltimes
    cdef long long[::1] profiles, processors
    cdef list names  # of profiles
    cdef object fields, asking
    cdef readonly Py_ssize_t size
    cdef Py_ssize_t next  # index of the first that is not submitted yet
    @cython.locals(limit=double, made=Job, job_id=str)
    cdef Job job(self, Py_ssize_t index)

cdef class Loop:
    cdef public double now
    # waits
    cdef Heap waits
    cdef Turns turns
    cdef public double busy_until  # until when the decision side hears nothing
    cdef object physics  # None where nothing but sleeping jobs runs
    cdef public bint executes  # whether the physics has anything to execute
    cdef public bint withdraws  # whether waits in the heap may count no more
    cdef public bint is_over
    # jobs and events that come whatever is decided
    cdef list workloads
    cdef Py_ssize_t submitting  # workloads of which jobs are left
    cdef list events  # dates
    cdef Py_ssize_t happened
    cdef list closing  # of what no more will come, which is to be told
    # for the next message
    cdef public Py_ssize_t told  # events
    cdef Py_ssize_t told_before  # how many, when the first of closing was known; 0 without any
    cdef public Py_ssize_t ended_count
    @cython.locals(messages=Py_ssize_t)
    cpdef run(self, object on_progress)
    @cython.locals(date=double, soon=double)
    cdef bint next_message(self) except -1
    @cython.locals(waits=Heap)
    cdef double next_date(self) except? -1
    cpdef bint is_withdrawn(self, long long index, long long number, double date) except -1
    @cython.locals(waits=Heap)
    cdef end_all(self, double soon)
    @cython.locals(waits=Heap, date=double, number="long long", index=Py_ssize_t, due=list)
    cdef end_due(self, double soon)
    cdef end(self, Py_ssize_t index, long long number, double date)
    @cython.locals(submissions=Submissions, index=Py_ssize_t, latest=double)
    cdef submit(self, Py_ssize_t which)
    @cython.locals(submissions=Submissions, date=double)
    cdef wait_for_next(self, Py_ssize_t which)
    cdef happen(self)
    cdef note_closing(self, str kind)
    cdef tell_closing(self)
    # what a subclass does
    cpdef begin(self)
    cpdef come_to(self, double date)
    cpdef submit_job(self, Job job)
    cpdef end_sleep(self, Py_ssize_t index)
    cpdef hear_physics(self)
    cpdef happen_one(self, Py_ssize_t place)
    cpdef close(self, str kind)
    cpdef call(self)
    cpdef decide(self)
    cpdef carry_out(self)

cdef class SchedulerLoop(Loop):
    cdef Scheduler scheduler
    cdef readonly EmbeddedManager manager
    cdef bint follows_kills  # whether the scheduler may kill or register jobs
    cdef list running_since
    cdef Py_ssize_t asked_until, open_starts  # index behind the jobs asked about; how many wait
    # jobs, by index
    cdef double[::1] run_times  # NaN for what the physics executes
    cdef readonly long long[::1] end_states  # positions in FINAL_STATES, or None
    cdef readonly double[::1] starts, finishes
    cdef readonly long long[::1] ended  # indices, of which ended_count count
    cdef readonly list arrived
    # events
    cdef list notices, cancelled
    cdef readonly list happened_dates
    cdef dict given_up  # cancelled sometime, by id: None before they are submitted
    cpdef begin(self)
    @cython.locals(manager=EmbeddedManager, submissions=Submissions, job=Job, index=Py_ssize_t, start=double)
    cdef join_running(self)
    cpdef come_to(self, double date)
    cpdef submit_job(self, Job job)
    cpdef end_sleep(self, Py_ssize_t index)
    cpdef bint is_withdrawn(self, long long index, long long number, double date) except -1
    @cython.locals(manager=EmbeddedManager, job=Job)
    cpdef hear_physics(self)
    @cython.locals(manager=EmbeddedManager, index=Py_ssize_t)
    cdef end_job(self, Job job)
    @cython.locals(manager=EmbeddedManager)
    cpdef happen_one(self, Py_ssize_t place)
    cpdef close(self, str kind)
    cpdef call(self)
    cpdef decide(self)
    @cython.locals(job=Job)
    cdef tell_cancelled(self)
    @cython.locals(manager=EmbeddedManager, job=Job, index=Py_ssize_t, date=double, number="long long")
    cpdef carry_out(self)
    @cython.locals(manager=EmbeddedManager, scheduler=Scheduler, job=Job, kills=list, together=list)
    cdef tell_kills(self)
    @cython.locals(submissions=Submissions, job=Job, index=Py_ssize_t)
    cdef add_registered(self)
    cdef void note_start(self) noexcept
    cdef void note_ended(self, Py_ssize_t index) noexcept
