from __future__ import annotations

import signal
import threading

import pytest

from qops_batsim.signals import ending_signals_raise


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_ending_signals_raise(number):
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as stop, ending_signals_raise():
        signal.raise_signal(number)
    assert stop.value.code == 128 + number
    assert signal.getsignal(number) == before


def test_handlers_of_others_stay(monkeypatch):
    seen = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with ending_signals_raise():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen == [signal.SIGTERM]


def test_other_threads_cannot_and_do_not_set_handlers():
    failures = []

    def work():
        try:
            with ending_signals_raise():
                pass
        except ValueError as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert failures == []
