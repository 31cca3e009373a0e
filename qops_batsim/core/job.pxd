cimport cython
from qops_batsim.core.host_bits cimport HostBits
from qops_batsim.timing cimport duration_on_grid, on_grid

cdef double _INFINITY, _NO_DATE, _SAME_DATE
cdef int _COMING
cdef HostBits _NO_HOSTS

@cython.no_gc
cdef class Job:
    # what searches look at, side by side: a long queue is larger than the fastest memory
    cdef public int phase, corrections
    cdef public Py_ssize_t processors, returning
    cdef public double duration, end, start, key, trial, target
    cdef public Py_ssize_t number, rank, headroom, cell, cell_above
    cdef public str id, profile, state
    cdef public double submission_time, estimate
    cdef public object walltime, qos, _fields
    # of a run
    cdef public double arrival, requested, deadline, limit
    cdef public Py_ssize_t index
    # of a plan
    cdef public double promise, aim, fixed_start, given_from, given_until, lag
    cdef public double suspended, lost_date, noted_start, noted_end, noted_target, latest_start
    cdef public Py_ssize_t reserved, place, turn, kills, lost
    cdef public double rate, gain, fits_from, fits_until, priority, first_slack
    cdef public bint is_held, is_dying, is_kept
    cdef public HostBits bits
    @cython.locals(job=Job)
    cpdef renamed(self, str new_id)
    cdef _estimate(self)
    cdef _begin(self)
