"""SimGrid's side of the comparison, run by a Python that has its module.

Reads cases from standard input, one JSON object a line, and writes for each the dates at which its
jobs end, by SimGrid's own model of parallel tasks, or null if it fails. A case is simulated in a
process of its own, as SimGrid can only simulate once in one.
"""

import json
import os
import signal
import sys

import simgrid

ARGUMENTS = ["judge", "--cfg=host/model:ptask_L07", "--log=root.thres:critical"]

LONGEST = 5
"""Seconds for a case. Sharing FATPIPE links may take SimGrid hours."""


def simulate(case):
    """Return the end of each job of a case (seconds); die if that takes too long."""
    signal.alarm(LONGEST)
    engine = simgrid.Engine(ARGUMENTS)
    engine.load_platform(case["platform"])
    ends = {}

    def run(job):
        simgrid.this_actor.sleep_until(job["start"])
        hosts = [engine.host_by_name(name) for name in job["hosts"]]
        for step in job["steps"]:
            if "sleep" in step:
                simgrid.this_actor.sleep_for(step["sleep"])
            else:
                simgrid.this_actor.parallel_execute(hosts, step["flops"], step["bytes"])
        ends[job["id"]] = engine.clock

    for job in case["jobs"]:
        simgrid.Actor.create(job["id"], engine.host_by_name(job["hosts"][0]), run, job)
    engine.run()
    return ends


def main():
    for line in sys.stdin:
        child = os.fork()
        if not child:
            say(simulate(json.loads(line)))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            say(None)


def say(answer):
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


main()
