"""``qops-batsim quote --queue`` and ``--listen``: quotes about a queue as it is now."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qops_batsim.cli.console import announce_compiling, note, print_json, print_table, say
from qops_batsim.cli.texts import duration_text
from qops_batsim.errors import InputError

if TYPE_CHECKING:
    from qops_batsim.advice.queue_quote import Ask, QueueAnswer, QueueAsker


@dataclass
class QueueSource:
    """A file of a queue, or none, and how it is to be read; asked again, it tells of changes."""

    path: Path | None
    scheduler: str
    settings: Mapping[str, Any]
    machine: int | None = None
    now: float | None = None
    may_wait: bool = False
    _seen: tuple[int, int, int] | None = field(default=None, init=False)

    def read(
        self, content: bytes, source: str = "the queue", written_at: float | None = None
    ) -> QueueAsker:
        """Return what answers about a queue, by default one that is written now."""
        from qops_batsim.advice.queue_quote import QueueAsker
        from qops_batsim.advice.queue_read import read_queue

        date = time.time() if written_at is None else written_at
        state = read_queue(content, source, processors=self.machine, now=self.now, written_at=date)
        return QueueAsker(state, self.scheduler, self.settings, may_wait=self.may_wait)

    def changed(self) -> QueueAsker | None:
        """Return what answers about the file, None if it is as it was."""
        from qops_batsim.advice.queue_state import MAX_QUEUE_BYTES
        from qops_batsim.files import read_bytes

        if self.path is None:
            return None
        if str(self.path) == "-":
            if self._seen is not None:
                return None
            self._seen = (0, 0, 0)
            return self.read(sys.stdin.buffer.read(MAX_QUEUE_BYTES + 1), "standard input")
        try:
            found = self.path.stat()
        except OSError as error:
            raise InputError(f"{self.path}: {error.strerror}; a queue is expected") from None
        seen = (found.st_mtime_ns, found.st_size, found.st_ino)
        if seen == self._seen:
            return None
        content = read_bytes(self.path, what="a queue", max_bytes=MAX_QUEUE_BYTES)
        asker = self.read(content, str(self.path), found.st_mtime)
        self._seen = seen
        return asker


def quote_queue(source: QueueSource, asks: Sequence[Ask], *, as_json: bool) -> None:
    """Print what could be promised to each job."""
    import msgspec

    with announce_compiling(as_json):
        asker = source.changed()
        assert asker is not None
        answers = asker.ask_all(asks)
    if as_json:
        state = {"now": asker.state.now, "left_out": asker.state.left_out, "late": asker.late}
        print_json({"state": state, "jobs": msgspec.to_builtins(answers)})
        return
    from qops_batsim.advice.queue_state import date_text

    say(
        f"{asker.state.source} at {date_text(asker.state.now)}: {asker.free:,} of "
        f"{asker.state.processors:,} processors free, jobs: {asker.running:,} running, "
        f"{asker.waiting:,} waiting"
    )
    for reason, count in asker.state.left_out.items():
        note(f"left out: {count:,} {reason}")
    if asker.late:
        note(f"{len(asker.late):,} promises cannot be kept as it is: {', '.join(asker.late[:5])}")
    rows = [_row(each) for each in answers]
    print_table(
        "Earliest promises, each as if it were the only new job",
        [*rows[0]],
        [[*row.values()] for row in rows],
    )
    for each in answers:
        if each.reason:
            say(f"{each.processors} x {duration_text(each.time)}: refused: {each.reason}")


def _row(answer: QueueAnswer) -> dict[str, str]:
    row = {
        "processors": f"{answer.processors:,}",
        "run time": duration_text(answer.time),
        "starts in": "-" if answer.wait is None else duration_text(answer.wait),
        "ends in": "none" if answer.response is None else duration_text(answer.response),
        "promised end": answer.end_date or "none can be promised",
    }
    if answer.admitted is not None:
        row["as asked"] = "yes" if answer.admitted else "no"
    return row


def listen(source: QueueSource, address: str, *, any_interface: bool) -> None:
    """Answer requests until a signal ends it."""
    from qops_batsim.advice.queue_quote import Ask, QueueAsker
    from qops_batsim.advice.queue_state import QueuedJob, QueueState
    from qops_batsim.signals import EndingSignal

    try:
        from qops_batsim.advice.quote_server import QueueKeeper, QuoteServer, parse_address
    except ModuleNotFoundError as error:
        raise InputError(
            f"--listen needs the package {error.name} (pip install 'qops-batsim[http]')"
        ) from None
    place = parse_address(address, any_interface=any_interface)
    job = QueuedJob(id="1", processors=1, estimate=1.0)
    with announce_compiling():
        # The first to ask does not wait for kernels, and wrong options are told at once.
        state = QueueState(source="a queue", processors=1, now=0.0, jobs=[job])
        QueueAsker(state, source.scheduler, source.settings).ask(Ask(processors=1, time=1.0))
        keeper = QueueKeeper(source.read, source.changed)
        if source.path is not None:
            keeper.asker()
    try:
        server = QuoteServer(place, keeper, post_state=source.path is None, on_request=note)
    except OSError as error:
        raise InputError(
            f"--listen {address}: {error.strerror or error}; a free port is expected"
        ) from None
    host, port = server.address
    note(f"listens at http://{host}:{port}")
    with suppress(KeyboardInterrupt, EndingSignal):
        server.run()
    note("stopped")
