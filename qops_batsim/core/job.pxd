cdef class Job:
    cdef public str id, profile
    cdef public double submission_time, estimate
    cdef public long processors
    cdef public object walltime, qos, _fields
