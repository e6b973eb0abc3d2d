"""Being asked to leave: once, when there is time for it; twice, now."""

import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class PrunedError(Exception):
    """A trial of a search that has ended itself early, for good."""


class Stop:
    """Whether this process was asked to leave: by Ctrl-C, by SIGTERM or by `ask`.

    As a context it takes over both signals; the second Ctrl-C then raises KeyboardInterrupt.

    Args:
        message: printed at the first Ctrl-C; nothing when empty.

    Attributes:
        asked: True from the first time on.
    """

    def __init__(self, message: str = "") -> None:
        self.asked = False
        self.message = message
        self._before: dict[signal.Signals, Any] = {}

    def ask(self) -> None:
        """Ask it to leave."""
        self.asked = True

    def __enter__(self) -> "Stop":
        """Take over the signals; of no use outside the main thread, where Python takes none."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.getsignal(number) for number in SIGNALS}
            self.listen()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def listen(self) -> None:
        """Take the signals again, where this is a context and somebody else took them meanwhile."""
        for number in self._before:
            signal.signal(number, self._handle)

    def _handle(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGINT:
            if self.asked:
                raise KeyboardInterrupt
            if self.message:
                print(self.message, file=sys.stderr, flush=True)
        self.asked = True
