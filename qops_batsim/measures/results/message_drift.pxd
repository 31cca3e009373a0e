cimport cython

# sums: the result, filled in place; before: -1 for a job without predecessor.
@cython.locals(sums="double[::1]", place=Py_ssize_t, row="long long", since=double, gap=double)
cpdef chain_gaps(const long long[::1] rows, const long long[::1] before, const double[::1] submitted, const double[::1] start, const double[::1] end, double most)
