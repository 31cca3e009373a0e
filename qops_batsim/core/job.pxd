cimport cython
from qops_batsim.core.hosts cimport HostBits
from qops_batsim.timing cimport duration_on_grid, on_grid

cdef double _INFINITY, _NO_DATE, _SAME_DATE
cdef int _COMING
cdef HostBits _NO_HOSTS

cdef class Job:
    cdef public str id, profile, state
    cdef public double submission_time, estimate
    cdef public Py_ssize_t processors
    cdef public object walltime, qos, _fields
    # of a run
    cdef public double arrival, duration, requested, deadline, limit, start, end, key
    cdef public Py_ssize_t index, returning
    cdef public int phase, corrections
    # of a plan
    cdef public double trial, promise, target, aim, fixed_start, given_from, given_until, lag
    cdef public double suspended, lost_date, noted_start, noted_end, noted_target, latest_start
    cdef public Py_ssize_t number, reserved, place, turn, kills, lost, headroom, rank, cell
    cdef public double rate, gain, fits_from, fits_until, priority, first_slack
    cdef public bint is_held, is_dying, is_kept
    cdef public HostBits bits
    @cython.locals(job=Job)
    cpdef renamed(self, str new_id)
    cdef _estimate(self)
    cdef _begin(self)
