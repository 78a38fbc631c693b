"""stoker.Loader in the Trainer of transformers: a callback that resumes it inside of an epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Base = object
else:
    from transformers import TrainerCallback as Base


class ResumeLoader(Base):
    """Trainer(..., callbacks=[ResumeLoader()]), for a Trainer whose get_train_dataloader returns a stoker.Loader.

    The Trainer skips batches of a DataLoader by a sampler of its own, and switches that off where this callback is. The
    loader goes to the position of the checkpoint's step at once, without reading the samples before it.
    """

    def on_init_end(self, args: Any, state: Any, control: Any, **options: Any) -> None:
        args.ignore_data_skip = True

    def on_train_begin(self, args: Any, state: Any, control: Any, train_dataloader: Any = None, **options: Any) -> None:
        accumulate = args.gradient_accumulation_steps
        epoch, steps = divmod(state.global_step, -(-len(train_dataloader) // accumulate))
        position = {"epoch": epoch, "batch": steps * accumulate, "bad_samples": 0}
        train_dataloader.load_state_dict({**train_dataloader.state_dict(), **position})
