# What `python -m stoker watch` takes for a step and for an evaluation, from made-up events.
import json

import pytest

pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
from stoker.watch.step_rows import StepRows
from stoker.watch.account import FORWARD, WAIT, Account
from stoker.watch.steps import Steps

MODEL, TEACHER = 1, 2


class Log:
    def __init__(self):
        self.events = []
        self.times = []
        self.copied = []
        self.loader_starts = 0
        self.rows = StepRows()
        self.rows.due = self.step  # after each one

    def begin(self):
        self.events.append("begin")

    def step(self):
        line, times = self.rows.take_lines(0)
        record = json.loads(line)
        self.events.append(("step", record["epoch"], record.get("samples")))
        self.times.append(times)
        self.copied.append(record.get("copy_bytes", 0))

    def evaluation_begins(self):
        pass

    def evaluation(self, times, samples):
        self.events.append(("evaluation", samples))
        self.times.append(times)


class Iterator:
    """An iterator of a loader; the hooks note on it what it is used for."""


class Program:
    def __init__(self):
        self.log = Log()
        self.account = Account()
        self.steps = Steps(self.account, self.log)
        self.optimizer = Iterator()

    def start(self):
        self.steps.before_iterator()
        iterator = Iterator()
        self.steps.loader_started(iterator)
        return iterator

    def next(self, iterator, samples=8):
        self.steps.asks(iterator)
        self.account.enter(WAIT)
        self.account.enter(FORWARD)
        self.steps.got(samples, None)

    def end(self, iterator):
        self.steps.asks(iterator)
        self.steps.ended(iterator)

    def predict(self, module, evaluates):
        self.steps.predicts(module, evaluates)
        self.steps.passed()

    def step(self, optimizer=None):
        self.steps.trains(MODEL)
        self.steps.trains()
        self.steps.stepped(optimizer or self.optimizer)

    def evaluate(self, batches=2):
        iterator = self.start()
        for _ in range(batches):
            self.next(iterator, 32)
            self.predict(MODEL, True)
        self.end(iterator)

    def finish(self):
        self.steps.end()
        return self.log.events


@pytest.fixture
def program():
    return Program()


def test_an_evaluation_after_each_epoch(program):
    for _ in range(2):
        iterator = program.start()
        for _ in range(2):
            program.next(iterator)
            program.step()
        program.end(iterator)
        program.evaluate()
    events = program.finish()
    assert events == [
        "begin", ("step", 1, 8), ("step", 1, 8), ("evaluation", 64), ("step", 2, 8), ("step", 2, 8), ("evaluation", 64)
    ]  # fmt: skip


def test_an_evaluation_after_each_step(program):
    iterator = program.start()
    for _ in range(2):
        program.next(iterator)
        program.step()
        program.evaluate()
    assert program.finish() == ["begin", ("step", 1, 8), ("evaluation", 64), ("step", 1, 8), ("evaluation", 64)]


def copied_by(program, teacher):
    """Each batch is copied before it is used: 10 bytes of training, 1000 of evaluation."""
    for _ in range(2):
        iterator = program.start()
        for _ in range(2):
            program.next(iterator)
            program.steps.copied += 10
            if teacher:
                program.predict(TEACHER, True)
            program.step()
        program.end(iterator)
        evaluation = program.start()
        for _ in range(2):
            program.next(evaluation, 32)
            program.steps.copied += 1000
            program.predict(MODEL, True)
        program.end(evaluation)
    program.finish()
    return program.log.copied


@pytest.mark.parametrize("teacher", [False, True], ids=["alone", "with a teacher"])
def test_bytes_copied_for_an_evaluation_are_of_no_step(program, teacher):
    assert copied_by(program, teacher) == [10] * 4


def test_a_teacher_belongs_to_the_step(program):
    for _ in range(2):
        iterator = program.start()
        for _ in range(2):
            program.next(iterator)
            program.predict(TEACHER, True)
            program.step()
        program.end(iterator)
        program.evaluate(1)
    steps = [("step", 1, 8), ("step", 1, 8), ("evaluation", 32), ("step", 2, 8), ("step", 2, 8), ("evaluation", 32)]
    assert program.finish() == ["begin", *steps]


def test_a_teacher_on_an_iterator_that_lives_on_belongs_to_the_step(program):
    iterator = Iterator()  # persistent_workers=True
    for _ in range(3):
        program.steps.before_iterator()
        program.steps.loader_started(iterator)
        program.next(iterator)
        program.predict(TEACHER, True)
        program.step()
        program.end(iterator)
    assert program.finish() == ["begin", ("step", 1, 8), ("step", 2, 8), ("step", 3, 8)]


def test_without_loaders_the_trained_model_in_evaluation_mode_evaluates(program):
    for _ in range(2):
        program.predict(TEACHER, True)
        program.step()
        program.predict(MODEL, True)
    assert [event[0] for event in program.finish()[1:]] == ["step", "evaluation", "step", "evaluation"]


def test_accumulated_gradients_make_one_step(program):
    iterator = program.start()
    for i in range(4):
        program.next(iterator)
        program.steps.trains(MODEL)
        program.steps.trains()
        if i % 2:
            program.steps.stepped(program.optimizer)
    assert program.finish() == ["begin", ("step", 1, 16), ("step", 1, 16)]


def test_the_first_of_two_optimizers_counts(program):
    iterator, second = program.start(), Iterator()
    for _ in range(2):
        program.next(iterator)
        program.step()
        program.step(second)
    assert program.finish() == ["begin", ("step", 1, 8), ("step", 1, 8)]


def test_an_optimizer_of_a_later_stage_counts_when_the_first_is_used_no_more(program):
    iterator = program.start()
    first, second = Iterator(), Iterator()
    for optimizer in [first] * 5 + [second] * 40:
        program.next(iterator)
        program.step(optimizer)
    assert len(program.finish()) == 1 + 5 + 21  # the first twenty of the second are one


def lost_time():
    """The time between the first batch and the end that no step and no evaluation has; and the whole."""
    program = Program()
    first = program.account.since
    iterator = program.start()
    for _ in range(20):
        program.next(iterator)
        program.step()
        program.evaluate()
    program.finish()
    whole = program.account.since - first
    return whole - sum(map(sum, program.log.times)), whole


def test_no_time_is_lost_or_counted_twice():
    lost, whole = min(lost_time() for _ in range(5))  # another process may take the core before the first batch
    assert 0 <= lost < 0.05 * whole + 50_000
