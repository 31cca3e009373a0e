cimport cython

cdef double _INFINITY

cdef class Account:
    cdef readonly Py_ssize_t number  # in the order of appearance
    cdef public double shares, level
    cdef public double user_shares, usage  # sums over its users; usage is decayed, as theirs

cdef class ShareHolder:
    cdef readonly Py_ssize_t number  # in the order of appearance
    cdef readonly Account account
    cdef public double shares, usage  # usage is decayed (processor-seconds)
    cdef public double level, factor  # as of the last set_factors()

cpdef double level_factor(double shares, double all_shares, double usage, double all_usage) noexcept

@cython.locals(account=Account, that=Account)
cdef bint comes_before(ShareHolder user, ShareHolder other) noexcept

cdef class FairTree:
    cdef readonly list users, accounts  # by number
    cdef readonly list ranked  # the users by rank, as of the last set_factors(); new ones last
    cdef dict shares  # ACCOUNT, or ACCOUNT/USER -> shares
    cdef dict by_name, accounts_by_name  # (account, user) -> ShareHolder, account -> Account

    @cython.locals(known=ShareHolder, user=ShareHolder, group=Account)
    cpdef ShareHolder user(self, str account, str name)
    @cython.locals(user=ShareHolder)
    cpdef fade(self, double factor)
    @cython.locals(ranked=list, known=Py_ssize_t, last=Py_ssize_t, place=Py_ssize_t, rank=Py_ssize_t, without_ties=Py_ssize_t, before=double, user=ShareHolder, earlier=ShareHolder, is_tied=bint)
    cpdef set_factors(self)
    @cython.locals(all_shares=double, all_used=double, account=Account, user=ShareHolder)
    cdef set_levels(self)
