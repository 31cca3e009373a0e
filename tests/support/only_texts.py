"""A decision side at the other end of texts, as over a socket, but with all digits of each date."""

from __future__ import annotations

from qops_batsim.protocol import (
    Decision,
    Event,
    Message,
    ModuleDriver,
    decode_decisions,
    encode_message,
)
from qops_batsim.protocol.messages import decode_events


class OnlyTexts:
    """Has a driver hear and say everything in texts."""

    def __init__(self, driver: ModuleDriver) -> None:
        self._driver = driver

    def exchange(self, message: Message[Event]) -> Message[Decision]:
        reply = self._driver.exchange(decode_events(encode_message(message)))
        return decode_decisions(encode_message(reply))
