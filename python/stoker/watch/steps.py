"""Decides what a training step and what an evaluation is.

A step lasts from one step of the optimizer to the next; if there are several optimizers, the first one counts, until
others have made twenty steps without it: then it belongs to a stage of training that is over. Time belongs to training
or to an evaluation. A forward pass with gradients, a backward pass and the optimizer prove training. A forward pass
without gradients proves an evaluation if its batch comes from a loader that no training step has used, or if the module
is one that trains and is in evaluation mode: teachers and frozen parts stay in the step, and so do one or two passes
that give the step its labels. What lies between, such as the wait for the first batch, is assigned when the next proof
comes.
"""

from __future__ import annotations

import weakref
from time import perf_counter_ns
from typing import Any, Protocol

from stoker.watch.account import UNMEASURED, Account, Times, add_times, no_time
from stoker.watch.step_rows import StepRows

NOTHING, TRAINING, EVALUATION = range(3)
_FORSAKEN = 20
_FEW = 2  # batches or forward passes: a teacher's, or those that give labels to a step
_MARK = "_stoker_use"  # on a loader's iterator: TRAINING or EVALUATION, once that is known
_STARTED = "_stoker_started"  # likewise: nanoseconds in which its workers began; None once they are counted
LOADER = "_stoker_loader"  # on a loader's iterator: the facts of the loader


class Recorder(Protocol):
    """Who is told about evaluations, and has the rows of whole steps."""

    rows: StepRows
    loader_starts: int  # nanoseconds in which workers were started and stopped

    def begin(self) -> None: ...

    def evaluation_begins(self) -> None: ...

    def evaluation(self, times: Times, samples: int) -> None: ...


