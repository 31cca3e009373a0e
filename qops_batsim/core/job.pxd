cimport cython
from qops_batsim.core.host_bits cimport HostBits
from qops_batsim.core.node_request cimport NodeRequest
from qops_batsim.timing cimport duration_on_grid, on_grid

cdef double INFINITY, NO_DATE, SAME_DATE
cdef int _COMING
cdef HostBits NO_HOSTS

@cython.no_gc
cdef class Job:
    # What searches look at, side by side: a long queue is larger than the fastest memory
    cdef public int phase  # COMING, WAITING, RUNNING or OVER
    cdef public int corrections
    cdef public Py_ssize_t processors
    cdef public Py_ssize_t returning
    cdef public double duration  # on the grid; the estimate, or a prediction
    cdef public double end
    cdef public double start  # on the grid in a plan
    cdef public double key
    cdef public double trial
    cdef public double target  # at least the promise, or the planned end of a late job
    cdef public Py_ssize_t number
    cdef public Py_ssize_t rank  # of a search only
    cdef public Py_ssize_t headroom  # of a search of QoPS
    cdef public Py_ssize_t cell, cell_above  # of FitBounds

    # What the user asks for: does not change once it is submitted
    cdef public str id, profile
    cdef public double submission_time
    cdef public double estimate  # infinite without walltime and estimate
    cdef public object walltime  # float or None
    cdef public object qos  # QosRequest or None
    cdef public object hosts_asked  # HostsAsked or None
    cdef public object _fields  # a dict once they have been asked for
    cdef public double arrival, requested, deadline, limit
    cdef public double fixed_start  # infinite without

    # Of a run: set by the engine
    cdef public str state
    cdef public Py_ssize_t index

    # Of a plan, from the arrival to the end
    cdef public double promise
    cdef public double aim  # infinite unless the job will be late
    cdef public double latest_start  # infinite unless starts are promised
    cdef public double lag  # 0 unless it runs
    cdef public double given_from, given_until  # infinite and minus: nothing
    cdef public double suspended, lost_date
    cdef public Py_ssize_t reserved  # meaningful unless reservations name hosts
    cdef public HostBits bits  # meaningful if they do; shared until they are set
    cdef public NodeRequest request  # None: whole hosts, which are counted
    cdef public double size  # processors, or the dominant share
    cdef public Py_ssize_t place, turn  # -1 unless it runs
    cdef public Py_ssize_t kills, lost
    cdef public bint is_held, is_dying, is_kept

    # Of slack: they last as long as the job waits
    cdef public double priority, first_slack

    # Of the decision log
    cdef public double noted_start, noted_end, noted_target

    cpdef renamed(self, str new_id)
    cdef keep_as_trial(self)
    cdef adopt_trial(self)
    @cython.locals(qos=object)
    cdef _begin(self)

@cython.locals(job=Job)
cpdef list tried_places(list jobs)
