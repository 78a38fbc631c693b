"""A callback for the Trainer of transformers: Trainer(..., callbacks=[StokerWatch(report="report.html")])."""

from __future__ import annotations

import atexit
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.watch.run import Watch

if TYPE_CHECKING:
    Base = object
else:
    from transformers import TrainerCallback as Base


class StokerWatch(Base):
    """keep, report and json as for `stoker.watching`. The verdict is printed on stderr when training ends.

    After an error in training it is printed when the process ends, or the next training begins.
    """

    def __init__(
        self, *, keep: str | Path | None = None, report: str | Path | None = None, json: str | Path | None = None
    ) -> None:
        self._paths = [None if path is None else Path(path) for path in (keep, report, json)]
        self._watch: Watch | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **options: Any) -> None:
        self._finish()  # a loop that was interrupted has not told us
        watch = Watch(*self._paths)
        watch.start()
        self._watch = watch
        atexit.register(self._finish, failed=True)  # the Trainer does not tell of errors

    def on_train_end(self, args: Any, state: Any, control: Any, **options: Any) -> None:
        self._finish()

    def _finish(self, failed: bool = False) -> None:
        watch, self._watch = self._watch, None
        atexit.unregister(self._finish)
        if watch is not None:
            watch.finish(failed)
