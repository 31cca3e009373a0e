"""A Gymnasium environment: admit or refuse each job with a deadline, or offer another one.

    import gymnasium
    import qops_batsim.adapters.gymnasium  # registers it

    env = gymnasium.make("qops_batsim/Deadlines-v0", workload="kth_sp2_1000", load=1.3)

An episode is a stretch of a log under the embedded engine, a step is one request. Needs the extra
``gym``: ``pip install 'qops-batsim[gym]'``.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Any

import gymnasium
import msgspec
import numpy as np
from gymnasium import spaces

from qops_batsim.adapters.steered import (
    ANSWERS,
    FEATURES,
    HIGHEST,
    ORDERS,
    Action,
    Observation,
    Steered,
    SteeredOptions,
    checked_action,
)
from qops_batsim.core.qos_log import QosLog
from qops_batsim.errors import InputError, require, require_one_of
from qops_batsim.experiments.deadline_runs import DeadlineRuns, Scenario
from qops_batsim.experiments.listed_cases import outages_of_case, with_users_estimates
from qops_batsim.jobs import Job
from qops_batsim.optimum.best import Limits, best_possible
from qops_batsim.optimum.problem import OBJECTIVES, problem_of, worth_of
from qops_batsim.parameters import ESTIMATES, EXACT, USERS
from qops_batsim.running.inputs import AnyEvents, AnyWorkload, load_workload
from qops_batsim.running.simulate import simulate
from qops_batsim.timing import PLAN_TOLERANCE
from qops_batsim.workload.workload_model import Workload, refuse_amounts

ENVIRONMENT = "qops_batsim/Deadlines-v0"


class Abandoned(Exception):
    """Raised in the thread of an episode's simulation if the episode is abandoned unfinished."""


class _Episode:
    """Scheduling policy of one episode: it hands each observation to the environment's thread and
    waits for the action.
    """

    def __init__(self, worth: dict[str, float], penalty: float) -> None:
        self.questions: SimpleQueue[Observation | BaseException | None] = SimpleQueue()
        self.actions: SimpleQueue[Action | None] = SimpleQueue()
        self.kept = 0
        self.broken = 0
        self.refused = 0

        self._worth = worth
        self._penalty = penalty
        self._promises: dict[str, tuple[float, float]] = {}
        self._reward = 0.0

    def act(self, observation: Observation) -> Action:
        self.questions.put(observation)
        action = self.actions.get()
        if action is None:
            raise Abandoned
        return action

    def decided(self, now: float, new: Sequence[Job], ended: Sequence[str], log: QosLog) -> None:
        for job_id in ended:
            promise, worth = self._promises.pop(job_id, (math.nan, 0.0))
            if now <= promise + PLAN_TOLERANCE:
                self.kept += 1
                self._reward += worth
            elif promise < now:
                self.broken += 1
                self._reward -= self._penalty * worth

        for job in new:
            deadline = job.deadline
            if deadline == math.inf:
                continue

            admitted = log.record(job.id).admitted_deadline
            if admitted is None:
                self.refused += 1
                continue
            # A later promise is worth less: in the proportion of the response times.
            part = min(1.0, (deadline - job.submission_time) / (admitted - job.submission_time))
            self._promises[job.id] = admitted, part * self._worth[job.id.partition("!")[2]]

    def take_reward(self) -> float:
        """Return the reward for promises that were kept or broken since the last call."""
        reward = self._reward
        self._reward = 0.0
        return reward


