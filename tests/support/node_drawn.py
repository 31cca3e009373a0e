"""Hand-drawn schedules of machines whose jobs share hosts.

In the pictures a row is a core (or another unit) of a host, a column a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from support.node_oracles import NodeJob, Part, SharedHost, SharedMachine


class Drawn(NamedTuple):
    """A case: start and hosts of each job, None of one that is refused."""

    name: str
    scheduler: str
    machine: SharedMachine
    jobs: Sequence[NodeJob]
    expected: Sequence[tuple[int, list[int]] | None]


def host(labels: str = "", *, weight: int = 0, licences: int = 0, **amounts: int) -> SharedHost:
    named = {"solver": licences} if licences else {}
    return SharedHost(amounts, frozenset(labels.split()), weight, named)


def machine(*hosts: SharedHost) -> SharedMachine:
    return SharedMachine(hosts)


def part(
    hosts: int = 1, labels: str = "", *, exclusive: bool = False, tasks: int = 0, **amounts: int
) -> Part:
    return Part(hosts, amounts, frozenset(labels.split()), exclusive, tasks)


def job(
    at: int,
    estimate: int,
    *parts: Part,
    run: int = 0,
    deadline: int | None = None,
    licences: int = 0,
) -> NodeJob:
    named = {"solver": licences} if licences else {}
    return NodeJob(parts, estimate, at, run, deadline, named)


PAGE = machine(host(cores=8, memory=32), host(cores=8, memory=32), host(cores=8, memory=64, gpus=2))
"""The three hosts of the page's picture."""

PAGE_JOBS = [
    job(0, 4, part(cores=6, memory=12)),
    job(0, 6, part(cores=2, memory=24)),
    job(0, 8, part(cores=4, memory=16, gpus=1)),
]

