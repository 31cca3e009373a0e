"""What a run tells whoever watches it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from qops_batsim import run
from qops_batsim.running.progress import ProgressListener


class Heard(ProgressListener):
    """Notes everything."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, int | None, list[int]]] = []
        self.open = 0

    @contextmanager
    def phase(self, title: str, steps: int | None = None) -> Iterator[Callable[[int], None]]:
        assert not self.open
        self.open += 1
        self.parts.append((title, steps, []))
        yield self.parts[-1][2].append
        self.open -= 1


def test_the_parts_of_a_run_follow_each_other(tmp_path: Path) -> None:
    heard = Heard()
    done = run("easy", "tiny_8", out=tmp_path / "a", progress=heard)
    titles = [title for title, _, _ in heard.parts]
    assert titles == [
        "reading the workload",
        "easy on tiny_8",
        "writing",
        "reading back",
        "verifying",
    ]
    assert heard.parts[1][1] == 8
    assert heard.parts[1][2][-1] == 8
    assert heard.parts[4][1:] == (done.rules, list(range(done.rules)))
