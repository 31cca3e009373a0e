from qops_batsim.core.capacity cimport Capacity
from qops_batsim.core.job cimport Job
from qops_batsim.core.node_request cimport NodeRequest
from qops_batsim.core.node_use cimport NodeUse

cdef int WAITING, RUNNING, OVER  # assigned by the import of the same names

cdef class ResourceManager:
    cdef public Py_ssize_t machine_size  # hosts, there or away
    cdef public Py_ssize_t free  # hosts on which a job can start now; the implementation keeps it
    cdef public double now  # set by the engine before it calls a hook
    # set by the scheduler
    cdef public bint drains, plans, shares_hosts
    cdef public list refusals  # None where nobody collects them
    # set by the engine
    cdef public Capacity capacity
    cdef public object news  # News
    cdef public double grace
    cdef public bint news_in_parts
    cdef public object system  # System
    cdef public NodeUse use  # None: hosts are whole
    # kept of jobs
    cdef public object qos_log  # QosLog
    cdef public dict registered  # of each registered job, by id: the id of the job whose work it does
    cdef public bint hides_profiles
    cdef public dict registered_profiles  # by workload and name
    cpdef start(self, Job job, object hosts=*)
    cpdef reject(self, Job job, object reason)
    cpdef kill(self, Job job)
    cpdef register(self, Job job, object profile=*)
    cpdef register_again(self, Job job, Job original, Job killed, double saved)
    cpdef finish_registering(self)
    cpdef profile_of(self, Job job)
    cpdef check_saves(self, Job job)
    cpdef original_id(self, Job job)
    cpdef know_original(self, Job job, str original)
    cpdef record(self, Job job)
    cpdef note_deadline(self, Job job, double deadline)
    cpdef note_metadata(self, Job job, str text)
    cpdef call_at(self, double date)
    cpdef bint begin_maintenance(self) except -1
    cpdef hosts_of(self, Job job)
    cpdef count_free(self)
    cpdef NodeRequest asking(self, Job job)
    cpdef start_job(self, Job job, object hosts)
    cpdef reject_job(self, Job job, object reason)
    cpdef kill_job(self, Job job)
    cpdef register_job(self, Job job, object profile)
    cpdef note_refusal(self, Job job, object reason)
    cpdef know_registered(self, Job job, object profile)

cdef class Scheduler:
    cdef public ResourceManager manager
    cdef public object options
    cdef public bint logs
    cpdef begin(self, ResourceManager manager)
    cpdef submitted(self, Job job)
    cpdef ended(self, Job job)
    cpdef killed(self, Job job)
    cpdef progressed(self, Job job, object progress)
    cpdef cancelled(self, Job job)
    cpdef joined(self, Job job)
    cpdef hosts_changed(self, Py_ssize_t announced)
    cpdef all_submitted(self)
    cpdef called(self)
    cpdef notified(self, object notification)
    cpdef decide(self)
    cpdef finished(self)
