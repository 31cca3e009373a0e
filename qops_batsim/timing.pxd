cdef double _GRID, _GRID_END, _SAME_DATE, _SHIFT, _SHORTEST

cpdef double on_grid(double date) noexcept
cpdef double up_to_grid(double date) noexcept
cpdef double down_to_grid(double date) noexcept
cpdef double duration_on_grid(double duration) noexcept
cpdef double end_of(double start, double duration) noexcept
