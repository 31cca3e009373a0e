cdef class Capacity:
    cdef readonly Py_ssize_t machine_size
    cdef public object away  # HostSet; those in maintenance are in windows instead
    cdef public list windows  # MaintenanceWindow, by start
    cdef public bint is_known, is_final, is_planned
