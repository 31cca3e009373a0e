cimport cython

cdef double _INFINITY

cdef class Account:
    cdef readonly Py_ssize_t number
    cdef public double shares, level, user_shares, usage

cdef class User:
    cdef readonly Py_ssize_t number
    cdef readonly Account account
    cdef public double shares, usage, level, factor

cpdef double level_factor(double shares, double all_shares, double usage, double all_usage) noexcept

@cython.locals(account=Account, that=Account)
cdef bint comes_before(User user, User other) noexcept

cdef class FairTree:
    cdef readonly list users, accounts, ranked
    cdef dict shares, by_name, accounts_by_name
    @cython.locals(found=User, group=Account)
    cpdef User user(self, str account, str name)
    @cython.locals(user=User)
    cpdef fade(self, double factor)
    @cython.locals(ranked=list, known=Py_ssize_t, last=Py_ssize_t, place=Py_ssize_t, rank=Py_ssize_t, without_ties=Py_ssize_t, before=double, user=User, earlier=User, is_tied=bint)
    cpdef set_factors(self)
    @cython.locals(all_shares=double, all_used=double, account=Account, user=User)
    cdef set_levels(self)
