"""``qops-batsim serve``: a scheduler as Batsim's decision process."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qops_batsim.cli.common_options import Quiet, Scheduler, manual
from qops_batsim.cli.console import (
    note,
    print_error,
    print_failure,
    print_table,
)
from qops_batsim.errors import QopsError
from qops_batsim.signals import EndingSignal

if TYPE_CHECKING:
    from qops_batsim.protocol.session import DecisionSession
    from qops_batsim.protocol.zeromq import ListeningSocket

DEFECT = 1
"""Exit code after an error of this package itself, as Python's own."""

ENGINE_GONE = 3
"""Exit code when the engine has gone before the end of its simulation."""

LAST_WORD_SECONDS = 5.0
"""Longest time for the last answer to reach the engine."""

REASONS_NOTED = 5
"""Most reasons for refusing peers that are printed in one simulation."""

PATIENCE_SECONDS = 1.0
"""Longest wait of an interrupted command for the engine's next message, to answer it."""


_about = manual(
    """
    --set NAME=VALUE: Option of the scheduler (repeatable); wins over the engine's --sched-cfg.
    --out, -o PREFIX: Where to write: PREFIX_qos.csv. Default: out/SCHEDULER.
    [Connection]
    --socket, -s ENDPOINT: Where to listen: tcp://127.0.0.1:PORT (* for any free port) or
        ipc://PATH.
    --any-interface: Allow a --socket at which other machines can connect.
    --timeout SECONDS: Longest wait for the engine. Default: no limit.
    --loop: Serve one simulation after the other; their files are PREFIX_qos.csv,
        PREFIX-2_qos.csv, PREFIX-3_qos.csv …
    --any-engine: Serve also an engine without options that the scheduler wants but can do
        without (aroma: compute sharing, dynamic jobs).
    --max-message-bytes N: Longest message accepted (bytes).
    """
)


def serve(
    scheduler: Scheduler,
    socket: Annotated[str, _about("--socket")] = "tcp://127.0.0.1:28000",
    settings: Annotated[list[str] | None, _about("--set")] = None,
    loop: Annotated[bool, _about("--loop")] = False,
    timeout: Annotated[float | None, _about("--timeout", min=0.001)] = None,
    out: Annotated[str | None, _about("--out")] = None,
    max_message_bytes: Annotated[int, _about("--max-message-bytes", min=1)] = 1 << 28,
    any_interface: Annotated[bool, _about("--any-interface")] = False,
    any_engine: Annotated[bool, _about("--any-engine")] = False,
    quiet: Quiet = False,
) -> None:
    """Let a scheduler decide, over a socket, for Batsim 3.1 to 4.2 or 5, or for another engine.

    Listens for an engine, answers its messages with the scheduler's decisions until
    the simulation ends, then prints what was decided and writes PREFIX_qos.csv.
    The engine may start first or later; a peer that does not begin a simulation is refused; the
    version is recognised by the first message. Its --sched-cfg, with Batsim 5 the text after
    the endpoint, a JSON object, gives options of the scheduler as well. An engine that lacks an
    option which the scheduler needs is refused, with the option's name.

    Exit codes: 0 when the simulation has ended, 3 when the engine leaves earlier (decisions so
    far are written), 2 on errors, 130 and 143 when interrupted.

    Examples:

    \b
        qops-batsim serve easy
        qops-batsim serve conservative --set reserve=processors \\
          --socket tcp://127.0.0.1:28001
        qops-batsim serve easy --loop --timeout 60 --out out/study
    """
    from qops_batsim.files import check_writable
    from qops_batsim.protocol.engine_needs import SHARING_OPTION
    from qops_batsim.protocol.port import make_scheduler
    from qops_batsim.protocol.session import check_first_message
    from qops_batsim.protocol.zeromq import listen
    from qops_batsim.schedulers.loading.plugins import run_prefix
    from qops_batsim.schedulers.registry import parse_settings

    given = parse_settings(settings or [])
    prefix = run_prefix(out, scheduler)
    check_writable(f"{prefix}_qos.csv")
    make_scheduler(scheduler, given)  # Settings are refused before anything listens.
    connection, endpoint = listen(
        socket,
        any_interface=any_interface,
        timeout=timeout,
        max_message_bytes=max_message_bytes,
        check_first=check_first_message,
        on_refused=lambda reason: server.note_refused(reason),
    )
    if not quiet:
        shared = f"where hosts have amounts, start Batsim 4 with {SHARING_OPTION}"
        note(f"{shared}; {scheduler} listens at {endpoint}")
    server = _Server(scheduler, given, any_engine, connection, prefix, quiet)
    try:
        code = server.serve_one()
        while loop and not server.idle:
            code = max(code, server.serve_one())
    finally:
        connection.close(LAST_WORD_SECONDS)
    raise typer.Exit(code)


