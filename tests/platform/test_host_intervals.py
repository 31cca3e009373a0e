from hypothesis import given
from hypothesis import strategies as st

from qops_batsim.core import HostSet
from qops_batsim.platform.host_intervals import HostIntervals
from qops_batsim.tables import cells

SETS = st.lists(st.integers(0, 2**70 - 1).map(HostSet), max_size=8)


@given(SETS)
def test_texts_are_those_of_the_sets(sets: list[HostSet]) -> None:
    intervals = HostIntervals.of(sets)
    assert cells(intervals) == [str(hosts) for hosts in sets]


def test_intervals_of_a_set_lie_between_its_offsets() -> None:
    intervals = HostIntervals.of([HostSet.parse("0-3 5"), HostSet(), HostSet.parse("7")])
    assert intervals.offsets.tolist() == [0, 2, 2, 3]
    assert intervals.first.tolist() == [0, 5, 7]
    assert intervals.last.tolist() == [3, 5, 7]