class DeadlinesEnv(gymnasium.Env[Observation, Any]):
    """Gymnasium environment of admission control: each step answers one job that requests a
    deadline.

    The observation is of ten numbers, :data:`~qops_batsim.adapters.steered.FEATURES`; the action
    of two: the answer (refuse, admit, offer) and the order in which waiting jobs are placed again
    for the job (least laxity, earliest deadline); :mod:`~qops_batsim.adapters.steered` tells more.

    The reward are the promises that were kept since the last step, less ``penalty`` times those
    that were broken, in % of what all requests of the episode are worth: the sum of an episode is
    the share of it, to be compared with :meth:`bound`. A promise later than asked for is
    worth as much less as its response time is longer.

    Parameters
    ----------
    workload
        The log: a workload of ``delay`` jobs, the path of one, or the name of a shipped one.
    jobs
        Jobs of a stretch; which one, and what is duplicated for the load, follows from the seed.
    load, stringency, share, estimates
        As of :class:`~qops_batsim.experiments.deadline_runs.Scenario`: the load by duplication, how
        strict deadlines are, the share of jobs that have one; ``"users"``: deadlines are made from
        the log's walltimes, and planned with these, or ``"exact"``: with run times.
    outages
        Whether hosts leave now and then.
    objective
        What promises are worth: ``"jobs"``, ``"work"`` or ``"charge"``.
    penalty
        How many times its worth a broken promise costs.
    tolerance_factor
        Users accept an offer up to this factor times the response time they asked for.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as in its base

    def __init__(
        self,
        workload: AnyWorkload = "sdsc_sp2_1000",
        *,
        jobs: int = 300,
        load: float = 1.3,
        stringency: float = 0.2,
        share: float = 1.0,
        estimates: str = ESTIMATES.default,
        outages: bool = False,
        objective: str = "jobs",
        penalty: float = 1.0,
        tolerance_factor: float = 1.0,
        render_mode: str | None = None,
    ) -> None:
        require_one_of("objective", objective, OBJECTIVES)
        require_one_of("estimates", estimates, (EXACT, USERS))
        require(penalty >= 0, "penalty", penalty, "a number from 0 up is accepted")
        trace = load_workload(workload)
        refuse_amounts(trace, "DeadlinesEnv")
        fits = 1 <= jobs <= len(trace.jobs)
        require(fits, "jobs", jobs, f"a number from 1 to {len(trace.jobs)} is accepted")

        self.render_mode = render_mode
        self.observation_space = spaces.Box(0.0, HIGHEST, (len(FEATURES),), np.float32)
        self.action_space = spaces.MultiDiscrete([len(ANSWERS), len(ORDERS)])

        self._runs = DeadlineRuns({"": trace})
        self._last_skip = len(trace.jobs) - jobs
        self._scenario = Scenario(
            log="", first=jobs, load=load, stringency=stringency, share=share, artificial="none"
        )
        if estimates == USERS:
            self._scenario = with_users_estimates(self._scenario)
        self._scenario.choices.check()

        self._outages = outages
        self._objective = objective
        self._penalty = penalty
        self._options = SteeredOptions(tolerance_factor=tolerance_factor)
        self._workload: Workload | None = None
        self._thread: threading.Thread | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode; return the observation of its first request, and which window of the
        log it simulates.

        ``options`` may fix ``skip``, the jobs before the stretch, and ``seed``, that of duplicates
        and outages.
        """
        most = {"skip": self._last_skip, "seed": 1 << 62}
        for name, value in (options or {}).items():
            if name not in most:
                raise InputError(f"reset has no option {name!r}; skip and seed are accepted")
            fits = isinstance(value, (int, np.integer)) and bool(0 <= value <= most[name])
            require(fits, name, value, f"a whole number from 0 to {most[name]} is accepted")

        super().reset(seed=seed)
        self.close()
        chosen = {
            "skip": int(self.np_random.integers(self._last_skip + 1)),
            "seed": int(self.np_random.integers(1, 1 << 31)),
            **(options or {}),
        }
        workload = self._runs.workload(msgspec.structs.replace(self._scenario, **chosen))
        self._workload = workload
        worth = self._worth(workload)
        events = outages_of_case(chosen["seed"], workload) if self._outages else None

        self._episode = _Episode(worth, self._penalty)
        self._thread = threading.Thread(
            target=_simulate, args=(self._options, self._episode, workload, events), daemon=True
        )
        # An environment that nobody holds any more, closed or not, leaves no thread behind.
        self._leave = weakref.finalize(self, self._episode.actions.put, None)
        self._thread.start()
        return self._next(), {**chosen, "requests": len(worth)}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Answer the current request; return the observation of the next one, and the reward for
        promises kept or broken in between.

        A wrong action is an :class:`~qops_batsim.errors.InputError`, and the request still waits.
        At the end ``info`` has the numbers of promises ``kept`` and ``broken``, and of requests
        ``refused``.
        """
        if self._thread is None:
            raise gymnasium.error.ResetNeeded("no episode has begun; call reset() first")
        episode = self._episode
        episode.actions.put(checked_action(action))
        observation = self._next()
        over = self._thread is None
        info = {"kept": episode.kept, "broken": episode.broken, "refused": episode.refused}
        return observation, episode.take_reward(), over, False, info if over else {}

    def close(self) -> None:
        """End the current episode and its simulation, if it is unfinished."""
        if self._thread is not None:
            self._leave()
            self._thread.join()
            self._thread = None

    def bound(self, units: float = 0.5) -> float:
        """Return an upper bound of the episode's total reward, which no schedule exceeds even if it
        knows the future.

        In % of what all requests are worth, as the reward. The search takes ``units`` of
        deterministic time, about seconds, and needs the extra ``bound``. Outages are left out.
        """
        if self._workload is None:
            raise gymnasium.error.ResetNeeded("no episode has begun; call reset() first")
        limits = Limits(seconds=units, by_clock=False)
        (best,) = best_possible(self._workload, [self._objective], limits)
        # Jobs without a deadline are no requests, and every schedule may have them.
        free = worth_of(self._workload, self._objective)[problem_of(self._workload).free].sum()
        return 100.0 * float((best.bound - free) / (best.total - free))

    def _worth(self, workload: Workload) -> dict[str, float]:
        """Return, by job id, what each requested deadline is worth, in % of what all requests of
        the episode are worth.
        """
        worth = worth_of(workload, self._objective).tolist()
        asked = {
            job.id: value
            for job, value in zip(workload.jobs, worth, strict=True)
            if job.deadline < math.inf
        }

        total = sum(asked.values())
        if not total:
            raise InputError(
                f"{workload.source}: no job of this stretch has a deadline that counts for "
                "the reward; a larger share of jobs with deadlines (share), or more jobs "
                "(jobs), are expected"
            )
        return {job_id: 100.0 * value / total for job_id, value in asked.items()}

    def _next(self) -> Observation:
        """Wait for the next request and return its observation; zeros if the episode is over."""
        question = self._episode.questions.get()
        if isinstance(question, np.ndarray):
            return question
        assert self._thread is not None
        self._leave.detach()
        self._thread.join()
        self._thread = None
        if isinstance(question, BaseException):
            raise question
        return np.zeros(len(FEATURES), np.float32)


def _simulate(
    options: SteeredOptions, episode: _Episode, workload: Workload, events: AnyEvents | None
) -> None:
    """Simulate an episode, then report to the environment that it has ended, or the error with
    which it failed.
    """
    try:
        simulate(Steered(options, episode), workload, events=events)
        episode.questions.put(None)
    except Abandoned:
        pass
    except BaseException as error:  # noqa: BLE001 - it is raised where the episode is asked for
        episode.questions.put(error)


gymnasium.register(
    ENVIRONMENT,
    entry_point="qops_batsim.adapters.gymnasium:DeadlinesEnv",
)
