cimport cython

@cython.locals(latest="long long[::1]", following="long long[::1]", place=Py_ssize_t, host="long long")
cpdef last_cover(const long long[::1] first, const long long[::1] last, Py_ssize_t hosts)
