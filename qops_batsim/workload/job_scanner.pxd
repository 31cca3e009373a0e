cimport cython

cdef int ID, DATE, PROCESSORS, PROFILE, WALLTIME, REQUEST, OTHER, NEEDED
cdef int QUOTE, COLON, COMMA, MINUS, POINT, ZERO, NINE, BACKSLASH
cdef int OPEN_LIST, CLOSE_LIST, OPEN, CLOSE, BLANK, LAST, TAB, NEW_LINE, RETURN
cdef Py_ssize_t MOST_DIGITS
cdef double[::1] POWERS
cdef double NAN
cdef bytes NULL, EXPONENTS
cdef dict CODES

@cython.final
cdef class JobScanner:
    cdef bytes text
    cdef const unsigned char* data  # of the text
    cdef Py_ssize_t size, at
    cdef dict places
    # jobs, by index
    cdef readonly Py_ssize_t count
    cdef readonly list ids, requests
    cdef readonly object dates, walltimes, processors, profiles
    cdef double[::1] date_of, walltime_of
    cdef long long[::1] processors_of, profile_of
    cdef list names, codes
    # of the last string or number
    cdef Py_ssize_t begin, end
    cdef double value
    cdef long long whole
    cdef bint is_whole
    cpdef bint scan(self) except -1
    @cython.locals(index=Py_ssize_t, given=int, code=int, place=Py_ssize_t)
    cdef bint scan_job(self) except -1
    @cython.locals(begin=Py_ssize_t, known=bytes, size=Py_ssize_t, same=Py_ssize_t, code=int)
    cdef int scan_name(self, Py_ssize_t place) except? -2
    @cython.locals(letter=int, found=Py_ssize_t)
    cdef bint scan_value(self, int code, Py_ssize_t index) except -1
    @cython.locals(letter=int, begin=Py_ssize_t, depth=Py_ssize_t)
    cdef bint scan_request(self, Py_ssize_t index) except -1
    @cython.locals(letter=int, at=Py_ssize_t)
    cdef bint scan_string(self) noexcept
    @cython.locals(data="const unsigned char*", at=Py_ssize_t, begin=Py_ssize_t, is_negative=bint, whole="long long", letter=int, digits=Py_ssize_t, has_point=bint, decimals=Py_ssize_t)
    cdef bint scan_number(self) except -1
    @cython.locals(place=Py_ssize_t)
    cdef bint take_null(self) noexcept
    cdef bint take(self, int letter) noexcept
    @cython.locals(letter=int)
    cdef void pass_blanks(self) noexcept
