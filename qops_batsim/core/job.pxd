from qops_batsim.timing cimport duration_on_grid

cdef double _INFINITY
cdef int _COMING

cdef class Job:
    cdef public str id, profile
    cdef public double submission_time, estimate
    cdef public Py_ssize_t processors
    cdef public object walltime, qos, _fields
    # of a run
    cdef public double arrival, duration, requested, deadline, limit, start, end, key
    cdef public Py_ssize_t index, returning
    cdef public int phase, corrections
    cdef _estimate(self)
    cdef _begin(self)