class Steps:
    """Receives the events of the training thread in order."""

    def __init__(self, account: Account, recorder: Recorder) -> None:
        self._account = account
        self._recorder = recorder
        self.rows = recorder.rows
        self.training = False  # it is decided: a proof of training changes nothing
        self._in_parts = False  # some of the step's time has been settled
        self._optimizer: weakref.ref[Any] | None = None  # the one that counts
        self._others = 0  # steps of other optimizers since it has made one
        self.trained: set[int] = set()  # ids of modules
        self.batches = 0  # that are in no step and no evaluation yet
        self.samples = 0  # likewise
        self._ready = -1  # batches that workers had finished; -1 where that is not known
        self.copied = 0  # bytes to the device since the last boundary
        self.epoch = 0
        self.backwards = 0
        self.use = NOTHING
        self.undecided = False
        self._iterator: weakref.ref[Any] | None = None  # the one that gave the last batch; the program may drop it
        self._fresh = False  # it has given no batch to training yet
        self._asked: weakref.WeakSet[Any] = weakref.WeakSet()  # fresh ones that were asked since the last proof
        self._times = {TRAINING: no_time(), EVALUATION: no_time()}
        self._copied = {TRAINING: 0, EVALUATION: 0}  # bytes, settled as the times are
        self._eval_samples = 0
        self._eval_batches = 0
        self._passes = 0  # since it was decided that this is an evaluation
        self._ahead = (0, 0)  # samples and batches for training that came before those of another iterator
        self.evaluation: dict[str, Any] = {}  # facts of the first one
        self._evaluated = False  # it is over
        self._sure = (no_time(), 0, 0, 0)  # of the evaluation, without the batches since the last boundary
        self._last_event = 0

    @property
    def iterator(self) -> Any:
        return self._iterator() if self._iterator is not None else None

    @property
    def loader(self) -> Any:
        """The hooks' note on the iterator of the last batch; None without one."""
        iterator = self.iterator
        return getattr(iterator, LOADER, None) if iterator is not None else None

    @property
    def optimizer(self) -> Any:
        """The one whose steps count."""
        return self._optimizer() if self._optimizer is not None else None

    def forget(self, module_id: int) -> None:
        """A module is gone."""
        self.trained.discard(module_id)

    def loader_started(self, iterator: Any, starting: int = 0) -> None:
        """A loop over a loader begins; creating its iterator belongs to what the loop turns out to be.

        starting: nanoseconds that it took where there are workers.
        """
        setattr(iterator, _STARTED, starting)
        self._turn_to(iterator)

    def before_iterator(self) -> None:
        """An iterator is about to be created: the time before it belongs to what ran."""
        if self.use == NOTHING:
            self._recorder.begin()
        self._settle()
        self._doubt()

    def asks(self, iterator: Any) -> None:
        """The loop over a loader asks for its next batch."""
        known = self._iterator
        same = known is not None and iterator is known()
        if not same or (not self.undecided and getattr(iterator, _MARK, self.use) != self.use):
            self._settle()
            self._doubt()
            self._turn_to(iterator)

    def _turn_to(self, iterator: Any) -> None:
        """The next batches come from it."""
        if getattr(self.iterator, _MARK, None) == TRAINING:
            self._ahead = (self._ahead[0] + self.samples, self._ahead[1] + self.batches)
            self.samples = self.batches = 0
        self._iterator = weakref.ref(iterator)
        self._fresh = getattr(iterator, _STARTED, None) is not None or not hasattr(iterator, _MARK)
        if self._fresh:
            self._asked.add(iterator)

    def ended(self, iterator: Any, stopping: int = 0) -> None:
        """The loop over a loader has had all batches. stopping: nanoseconds that its workers took to end."""
        if getattr(iterator, _MARK, None) == TRAINING:
            self._recorder.loader_starts += stopping
        self._iterator = None

    def got(self, samples: int, ready: int | None) -> None:
        self.batches += 1
        self.samples += samples
        self._ready = -1 if ready is None else ready

    def trains(self, module_id: int | None = None) -> None:
        """A proof of training: a forward pass with gradients, a backward pass, a step of the optimizer."""
        if module_id is not None:
            self.trained.add(module_id)
        if self.training:
            return
        iterator = self.iterator
        evaluated = self.use == EVALUATION and not self.undecided and iterator is not None
        if evaluated and self._gave_few(iterator):
            self._take_back()
            evaluated = False
        self._decide(TRAINING)
        self.samples += self._ahead[0]
        self.batches += self._ahead[1]
        self._ahead = (0, 0)
        if iterator is not None and not evaluated:
            setattr(iterator, _MARK, TRAINING)
        for asked in self._asked:  # also of two loaders whose batches make one step
            setattr(asked, _MARK, TRAINING)
            self._recorder.loader_starts += getattr(asked, _STARTED, None) or 0
            setattr(asked, _STARTED, None)
        self._asked.clear()
        if self._fresh and not evaluated:
            self.epoch += 1
            self._fresh = False

    def _gave_few(self, iterator: Any) -> bool:
        """Whether the evaluation had no more of the iterator, whose batch now trains, than a step may ask for."""
        if self._fresh:
            return self._eval_batches - self._sure[2] <= _FEW
        return getattr(iterator, _MARK, None) == TRAINING and self._passes <= _FEW

    def predicts(self, module_id: int, evaluates: bool) -> None:
        """A forward pass without gradients. `evaluates`: the module is in evaluation mode."""
        if self.use == EVALUATION and not self.undecided:
            return
        iterator = self.iterator
        mark = None if iterator is None else getattr(iterator, _MARK, None)
        of_training = mark == TRAINING and not (self.undecided and self._fresh)
        if (iterator is None or of_training) and not (evaluates and module_id in self.trained):
            return
        self._decide(EVALUATION)
        self._passes = 0
        self._asked.clear()
        if iterator is not None and mark is None:
            setattr(iterator, _MARK, EVALUATION)

    def passed(self) -> None:
        """A forward pass without gradients has ended."""
        if self.use == EVALUATION:
            self._passes += 1
            self._eval_samples += self.samples
            self._eval_batches += self.batches
            self.samples = self.batches = 0
            self._last_event = perf_counter_ns()

    def stepped(self, optimizer: Any) -> None:
        """An optimizer has made its step."""
        if not self.training:
            self.trains()
        account = self._account
        account.enter(UNMEASURED)
        known = self._optimizer() if self._optimizer is not None else None
        if known is not optimizer:
            self._others += 1
            if known is not None and self._others < _FORSAKEN:
                return
            self._optimizer = weakref.ref(optimizer)
        times = account.take()
        if self._in_parts:
            add_times(times, self._times[TRAINING])
            self._times[TRAINING] = no_time()
            self.copied += self._copied[TRAINING]
            self._copied[TRAINING] = 0
            self._in_parts = False
        row = self.epoch, self.batches, self.samples, self._ready, self.copied, times
        self.batches = self.samples = self.copied = self._others = 0
        self._ready = -1
        self.rows.add(*row, account.since)

    def end(self) -> None:
        """The watch ends. What follows the last step, or the last forward pass of an evaluation, is neither."""
        if self.use == EVALUATION and not self.undecided:
            account = self._account
            times = account.take()
            late = min(account.since - self._last_event, times[UNMEASURED])
            times[UNMEASURED] -= max(0, late)
            self._assign(times)
        self._end_evaluation()

    def _settle(self) -> None:
        """Assigns the time and the bytes since the last boundary to what ran."""
        self._assign(self._account.take())

    def _assign(self, times: Times) -> None:
        copied, self.copied = self.copied, 0
        if self.use != NOTHING:
            add_times(self._times[self.use], times)
            self._copied[self.use] += copied
            self._in_parts = True

    def _doubt(self) -> None:
        """What follows may belong to another use."""
        self.undecided = True
        self.training = False

    def _decide(self, use: int) -> None:
        """From the last boundary on, or from now on if there was none, the time belongs to `use`."""
        if not self.undecided:
            if self.use == NOTHING:
                self._recorder.begin()
            self._settle()
        if use == EVALUATION:
            times = list(self._times[EVALUATION])
            self._sure = (times, self._eval_samples, self._eval_batches, self._copied[EVALUATION])
        before, self.use = self.use, use
        self.undecided = False
        self.training = use == TRAINING
        if before == EVALUATION and use == TRAINING:
            self._end_evaluation()
        elif use == EVALUATION and before != EVALUATION:
            self._last_event = perf_counter_ns()
            self._recorder.evaluation_begins()

    def _take_back(self) -> None:
        """What looked like an evaluation was a teacher's pass over a training batch, or gave it its labels."""
        self._settle()
        sure, samples, batches, copied = self._sure
        wrong = [now - before for now, before in zip(self._times[EVALUATION], sure)]
        add_times(self._times[TRAINING], wrong)
        self.samples += self._eval_samples - samples
        self.batches += self._eval_batches - batches
        self._copied[TRAINING] += self._copied[EVALUATION] - copied
        self._times[EVALUATION], self._eval_samples, self._eval_batches = sure, samples, batches
        self.use = TRAINING
        self._end_evaluation()
        if not self._evaluated:
            self.evaluation.clear()

    def _end_evaluation(self) -> None:
        times = self._times[EVALUATION]
        if any(times):
            self._evaluated = True
            self._times[EVALUATION] = no_time()
            self._recorder.evaluation(times, self._eval_samples)
        self._eval_samples = self._eval_batches = 0
        self._copied[EVALUATION] = 0
