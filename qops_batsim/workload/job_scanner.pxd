cimport cython

cdef int ID, DATE, PROCESSORS, PROFILE, WALLTIME, REQUEST, OTHER, ON_HOSTS, NEEDED
cdef int QUOTE, COLON, COMMA, MINUS, POINT, ZERO, NINE, BACKSLASH
cdef int OPEN_LIST, CLOSE_LIST, OPEN, CLOSE, BLANK, LAST, TAB, NEW_LINE, RETURN, SEMICOLON, _LONGEST_ROW
cdef Py_ssize_t MOST_DIGITS
cdef double[::1] POWERS
cdef double NAN, LONGEST
cdef bytes NULL, EXPONENTS, DELAY
cdef dict CODES
cdef list NAMES

cdef fill(list values, Py_ssize_t count, bytes nothing)

@cython.final
cdef class Scanner:
    cdef bytes text
    cdef const unsigned char* data  # of the text
    cdef Py_ssize_t size, at
    # of the last string or number
    cdef Py_ssize_t begin, end
    cdef double value
    cdef long long whole
    cdef bint is_whole
    # profiles
    cdef readonly dict profiles, places
    # jobs, by index
    cdef readonly Py_ssize_t count
    cdef readonly list ids, requests, hosts_asked, comments
    cdef readonly object dates, walltimes, processors, profile_of
    cdef double[::1] date_at, walltime_at
    cdef long long[::1] processors_at, profile_at
    # fields, by place
    cdef list names
    cdef bytes layout  # the names one after the other
    cdef const unsigned char* layout_data
    cdef long long[::1] ends, code_at
    @cython.locals(count=Py_ssize_t)
    cpdef bint scan_profiles(self) except -1
    @cython.locals(name=bytes, profile=dict)
    cdef bint scan_profile(self) except -1
    cdef bint scan_field(self, bytes name) except -1
    cpdef bint scan_jobs(self) except -1
    @cython.locals(index=Py_ssize_t, given=int, code=int, place=Py_ssize_t)
    cdef bint scan_job(self) except -1
    @cython.locals(at=Py_ssize_t, since=Py_ssize_t, until=Py_ssize_t, known="const unsigned char*", code=int)
    cdef int scan_name(self, Py_ssize_t place) except? -2
    @cython.locals(letter=int, found=Py_ssize_t)
    cdef bint scan_value(self, int code, Py_ssize_t index) except -1
    @cython.locals(letter=int, begin=Py_ssize_t, depth=Py_ssize_t, text=bytes)
    cdef bint scan_request(self, int code, Py_ssize_t index) except -1
    @cython.locals(letter=int, at=Py_ssize_t, data="const unsigned char*")
    cdef bint scan_string(self) noexcept
    @cython.locals(data="const unsigned char*", at=Py_ssize_t, begin=Py_ssize_t, is_negative=bint, whole="long long", letter=int, digits=Py_ssize_t, has_point=bint, decimals=Py_ssize_t)
    cdef bint read_number(self) except -1
    cdef bint scan_number(self) except -1
    @cython.locals(width=Py_ssize_t, count=Py_ssize_t, line=Py_ssize_t, begin=Py_ssize_t, end=Py_ssize_t, column=Py_ssize_t, letter=int)
    cpdef Py_ssize_t scan_rows(self, double[:, ::1] matrix, long long[::1] lines) except? -2
    @cython.locals(letter=int)
    cdef void pass_spaces(self) noexcept
    @cython.locals(begin=Py_ssize_t, is_null=bint)
    cdef bint take_null(self) except -1
    cdef bint take(self, int letter) noexcept
    @cython.locals(letter=int)
    cdef void pass_blanks(self) noexcept
