"""Ctrl-C and SIGTERM as a request to stop at the next good moment."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
GRACE = 3.0  # seconds that a second signal gives the program to leave by itself


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
def stop_request(tell: Callable[[str], None] = lambda text: None) -> Iterator[StopRequest]:
    """Record the first SIGINT or SIGTERM; a second one ends the program at once.

    Python's own handlers wait until the main thread is back from compiled code, which may take minutes. So a thread
    listens beside them: it calls `tell` as soon as the first signal comes, and ends the process when the second one
    finds nobody who could. Only the main thread can take signals: elsewhere the request never comes.
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
        with _listener(tell):
            yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _listener(tell: Callable[[str], None]) -> Iterator[None]:
    source, sink = os.pipe()
    os.set_blocking(sink, False)
    over = threading.Event()

    def listen() -> None:
        heard = 0
        while (number := os.read(source, 1)[0]) != 0:
            heard += number in NAMES
            if number in NAMES and heard == 1:
                tell(f"{NAMES[signal.Signals(number)]}: stopping at the end of this chunk; once more to stop at once")
            elif number in NAMES and not over.wait(GRACE):
                os._exit(128 + number)  # checkpoints are whole or not there: nothing that was saved is lost

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
