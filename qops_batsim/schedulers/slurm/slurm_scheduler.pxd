cimport cython
from qops_batsim.core.host_bits cimport HostBits
from qops_batsim.core.job cimport Job
from qops_batsim.core.node_profile cimport NodeProfile
from qops_batsim.core.scheduler cimport ResourceManager
from qops_batsim.schedulers.queue_scheduler cimport QueueScheduler
from qops_batsim.schedulers.slurm.fair_share cimport FairTree, ShareHolder
from qops_batsim.timing cimport end_of, up_to_grid

cdef double _INFINITY, PLAN_TOLERANCE, LONGEST, FIRST_WINDOW, MANY, SAME_SIZE
cdef int WAITING

cdef double floor_of(double number) except? -1

cdef class Quota:
    # Limits; infinite: none
    cdef readonly double most_user_jobs, most_user_processors, most_jobs, most_processors

    # In use: in all, and by number of the user (only where there is a limit)
    cdef readonly Py_ssize_t jobs
    cdef readonly double processors
    cdef readonly dict user_jobs, user_processors

    cdef bint has_room(self, Py_ssize_t user) except -1
    @cython.locals(used=double)
    cdef bint has_processors(self, Py_ssize_t user, double needed) except -1
    cdef count(self, Py_ssize_t user, Py_ssize_t jobs, double processors)

cdef class QueueEntry:
    cdef readonly Job job
    cdef readonly ShareHolder user
    cdef readonly Quota quota
    cdef readonly Py_ssize_t number  # in the order of arrival
    cdef readonly double requested  # seconds, at most LONGEST
    cdef readonly Py_ssize_t least  # the fewest hosts
    cdef readonly double base  # the part of the priority that does not change
    cdef public double priority  # a whole number

    # If it runs
    cdef public double end  # as expected
    cdef public double since  # its usage is charged up to then
    cdef public HostBits hosts

    cdef public double cancelled  # when; NaN: it was not
    cdef public bint is_waiting  # False: started or cancelled in this pass, to be closed up

cdef class Record:
    cdef public double begin, end  # each record begins where the one before it ends
    cdef readonly HostBits hosts  # without a reservation

cdef class ClosedHosts:
    cdef readonly double since, until
    cdef readonly HostBits hosts