@dataclass
class _Server:
    """Serves one simulation after another at one socket."""

    scheduler: str
    settings: dict[str, object]
    any_engine: bool
    connection: ListeningSocket
    prefix: str
    quiet: bool
    idle: bool = False
    served: int = 0
    seen: bool = False
    refused: set[str] = field(default_factory=set)

    def serve_one(self) -> int:
        """Answer one engine until its simulation ends; write the files; return the exit code."""
        from qops_batsim.protocol.session import DecisionSession

        session = DecisionSession(
            self.scheduler, self.settings, any_engine=self.any_engine, on_warning=note
        )
        self.refused.clear()
        written = 0
        try:
            code = self._outcome(session)
        finally:
            if session.messages:
                self.served += 1
                written = self._conclude(session)
        return max(code, written)

    def note_refused(self, reason: str) -> None:
        """Print why a connection was refused: each reason once, at most five per simulation."""
        if reason not in self.refused and len(self.refused) < REASONS_NOTED:
            self.refused.add(reason)
            note(f"refused: {reason}")

    def _outcome(self, session: DecisionSession) -> int:
        from qops_batsim.garbage import without_garbage_collection
        from qops_batsim.protocol.zeromq import ConnectionLost

        try:
            with without_garbage_collection():
                self._converse(session)
            return 0
        except ConnectionLost as error:
            if session.messages:
                print_error(f"the engine {error}, {session.now:.6f} s into the simulation")
                return ENGINE_GONE
            self.idle = True
            if self.seen:
                return 0  # No further engine has come: the end of a loop.
            print_error("no engine has come in time (--timeout)")
            return ENGINE_GONE

        except (KeyboardInterrupt, EndingSignal):
            self._dismiss("interrupted", PATIENCE_SECONDS)
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - told in any case
            # A scheduler may raise anything; the engine waits for an answer.
            self._dismiss(str(error) or type(error).__name__)
            if not print_failure(error):
                traceback.print_exc()
                return DEFECT
            return 2

    def _dismiss(self, reason: str, patience: float = 0.0) -> None:
        """Make Batsim end as well, by an answer that is not JSON, at which Batsim aborts.

        ``patience`` is how long to wait for Batsim's next message (seconds).
        """
        last_word = f"qops-batsim serve: {reason}"
        self.connection.dismiss(last_word.encode(errors="backslashreplace"), patience)

    def _converse(self, session: DecisionSession) -> None:
        text = self.connection.receive(from_new_peer=True)
        self.seen = True
        while True:
            self.connection.send(session.answer(text))
            if session.ended:
                return
            text = self.connection.receive()

    def _conclude(self, session: DecisionSession) -> int:
        """Write and print a simulation's decisions; return the exit code."""
        from qops_batsim.core.qos_log import write_qos_log
        from qops_batsim.jobs import QOS_ACCEPTED, QOS_REJECTED

        number = "" if self.served == 1 else f"-{self.served}"
        try:
            path: Path = write_qos_log(session.log, f"{self.prefix}{number}")
        except QopsError as error:
            print_failure(error)
            return 2
        if self.quiet:
            return 0

        decisions = list(session.log.decisions().values())
        counts = {
            "jobs submitted": f"{len({job.id for job in session.log.jobs}):,}",
            "jobs accepted": f"{decisions.count(QOS_ACCEPTED):,}",
            "jobs rejected": f"{decisions.count(QOS_REJECTED):,}",
            "jobs killed": f"{len(session.log.kills):,}",
            "messages": f"{session.messages:,}",
            "simulated time (s)": f"{session.now:,.6f}",
            "simulation ended": "yes" if session.ended else "no",
        }
        print_table("Decisions", ["", self.scheduler], counts.items())
        note(f"wrote {path}")
        return 0
