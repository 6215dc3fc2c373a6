"""Handling of Ctrl-C and SIGTERM as requests to stop after the current chunk."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
GRACE = 3.0  # seconds between a second signal and the forced exit


class StopRequest:
    """Request to stop; `signal` is None until a signal arrives."""

    signal: signal.Signals | None = None

    @property
    def reason(self) -> str:
        """Name of the signal; "" if there is none."""
        return NAMES.get(self.signal, str(self.signal)) if self.signal is not None else ""

    @property
    def exit_code(self) -> int:
        """Exit code by the convention of shells: 128 plus the number of the signal."""
        return 128 + int(self.signal) if self.signal is not None else 0


@contextlib.contextmanager
def stop_request(report: Callable[[str], None] = lambda text: None) -> Iterator[StopRequest]:
    """Records the first SIGINT or SIGTERM; a second one ends the program at once.

    Python's handlers wait until the main thread returns from compiled code, which may take minutes. An additional
    thread therefore calls `report` as soon as the first signal arrives, and ends the process if the second one is not
    handled in time, except in a notebook or an interactive Python, whose other results would be lost. Only the main
    thread receives signals: in other threads no request ever arrives.
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
        with _listener(report):
            yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _listener(report: Callable[[str], None]) -> Iterator[None]:
    source, sink = os.pipe()
    os.set_blocking(sink, False)
    over = threading.Event()

    def listen() -> None:
        heard = 0
        while (number := os.read(source, 1)[0]) != 0:
            heard += number in NAMES
            if number in NAMES and heard == 1:
                report(f"{NAMES[signal.Signals(number)]}: stopping after this chunk; repeat to stop at once")
            elif number in NAMES and not hasattr(sys, "ps1") and not over.wait(GRACE):
                os._exit(128 + number)  # safe: checkpoints are atomic

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    previous = signal.set_wakeup_fd(sink, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous)
        over.set()
        os.write(sink, b"\0")
        thread.join()
        os.close(source)
        os.close(sink)
