cimport cython

cdef long long _LEAST
cdef bytes NO_FRACTION, PAIRS_TEXT
cdef const unsigned char* PAIRS
cdef int ZERO, POINT, MINUS, BLANK, LONGEST

@cython.final
cdef class Letters:
    cdef bytearray buffer
    cdef unsigned char* data  # of the buffer
    cdef Py_ssize_t room  # letters that there is room for
    cdef Py_ssize_t size  # letters that are there
    cpdef bytes take(self)
    cdef int make_room(self, Py_ssize_t count) except -1
    @cython.locals(count=Py_ssize_t, place=Py_ssize_t, size=Py_ssize_t, data="unsigned char*", source="const unsigned char*")
    cdef int add(self, bytes text) except -1
    cdef void add_letter(self, int letter) noexcept
    @cython.locals(place=Py_ssize_t, size=Py_ssize_t, data="unsigned char*", rest="unsigned long long", pair=Py_ssize_t)
    cdef void add_digits(self, unsigned long long value, Py_ssize_t count) noexcept
    @cython.locals(count=Py_ssize_t, limit="unsigned long long")
    cdef void add_whole(self, unsigned long long value) noexcept

cdef class Cells:
    cdef public bytes before
    cdef write(self, Letters out, Py_ssize_t row)

cdef class TextCells(Cells):
    cdef list texts
    @cython.locals(text=str)
    cdef write(self, Letters out, Py_ssize_t row)

cdef class WordCells(Cells):
    cdef list words
    cdef const long long[::1] which
    cdef write(self, Letters out, Py_ssize_t row)

cdef class WholeCells(Cells):
    cdef const long long[::1] values
    @cython.locals(value="long long")
    cdef write(self, Letters out, Py_ssize_t row)

cdef class DecimalCells(Cells):
    cdef const long long[::1] micros
    cdef object odd
    @cython.locals(value="unsigned long long", micros="long long", whole="unsigned long long", rest="unsigned long long")
    cdef write(self, Letters out, Py_ssize_t row)

cdef class GeneralCells(Cells):
    cdef const long long[::1] digits, powers
    cdef object odd
    @cython.locals(digits="long long", power="long long", behind=int, unit="long long", whole="long long")
    cdef write(self, Letters out, Py_ssize_t row)

cdef class IntervalCells(Cells):
    cdef const long long[::1] offsets, first, last
    @cython.locals(begin=Py_ssize_t, place=Py_ssize_t, low="long long", high="long long")
    cdef write(self, Letters out, Py_ssize_t row)

cdef class RowWriter:
    cdef list columns
    cdef bytes end
    cdef Letters out
    @cython.locals(columns=list, count=Py_ssize_t, place=Py_ssize_t, row=Py_ssize_t, out=Letters, column=Cells)
    cpdef bytes rows(self, Py_ssize_t begin, Py_ssize_t end)