cdef class Slurm(QueueScheduler):
    # Options
    cdef readonly double weight_age, weight_fairshare, max_age, calc_period
    cdef readonly double decay  # of usage, a second
    cdef readonly double interval, resolution, window
    cdef readonly Py_ssize_t most_tests
    cdef readonly bint cancels

    # Users and limits
    cdef readonly FairTree tree
    cdef readonly dict quotas  # name of a QOS -> Quota
    cdef readonly Quota no_quota, of_all

    # Jobs
    cdef Py_ssize_t arrivals
    cdef readonly list entries  # waiting, by descending priority, ties by arrival
    cdef readonly list active  # running, by expected end, ties by arrival
    cdef readonly list starting, late  # started and cancelled in this decision, not reported yet
    cdef list left_jobs  # ended since the last decision

    # The backfill pass: records without gaps, from the date of the pass to the end of the window
    cdef list map
    cdef bint is_tested  # the last job tried had enough hosts at some date
    cdef list windows  # announced maintenance

    # Sets of hosts. chosen is what choose() found; trial are those that the job being tried may
    # get, future those of them that are free by some date, left is used by choose().
    cdef readonly HostBits there, free_hosts, chosen
    cdef HostBits trial, future, left

    # Where hosts are shared, at any date: what running jobs leave free, and what is free once some
    # of them have ended. free_hosts are those on which jobs may start then.
    cdef NodeProfile amounts, by_then

    # Dates (seconds)
    cdef double tick  # next calculation of usage and priorities
    cdef public double last_backfill  # minus infinity: there was none
    cdef double late_date  # first backfill pass that could cancel a job
    cdef double asked  # last date that a call was asked for
    cdef double fraction  # of this decision's date, which Slurm's clock does not show

    cdef bint has_changed  # something has happened since the last backfill pass
    cdef bint had_waiting  # jobs waited at the end of the last decision

    cpdef begin(self, ResourceManager manager)
    @cython.locals(entry=QueueEntry, now=double)
    cpdef arrived(self, Job job)
    cpdef ended(self, Job job)
    @cython.locals(entry=QueueEntry)
    cpdef joined(self, Job job)
    @cython.locals(entry=QueueEntry)
    cpdef cancelled(self, Job job)
    @cython.locals(entry=QueueEntry)
    cpdef list waiting(self)
    cpdef note_hosts(self, Py_ssize_t announced)
    @cython.locals(entry=QueueEntry, job=Job)
    cdef measure(self)
    cdef measure_one(self, Job job)
    @cython.locals(entry=QueueEntry)
    cpdef reject_wider(self)
    @cython.locals(manager=ResourceManager, entry=QueueEntry, date=double)
    cpdef schedule(self)
    cpdef why_cancelled(self, QueueEntry entry)
    @cython.locals(second=double, date=double, job=Job)
    cdef double run_passes(self, double now) except? -1
    @cython.locals(last=double, interval=double)
    cdef double backfill_date(self, double now) except? -1
    @cython.locals(entry=QueueEntry, latest=double, base=double, steps=double)
    cdef double call_date(self, double now, double date) except? -1
    @cython.locals(priority=double)
    cdef double priority_of(self, QueueEntry entry, double age) except? -1
    @cython.locals(entries=list, entry=QueueEntry, other=QueueEntry)
    cdef move_up(self, Py_ssize_t place)
    @cython.locals(soon=double, period=double, is_fair=bint, since=double, periods=double, tick=double, entry=QueueEntry, place=Py_ssize_t)
    cdef calculate_priorities(self, double now)
    @cython.locals(seconds=double)
    cdef charge(self, QueueEntry entry, double until)
    @cython.locals(entry=QueueEntry)
    cpdef fade(self, double since, double until)
    @cython.locals(entry=QueueEntry, factor=double, left=double, weight=double, used=double)
    cpdef fade_often(self, double periods, double until)
    cdef bint is_late(self, QueueEntry entry, double now) noexcept
    @cython.locals(own=Quota, of_all=Quota, most=double)
    cdef double most_allowed(self, QueueEntry entry) noexcept
    @cython.locals(user=Py_ssize_t)
    cdef bint has_room(self, QueueEntry entry) except -1
    @cython.locals(user=Py_ssize_t, needed=double)
    cdef bint has_processors(self, QueueEntry entry) except -1
    @cython.locals(user=Py_ssize_t, processors=double)
    cdef count_running(self, QueueEntry entry, Py_ssize_t jobs)
    cdef start_chosen(self, QueueEntry entry, double now)
    @cython.locals(active=list, place=Py_ssize_t, other=QueueEntry)
    cpdef run(self, QueueEntry entry, double now)
    @cython.locals(place=Py_ssize_t, entry=QueueEntry)
    cdef leave(self, Job job, double now)
    cdef cancel(self, QueueEntry entry, double now)
    cdef bint is_considered(self, QueueEntry entry, double now) except -1
    cdef double end_after(self, QueueEntry entry, double now) except? -1
    @cython.locals(entry=QueueEntry)
    cdef close_up(self)
    @cython.locals(entry=QueueEntry)
    cpdef main_pass(self, double now)
    @cython.locals(begin=double, end=double, hosts=HostBits, tests=Py_ssize_t, most=Py_ssize_t, entry=QueueEntry, start=double)
    cpdef backfill_pass(self, double now)
    cdef double down(self, double date) except? -1
    @cython.locals(duration=double, later=double, after=double, start=double, is_kept=bint)
    cdef double planned_start(self, QueueEntry entry, double now) except? -1
    @cython.locals(trial=HostBits, records=list, later=double, place=Py_ssize_t, record=Record, following=Record)
    cdef double hosts_until(self, double after, double end) except? -1
    @cython.locals(future=HostBits, trial=HostBits, active=list, window=double, until=double, index=Py_ssize_t, count=Py_ssize_t, last=Py_ssize_t, following=double, entry=QueueEntry)
    cdef double first_date(self, double now, QueueEntry waiting) except? -1
    cdef bint finds(self, QueueEntry entry, NodeProfile amounts) except -1
    cdef bint choose_sharing(self, QueueEntry entry, NodeProfile amounts) except -1
    @cython.locals(profile=NodeProfile, window=ClosedHosts, entry=QueueEntry, tests=Py_ssize_t, start=double, end=double)
    cdef plan_amounts(self, double now)
    @cython.locals(record=Record)
    cdef bint is_kept(self, double start, double end) except -1
    @cython.locals(records=list, first=Record, record=Record, place=Py_ssize_t, count=Py_ssize_t)
    cdef keep_for(self, double start, double end)
    @cython.locals(record=Record, hosts=HostBits)
    cdef split(self, Py_ssize_t place, double date)
    cdef bint reaches(self, ClosedHosts window, double start, double end) noexcept
    @cython.locals(window=ClosedHosts)
    cdef bint sees_maintenance(self, double start, double end) except -1
    @cython.locals(window=ClosedHosts, later=double, over=double)
    cdef double leave_windows(self, double start, double end) except? -1
    @cython.locals(left=HostBits, chosen=HostBits, best=Py_ssize_t, best_length=Py_ssize_t, host=Py_ssize_t, length=Py_ssize_t, taken=Py_ssize_t, end=Py_ssize_t, is_better=bint)
    cpdef choose(self, HostBits hosts, Py_ssize_t wanted)