DRAWN = [
    # n0 ........   3 of 8 would leave 5/8, 3 of 4 leave 1/4.
    # n1 AAA.
    Drawn("best fit", "fcfs", machine(host(cores=8), host(cores=4)),
          [job(0, 5, part(cores=3))], [(0, [1])]),
    # n0 AABB   A: both leave 2/4, n0 has the lower number. B: n0 leaves nothing.
    # n1 C...   C: only n1 has a core.
    Drawn("ties", "fcfs", machine(host(cores=4), host(cores=4)),
          [job(0, 5, part(cores=2)), job(0, 5, part(cores=2)), job(0, 5, part(cores=1))],
          [(0, [0]), (0, [0]), (0, [1])]),
    # n0 B... g   A: n0 would be tighter (3/4 left), but its GPU would lie idle.
    # n1 A.......
    Drawn("host with a GPU avoided", "fcfs", machine(host(cores=4, gpus=1), host(cores=8)),
          [job(0, 5, part(cores=1)), job(0, 5, part(cores=1, gpus=1))], [(0, [1]), (0, [0])]),
    # n0 BBBBB       B does not wait for n1: the earliest date comes before the better host.
    # n1 AAAAA
    Drawn("date before host", "fcfs", machine(host(cores=4, gpus=1), host(cores=8)),
          [job(0, 5, part(cores=8)), job(0, 5, part(cores=2))], [(0, [1]), (0, [0])]),
    # n0 ..   weight 1   A: weight comes before an idle GPU and before a tight fit.
    # n1 AA.. weight 0, GPU
    Drawn("weights", "fcfs", machine(host(cores=2, weight=1), host(cores=4, gpus=1)),
          [job(0, 5, part(cores=2)), job(0, 5, part(cores=3))], [(0, [1]), (5, [1])]),
    # n0 AAACC    A has one core of n0, so B takes the four cores of n1 for the two that it asks
    #    ...CC    for, and C waits until A has ended. D has to wait behind C, for B's end.
    #    ...CC
    #    ...CC
    # n1 BBBBDD
    #    BBBBDD
    #    BBBBDD
    #    BBBB..
    Drawn("exclusive", "fcfs", machine(host(cores=4), host(cores=4)),
          [job(0, 3, part(cores=1)), job(0, 4, part(cores=2, exclusive=True)),
           job(0, 2, part(cores=1, exclusive=True)), job(1, 2, part(cores=3))],
          [(0, [0]), (0, [1]), (3, [0]), (4, [1])]),
    # n0 (old)  ....     The label leads to n1, then to n2; both labels only to n2.
    # n1 (new)  AA..
    # n2 (new, long)  BBBB CCCC
    Drawn("labels", "fcfs",
          machine(host("old", cores=2), host("new", cores=2), host("new long", cores=4)),
          [job(0, 4, part(1, "new", cores=2)), job(0, 4, part(1, "new", cores=2)),
           job(0, 4, part(1, "new long", cores=3))],
          [(0, [1]), (0, [2]), (4, [2])]),
    # n0 A       C's six tasks: four on n1, which takes most, the rest on n0, where D finds the
    #    CCD     last core. E waits.
    # n1 CCCC
    Drawn("tasks over two hosts", "fcfs", machine(host(cores=4), host(cores=4)),
          [job(0, 9, part(cores=1)), job(0, 5, part(2, tasks=6, cores=1)),
           job(0, 9, part(cores=1)), job(0, 9, part(cores=2))],
          [(0, [0]), (0, [0, 1]), (0, [0]), (5, [0])]),
    # n0 AAA     B's four tasks may have one host only: n0 has room for three, n1 for two, until
    #    ... BB  A ends at 3.
    # n1 ..
    Drawn("most hosts of tasks", "fcfs", machine(host(cores=4), host(cores=2)),
          [job(0, 3, part(cores=3)), job(0, 2, part(1, tasks=4, cores=1))],
          [(0, [0]), (3, [0])]),
    # Tasks of 1 core and 2 memory: n0 has memory for two, n1 for one, n2 a core for one. The single
    # task behind them finds room for one on each host: the lowest number.
    Drawn("tasks by the scarcest kind", "fcfs",
          machine(host(cores=8, memory=4), host(cores=8, memory=2), host(cores=1, memory=16)),
          [job(0, 3, part(3, tasks=4, cores=1, memory=2)),
           job(0, 1, part(1, tasks=1, cores=1, memory=2))],
          [(0, [0, 1, 2]), (3, [0])]),
    # Two licences, one on each host's name; hosts are free all the time.
    # licences A A A B B
    #          . . . B B
    Drawn("licences", "easy", machine(host(cores=8, licences=1), host(cores=8, licences=1)),
          [job(0, 3, part(cores=1), licences=1), job(0, 2, part(cores=1), licences=2),
           job(0, 4, part(cores=1), licences=1), job(0, 3, part(cores=1), licences=1)],
          [(0, [0]), (3, [0]), (5, [0]), (0, [0])]),
    # n0 AABB   The first part is tightest on n1, so the second has n0, beside which B still fits.
    # n1 AA     Both on n0 would have had room as well.
    Drawn("parts on different hosts", "fcfs", machine(host(cores=4), host(cores=2)),
          [job(0, 5, part(cores=2), part(cores=2)), job(0, 5, part(cores=2))],
          [(0, [0, 1]), (0, [0])]),
    # n0 AAA BB   The part with a GPU could start at 0, that with 4 cores at 3: both at 3.
    # n1     BB (GPU)
    Drawn("parts start together", "fcfs", machine(host(cores=4), host(cores=2, gpus=1)),
          [job(0, 3, part(cores=3)), job(0, 2, part(cores=1, gpus=1), part(cores=4))],
          [(0, [0]), (3, [0, 1])]),
    # The first part takes n0, on which alone the second could run: refused, though the other way
    # round both would fit.
    Drawn("parts in turn", "fcfs", machine(host("new", cores=4), host(cores=8)),
          [job(0, 3, part(cores=4), part(1, "new", cores=4)),
           job(0, 3, part(1, "new", cores=4), part(cores=4))],
          [None, (0, [0, 1])]),
    # n0 AA CC    A host without amounts is whole or nothing: C waits for n0, for n1 is B's.
    # n1 BBBB
    Drawn("host without amounts", "fcfs", machine(host(), host(cores=4)),
          [job(0, 2, part()), job(0, 4, part(cores=1)), job(0, 2, part())],
          [(0, [0]), (0, [1]), (2, [0])]),
    # More than a host has, more hosts than have it, labels that no host has, too many licences.
    Drawn("fit nowhere", "conservative", machine(host(cores=8), host(cores=4, licences=1)),
          [job(0, 1, part(cores=9)), job(0, 1, part(2, cores=5)), job(0, 1, part(1, "new")),
           job(0, 1, part(cores=1), licences=2), job(0, 1, part(2, tasks=13, cores=1)),
           job(0, 1, part(2, tasks=12, cores=1))],
          [None, None, None, None, None, (0, [0, 1])]),
    #        0   4  7     10
    # n0     AAAA
    #        AAAA
    #        AAAABBB         B has the reservation: two cores of each host at 4.
    #        EEEEEEEEEE      (one of A's and B's rows is free again behind B)
    # n1         BBB
    #            BBB
    #        CCCCCCCCCC      C fits beside B all the time. D would need three cores of a host.
    #        CCCCCCCCCC      E: n1 has no core left at 4, n0 has.
    Drawn("EASY beside the reservation", "easy", machine(host(cores=4), host(cores=4)),
          [job(0, 4, part(cores=3)), job(0, 3, part(2, cores=2)), job(0, 10, part(cores=2)),
           job(0, 3, part(cores=3)), job(0, 10, part(cores=1))],
          [(0, [0]), (4, [0, 1]), (0, [1]), (7, [0]), (0, [0])]),
    # n0 AAA........YYYYYYY  before: A until 12, B until 10, X and Y side by side on n1 at 10.
    # n0 AAAYYYYYYY          A ends at 3: Y moves to n0. X would find n0 at 10, tighter than n1,
    # n1 BBBBBBBBBBXXXXX     but no earlier: it keeps n1.
    Drawn("compression keeps hosts", "conservative", machine(host(cores=4), host(cores=8)),
          [job(0, 12, part(cores=4), run=3), job(0, 10, part(cores=8)), job(0, 7, part(cores=4)),
           job(0, 5, part(cores=4))],
          [(0, [0]), (0, [1]), (3, [0]), (10, [1])]),
    # n0 KKKKKK    JJJJJJJJ   J: one core of any host and one of a new one, in turn; planned at 10
    # n1 KKKKKK    JJJJJJJJ   on n0 and n1, L beside it on n1. K ends at 6: L would leave less of
    # (new)  LLLLLLLLLLLLLL…  n1, so J's first part would take n1: J keeps 10. L moves to 6.
    # Nothing ends at 10, and J has to start.
    *(Drawn(f"a start without an event, {scheduler}", scheduler,
            machine(host(cores=4), host("new", cores=4)),
            [job(0, 10, part(2, cores=4), run=6),
             job(1, 8, part(cores=1), part(1, "new", cores=1), deadline=18),
             job(1, 20, part(1, "new", cores=1))],
            [(0, [0, 1]), (10, [0, 1]), (6, [1])])
      for scheduler in ("conservative", "qops")),
    # The picture of the page: C finds two hosts at 4, though at 1 the machine
    # has cores and memory enough.
    Drawn("QoPS admits", "qops", PAGE,
          [*PAGE_JOBS, job(1, 2, part(2, cores=3, memory=12), deadline=6)],
          [(0, [0]), (0, [1]), (0, [2]), (4, [0, 2])]),
    Drawn("QoPS refuses", "qops", PAGE,
          [*PAGE_JOBS, job(1, 2, part(2, cores=3, memory=12), deadline=5)],
          [(0, [0]), (0, [1]), (0, [2]), None]),
    # n0 AAUUWWWW   W was planned at 2. U asks to end by 4: placed before W, whose latest start is
    #               16. V asks the same: refused, and U and W stay.
    Drawn("QoPS reorders", "qops", machine(host(cores=4)),
          [job(0, 2, part(cores=3)), job(1, 4, part(cores=2), deadline=20),
           job(1, 2, part(cores=4), deadline=4), job(1, 2, part(cores=4), deadline=4)],
          [(0, [0]), (4, [0]), (2, [0]), None]),
    # n0 RRRR MMM     W (two hosts, 2 s) was planned at 4 and must end by 8. M (one host, 3 s) must
    # n1 RRRR         end by 9. By latest start (both 6, W came first) W is placed first: M would
    #       WW…       start at 6 and end at 9 in time.
    Drawn("QoPS in order of latest starts", "qops", machine(host(cores=2), host(cores=2)),
          [job(0, 4, part(2, cores=2)), job(1, 2, part(2, cores=2), deadline=8),
           job(1, 3, part(cores=2), deadline=9)],
          [(0, [0, 1]), (4, [0, 1]), (6, [0])]),
    #    0  3  6   10      C arrives at 2. In the order of latest starts C, A, B it would be
    # n0 RRRBBBAAAA        C 2, A 5, B 9, where B ends at 12, after its 10. So the half that was
    # n1   CCC AAAA        placed later, A, is taken out again and B comes first.
    Drawn("QoPS repairs", "qops", machine(host(cores=2), host(cores=2)),
          [job(0, 3, part(cores=2)), job(1, 4, part(2, cores=2), deadline=11),
           job(1, 3, part(cores=2), deadline=10), job(2, 3, part(cores=2), deadline=9)],
          [(0, [0]), (6, [0, 1]), (3, [0]), (2, [1])]),
]  # fmt: skip
