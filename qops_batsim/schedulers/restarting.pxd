cimport cython
from qops_batsim.core.job cimport Job
from qops_batsim.core.plan_log cimport PlanLog
from qops_batsim.core.job_sorting cimport sort_by_start
from qops_batsim.core.plan cimport Plan
from qops_batsim.core.profile cimport Profile
from qops_batsim.core.scheduler cimport ResourceManager
from qops_batsim.schedulers.deadline cimport meets
from qops_batsim.schedulers.qops cimport Qops
from qops_batsim.timing cimport end_of, on_grid

cdef double INFINITY, DEADLINE_TOLERANCE, PLAN_TOLERANCE
cdef int BY_KILL
cdef Py_ssize_t MOST_VICTIMS

cdef class Restart:
    cdef readonly Job victim, again, sake
    cdef readonly double since, saved, end  # since: the actual start

cdef double actual_start(Job job) noexcept

cdef class RestartingQops(Qops):
    cdef readonly bint kills
    cdef Py_ssize_t most_kills  # of one job; -1: any number
    cdef double youngest  # seconds that a run has at least when it is killed
    cdef double restart_price  # infinite: kills for one job may waste any amount of work

    # Restarts: chosen in this decision, killed but not ended yet, ended since the last decision
    cdef readonly list chosen, under_way, dead
    cdef bint registers  # the engine waits until no more jobs are registered
    cdef bint no_more_jobs  # of users

    cdef readonly double arrivals, work  # of jobs with an estimate: how many, processor-seconds

    cpdef begin(self, ResourceManager manager)
    cpdef submitted(self, Job job)
    @cython.locals(place=Py_ssize_t, restart=Restart)
    cpdef ended(self, Job job)
    cpdef all_submitted(self)
    @cython.locals(restart=Restart)
    cpdef cancelled(self, Job job)
    @cython.locals(restart=Restart)
    cpdef conclude_decision(self)
    @cython.locals(manager=ResourceManager, restart=Restart, again=Job, victim=Job, saved=double)
    cpdef prepare_decision(self)
    @cython.locals(interval=double, ran=double)
    cdef double saved_time(self, Job job, double now) except? -1
    cdef double lost_work(self, Job job, double now) except? -1
    @cython.locals(one=double, two=double)
    cdef bint comes_before(self, Job job, Job other, double now) except -1
    @cython.locals(soonest=double, rest=double)
    cdef bint may_be_killed(self, Job job, double now) except -1
    @cython.locals(victim=Job, each=Job)
    cdef Job next_victim(self, Job last, double now)
    cpdef count(self, double size, double duration)
    @cython.locals(now=double, most=double, free=Py_ssize_t, victim=Job, victims=list)
    cdef bint kill_for(self, Job new) except -1
    @cython.locals(end=double, room=Profile, victims=list, wasted=double, best=Job, place=Py_ssize_t, victim=Job)
    cdef list choose_sharing(self, Job new, double most, double now)
    @cython.locals(victims=list, wasted=double, best=Job, place=Py_ssize_t, victim=Job)
    cdef list choose_several(self, Py_ssize_t missing, double most, double now)
    @cython.locals(best=Job, each=Job, is_chosen=bint, victim=Job)
    cdef Job youngest_beside(self, list victims, double most, double now)
    @cython.locals(now=double, restarts=list, victim=Job, restart=Restart, found=bint)
    cdef bint kill_all(self, Job new, list victims) except -1
    @cython.locals(saved=double, again=Job)
    cdef Restart restart_of(self, Job victim, Job sake, double now)
    @cython.locals(now=double, soonest=double, line=list, kept=list, found=bint, job=Job, each=Job)
    cdef bint plan_all(self, Job new, list restarts) except -1
    @cython.locals(plan=Plan, log=PlanLog, restart=Restart, victim=Job, again=Job)
    cdef note_kills(self, Job new, list restarts)
