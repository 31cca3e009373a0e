"""Former names that users' schedulers may still use, and the names that replaced them.

The same table stands in the changelog.
"""

from __future__ import annotations

import re

RENAMED: dict[str, str] = {
    # Names of the package
    "DecisionModule": "`Scheduler`: it acts through `self.manager` and returns no decisions",
    "SpaceSharingScheduler": "`QueueScheduler`",
    "scheduler foresight": (
        "`fqops` with `headroom`, `kill_and_restart` and `restart_price`; nothing is learned"
    ),
    # What a class overrides
    "begin(system)": "`begin(manager)`, which is `self.manager` from then on",
    "told_at(now)": "`self.manager.now`",
    "arrived(job)": "`submitted(job)`; of a `QueueScheduler` as before",
    "completed(event)": "`ended(job)`, with `job.state`",
    "left(job)": "`ended(job)`",
    "killed(job_ids)": "`killed(job)`, once for each",
    "progressed(progress)": "`progressed(job, progress)`, once for each",
    "joined(job, start, hosts)": "`joined(job)`; the start is `job.start`",
    "withdraw(job_id)": "`cancelled(job)`; a job that is cancelled leaves `self.queue`",
    "withdraw_wider(processors)": "`self.queue`, which jobs leave that can never run",
    "resized()": "`hosts_changed(announced)`",
    "call()": "`called()`",
    "schedule(now)": "`schedule()`; the date is `self.manager.now`",
    "decide(now)": "`decide()`, which calls `self.manager.start(job)` and the like",
    "end()": "`finished()`",
    "new_plan(machine_size)": "`empty_plan(machine_size)`, whose plan is `self.plan`",
    "admit(request)": (
        "`admit(job)`, which takes the job into the plan (`self.adopt_starts`, "
        "`self.plan.place_new`), or returns why not"
    ),
    "hears_of_cancellations": "`cancelled(job)`, if it is overridden",
    "hears_of_others": "`joined(job)`, if it is overridden",
    # What a class uses
    "self.free_count": "`self.manager.free`",
    "self.free_hosts": "`self.manager.free_mask()`, as bits",
    "self.machine_size": "`self.manager.machine_size`",
    "self.capacity": "`self.manager.capacity`",
    "self.news": "`self.manager.news`",
    "self.running_jobs()": "`self.running`: jobs by expected end, with `start` and `end`",
    "self.availability(now)": "`self.availability()`",
    "self.returning(job_id)": "`job.returning`",
    "self.reject(job, reason)": "`self.manager.reject(job, reason)`",
    "self.qos_log.record(job.id)": "`self.manager.record(job)`",
    "request.now": "`self.now`",
    "request.availability": "`self.availability()`",
    "request.waiting": "`self.plan.waiting`",
    "request.target": "`job.target`",
}
"""Successors by former name; methods stand with their arguments."""


def successor(name: str) -> str | None:
    """Return, for a message, the name that replaced a former one; None for other names."""
    told = RENAMED.get(name)
    return None if told is None else told.replace("`", "")


def note_successor(error: AttributeError) -> None:
    """Add to an error about a former name the name that replaced it."""
    for entry in RENAMED:
        if re.match(rf"self\.{re.escape(str(error.name))}\b", entry):
            error.add_note(f"{entry} of before: {successor(entry)}")


def hooks_before() -> dict[str, tuple[str, list[str]]]:
    """Return, for each former hook of schedulers, its new name and its former arguments."""
    found = {}
    for entry in RENAMED:
        name, _, arguments = entry.rstrip(")").partition("(")
        if "." not in name and name.islower():
            found[name] = entry, arguments.replace(",", "").split()
    return found
