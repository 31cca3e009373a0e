cimport cython
from qops_batsim.core.job cimport Job

cdef double NAN, INFINITY, LONGEST
cdef tuple NUMBERS
cdef object NOTHING_ASKED
cdef int ZERO, NINE, MOST_DIGITS

@cython.locals(place=Py_ssize_t, found="double[::1]", profile=object, delay=object)
cpdef plain_delays(dict profiles, list names)

@cython.locals(text=str, count=Py_ssize_t, place=Py_ssize_t, letter=int, number="long long", before="long long")
cpdef bint are_ascending(list ids)

@cython.locals(index=Py_ssize_t, job=Job, ids=list, requests=list, hosts_asked=list, any_request=bint, any_hosts=bint)
cpdef columns_of_jobs(list jobs, dict places, double[::1] dates, double[::1] walltimes, double[::1] estimates, long long[::1] processors, long long[::1] profiles)

@cython.locals(made=Job, changes=dict, is_asked=bint, name=str, value=object, least=double)
cpdef changed_copy(Job job, dict fields, dict qos, object told)
