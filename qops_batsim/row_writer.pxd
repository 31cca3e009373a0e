cimport cython

cdef long long ODD
cdef double MOST_COUNTED, EXACT, SURELY, MILLION
cdef double[::1] POWERS
cdef int LARGEST_POWER, EXACT_POWER
cdef int COMMA, QUOTE, NEW_LINE, RETURN, SHIELD, EQUALS, PLUS, AT
cdef bytes NO_FRACTION, PAIRS_TEXT
cdef const unsigned char* PAIRS
cdef int ZERO, POINT, MINUS, BLANK, LONGEST

@cython.locals(size=double, whole="long long", rest=double, rounded="long long", micros="long long", is_sure=bint)
cdef long long millionths(double value, bint is_negative) noexcept
@cython.locals(power=int, scaled=double, digits="long long", whole="long long")
cdef long long significant(double value) noexcept
@cython.locals(row=Py_ssize_t, value=double, whole="long long")
cpdef bint are_whole(const double[::1] values)
@cython.locals(row=Py_ssize_t, value=double, micros="long long")
cpdef read_decimals(const double[::1] values, const long long[::1] bits, double[::1] read)
@cython.locals(row=Py_ssize_t, value=double, found="long long", power=int, digits="long long")
cpdef read_general(const double[::1] values, const long long[::1] bits, double[::1] read)
@cython.locals(text=str, place=Py_ssize_t, letter=int)
cpdef bint are_plain(list texts)

@cython.final
cdef class Letters:
    cdef bytearray buffer
    cdef unsigned char* data  # of the buffer
    cdef Py_ssize_t room  # letters that there is room for
    cdef Py_ssize_t size  # letters that are there
    cpdef bytes take(self)
    cdef int make_room(self, Py_ssize_t count) except -1
    cdef int add(self, bytes text) except -1
    @cython.locals(place=Py_ssize_t, size=Py_ssize_t, data="unsigned char*")
    cdef int add_part(self, const unsigned char* source, Py_ssize_t begin, Py_ssize_t end) except -1
    cdef void add_letter(self, int letter) noexcept
    @cython.locals(place=Py_ssize_t, size=Py_ssize_t, data="unsigned char*", rest="unsigned long long", pair=Py_ssize_t)
    cdef void add_digits(self, unsigned long long value, Py_ssize_t count) noexcept
    @cython.locals(count=Py_ssize_t, limit="unsigned long long")
    cdef void add_whole(self, unsigned long long value) noexcept

cdef class Cells:
    cdef public bytes before
    cdef int write(self, Letters out, Py_ssize_t row) except -1

cdef class WordCells(Cells):
    cdef const long long[::1] which
    cdef bytes text
    cdef const unsigned char* data  # of the text
    cdef long long[::1] ends
    @cython.locals(is_ascii=bint, place=Py_ssize_t, end=Py_ssize_t, word=str)
    cdef int find_ends(self, list words) except -1
    @cython.locals(word=Py_ssize_t)
    cdef int write(self, Letters out, Py_ssize_t row) except -1

cdef class WholeCells(Cells):
    cdef const long long[::1] values
    @cython.locals(value="long long")
    cdef int write(self, Letters out, Py_ssize_t row) except -1

cdef class DecimalCells(Cells):
    cdef const double[::1] values
    cdef const long long[::1] bits
    @cython.locals(value=double, is_negative=bint, micros="long long", whole="long long", rest="long long")
    cdef int write(self, Letters out, Py_ssize_t row) except -1

cdef class GeneralCells(Cells):
    cdef const double[::1] values
    cdef const long long[::1] bits
    @cython.locals(value=double, found="long long", power=int, digits="long long", behind=int, unit="long long", whole="long long")
    cdef int write(self, Letters out, Py_ssize_t row) except -1

cdef class IntervalCells(Cells):
    cdef const long long[::1] offsets, first, last
    @cython.locals(begin=Py_ssize_t, place=Py_ssize_t, low="long long", high="long long")
    cdef int write(self, Letters out, Py_ssize_t row) except -1

cdef class RowWriter:
    cdef list columns
    cdef bytes end
    cdef Letters out
    @cython.locals(columns=list, count=Py_ssize_t, place=Py_ssize_t, row=Py_ssize_t, out=Letters, column=Cells)
    cpdef bytes rows(self, Py_ssize_t begin, Py_ssize_t end)
