"""Ctrl-C and SIGTERM as a request to stop at the next good moment."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


class StopRequest:
    """`signal` is None until one arrives."""

    signal: signal.Signals | None = None

    @property
    def reason(self) -> str:
        return NAMES.get(self.signal, str(self.signal)) if self.signal is not None else ""

    @property
    def exit_code(self) -> int:
        """What a shell expects of a program ended by this signal."""
        return 128 + int(self.signal) if self.signal is not None else 0


@contextlib.contextmanager
def stop_request() -> Iterator[StopRequest]:
    """Record the first SIGINT or SIGTERM; a second one ends the program at once, as it would without this.

    Only the main thread can take signals: elsewhere the request never comes.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before: dict[signal.Signals, Any] = {number: signal.getsignal(number) for number in NAMES}

    def handle(number: int, frame: Any) -> None:
        if request.signal is not None:
            raise KeyboardInterrupt
        request.signal = signal.Signals(number)

    for number in NAMES:
        signal.signal(number, handle)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
