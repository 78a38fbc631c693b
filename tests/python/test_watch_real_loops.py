# Loops as programs have them: models that are evaluated without their wrapper, optimizers with closures, loaders that
# look ahead or that a library makes, and batches that are not stacked.
import itertools
import os
import sys
import time

import pytest
import stoker
import torch
from stoker.watch.batches import batch_length, note_batch
from stoker.watch.seen import LoaderNote, optimizer_kernel
from stoker.watch.places import find_frames, place_of
from test_watch import Runs
from test_watch_program import DATA, records, watched
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _SingleProcessDataLoaderIter


def step(model, optimizer, x, y):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()


class DistributedDataParallel(nn.Module):
    """Calls its module, as PyTorch's wrapper of that name."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)


class Net(nn.Sequential):
    pass


@pytest.mark.parametrize("wrapper", [DistributedDataParallel, lambda net: torch.compile(net, backend="eager")])
def test_a_model_may_be_evaluated_without_its_wrapper(tmp_path, wrapper):
    net = Net(nn.Linear(8, 4))
    model = wrapper(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path):
        for _ in range(3):
            for x, y in DataLoader(DATA, batch_size=8):
                step(model, optimizer, x, y)
            net.eval()
            with torch.no_grad():
                for x, _ in DataLoader(DATA, batch_size=16):
                    net(x)
            net.train()
    assert [record["samples"] for record in records(tmp_path, "evaluation")] == [48] * 3
    assert {record["samples"] for record in records(tmp_path, "step")} == {8}


def test_the_start_of_workers_belongs_to_the_loop_that_they_work_for(tmp_path):
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train = DataLoader(DATA, batch_size=8, num_workers=1, persistent_workers=True)
    with watched(tmp_path) as session:
        for epoch in range(3):
            for x, y in train:
                step(model, optimizer, x, y)
            before = session.writer.loader_starts
            model.eval()
            with torch.no_grad():
                for x, _ in DataLoader(DATA, batch_size=16, num_workers=2):
                    model(x)
            model.train()
            assert session.writer.loader_starts in (0, before)  # 0: an interval has ended
    assert [record["epoch"] for record in records(tmp_path, "step")] == [1] * 6 + [2] * 6 + [3] * 6
    assert len(records(tmp_path, "evaluation")) == 3


def test_the_closure_of_an_optimizer_is_no_part_of_it(tmp_path):
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path):
        for x, y in DataLoader(DATA, batch_size=8):

            def closure(x=x, y=y):
                time.sleep(0.01)
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                time.sleep(0.01)
                return loss

            assert optimizer.step(closure) > 0
            optimizer.step(closure=closure)
    steps = records(tmp_path, "step")
    assert len(steps) == 12
    for record in steps:
        assert record["us"].get("optimizer", 0) < 10_000 and sum(record["us"].values()) > 20_000, record


def test_what_follows_a_figure_without_gradients_is_no_forward_pass(tmp_path):
    model, figure = nn.Linear(8, 4), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path):
        for x, y in DataLoader(DATA, batch_size=8):
            out = model(x)
            nn.functional.cross_entropy(out, y).backward()
            optimizer.step()
            figure(out.detach(), y)
            time.sleep(0.05)
    for record in records(tmp_path, "step")[1:]:
        assert record["us"]["forward"] < 40_000, record


def test_a_frozen_part_belongs_to_the_step_also_where_batches_are_fetched_ahead(tmp_path):
    frozen, model = nn.Linear(8, 8).requires_grad_(False).eval(), nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def ahead(loader):
        batches = iter(loader)
        current = next(batches)
        for following in batches:
            yield current
            current = following
        yield current

    with watched(tmp_path):
        for _ in range(3):
            for x, y in ahead(DataLoader(DATA, batch_size=8)):
                with torch.no_grad():
                    x = frozen(x)
                step(model, optimizer, x, y)
    assert records(tmp_path, "evaluation") == []
    assert sum(record.get("samples", 0) for record in records(tmp_path, "step")) == 3 * 48


@pytest.mark.parametrize("passes, parts", [(3, 1), (1, 3)], ids=["several losses", "accumulated"])
def test_a_batch_is_counted_once_for_several_backward_passes(tmp_path, passes, parts):
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path):
        for at, (x, y) in enumerate(DataLoader(DATA, batch_size=8)):
            for _ in range(passes):
                nn.functional.cross_entropy(model(x), y).backward()
            if at % parts == parts - 1:
                optimizer.step()
    facts = records(tmp_path, "facts")[-1]["train"]
    assert (facts["accumulate"], facts["batch_size"]) == (parts, 8 * parts)


def test_an_iterator_that_a_library_makes_is_known(tmp_path):
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path):
        for x, y in _SingleProcessDataLoaderIter(DataLoader(DATA, batch_size=8)):
            step(model, optimizer, x, y)
    facts = records(tmp_path, "facts")[-1]
    assert facts["data"]["workers"] == 0 and facts["data"]["samples"] == 48


class Bare(nn.Linear):
    """Has a weight, and not what nn.Linear's constructor notes."""

    def __init__(self):
        nn.Module.__init__(self)
        self.weight, self.bias = nn.Parameter(torch.randn(4, 8)), None


def test_a_layer_with_a_constructor_of_its_own_runs_as_before(tmp_path):
    model = nn.Sequential(Bare())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path):
        for _ in range(2):
            for x, y in DataLoader(DATA, batch_size=8):
                step(model, optimizer, x, y)
    assert len(records(tmp_path, "step")) == 12


def test_a_default_device_or_type_of_the_program_costs_no_verdict(tmp_path):
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    try:
        with watched(tmp_path):
            for x, y in DataLoader(DATA, batch_size=8):
                step(model, optimizer, x, y)
            torch.set_default_device("meta")
            torch.set_default_dtype(torch.float64)
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    assert len(records(tmp_path, "step")) == 6


def test_a_watch_within_another_does_nothing_but_say_so(tmp_path, capfd):
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path), stoker.watch():
        for x, y in DataLoader(DATA, batch_size=8):
            step(model, optimizer, x, y)
    assert len(records(tmp_path, "step")) == 6
    said = "stoker watch: this process is watched already: the other watch gives the verdict"
    assert capfd.readouterr().err == said + "\n"
    with watched(tmp_path / "more"), stoker.watch(report=tmp_path / "report.html"):
        pass
    assert capfd.readouterr().err.startswith(said + "; no file that was asked for here is written\n")


def test_what_was_compiled_in_place_is_compiled(tmp_path):
    model = nn.Sequential(nn.Linear(8, 4))
    model.compile(backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path):
        for x, y in DataLoader(DATA, batch_size=8):
            step(model, optimizer, x, y)
    assert records(tmp_path, "facts")[-1]["train"]["compiled"] == "compile"


def test_a_link_to_a_script_finds_the_scripts_own_modules(tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project/helper_of_mine.py").write_text("print('found')\n")
    (tmp_path / "project/train.py").write_text("import torch, helper_of_mine\n")
    os.symlink("project/train.py", tmp_path / "link.py")
    done = Runs(tmp_path).watch("link.py")
    assert (done.returncode, done.stdout) == (0, "found\n"), done.stderr


def test_the_wait_of_a_grad_scaler_is_named_as_its_own():
    found = {"sys": sys}
    exec(compile("frame = sys._getframe()", torch.amp.grad_scaler.__file__, "exec"), found)
    assert place_of(*find_frames(found["frame"])).endswith("torch/amp/grad_scaler.py:1")
    assert "test_watch_real_loops.py" in place_of(*find_frames(found["frame"]))


def test_what_the_program_asks_of_a_grad_scaler_is_named():
    names = {}
    exec(compile("def get_scale(see): return see()", torch.amp.grad_scaler.__file__, "exec"), names)
    place = names["get_scale"](lambda: place_of(*find_frames(sys._getframe().f_back)))
    assert place.endswith("torch/amp/grad_scaler.py:1 (get_scale)")


IMAGE, LABEL = torch.zeros(3, 4, 5), torch.zeros(2)
STACKED = torch.zeros(6, 3, 4, 5)


@pytest.mark.parametrize(
    "batch, samples",
    [
        (((IMAGE,) * 5, ({"boxes": LABEL},) * 5), 5),  # collate_fn=lambda batch: tuple(zip(*batch))
        ([(IMAGE, {"boxes": LABEL})] * 4, 4),  # collate_fn=list
        ([{"image": IMAGE}] * 4, 4),  # detectron2
        ([STACKED, torch.zeros(6)], 6),
        ([[STACKED, STACKED], torch.zeros(6)], 6),  # two views
        ({"image": STACKED}, 6),
        ([], 0),
    ],
)
def test_samples_of_a_batch(batch, samples):
    note = LoaderNote(DataLoader(DATA, batch_sampler=[range(samples)]))
    assert batch_length(batch) == samples == note_batch(note, batch)
    if samples:
        assert note.sample_bytes == 3 * 4 * 5 * 4


PACKED = nn.utils.rnn.pack_sequence([torch.zeros(9)] * 6)


@pytest.mark.parametrize(
    "batch",
    [
        [{"image": STACKED}, {"boxes": torch.zeros(6, 2)}],  # a sample is ({...}, {...})
        [[STACKED, STACKED], [torch.zeros(6), torch.zeros(6)]],
        ([STACKED, STACKED],),
        (PACKED, torch.zeros(6)),
        (PACKED, PACKED),
        [torch.zeros(9, 6, 2), torch.zeros(6)],  # the time first
        [torch.zeros(1, 50), torch.zeros(7)],  # joined without padding
    ],
)
def test_a_loader_knows_how_many_samples_it_was_asked_for(batch):
    note = LoaderNote(DataLoader(DATA, batch_size=6))
    assert note_batch(note, batch) == note_batch(note, batch) == 6
    small = LoaderNote(DataLoader(torch.utils.data.Subset(DATA, range(4)), batch_size=6))
    assert note_batch(small, [torch.zeros(4, 3)]) == 4 and small.per_batch == 0


SCALED = """
import torch
from torch import nn

model = nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for _ in range(12):
    loss = model(torch.randn(8, 8)).square().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


def test_threads_of_the_program_are_named_where_no_step_was_seen(tmp_path):
    runs = Runs(tmp_path)
    body = SCALED.replace("\n", "\n    ")
    script = f"import threading\n\ndef main():{body}\n\nthread = threading.Thread(target=main)\nthread.start()\nthread.join()\n"
    done = runs.watch(runs.script(script))
    assert done.returncode == 0 and "No optimizer of torch made a step in the watched thread" in done.stderr


def test_a_report_of_another_name_is_refused_at_the_start(tmp_path):
    runs = Runs(tmp_path)
    done = runs.watch("-o", "report.txt", runs.script("print('ran')\n"))
    assert (done.returncode, done.stdout) == (2, "") and "ends in .html, found report.txt" in done.stderr
    with pytest.raises(ValueError, match="ends in .html"), stoker.watch(report="report.txt"):
        pass


def test_a_model_of_torchscript_runs_as_before(tmp_path):
    model = torch.jit.script(nn.Sequential(nn.Linear(8, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path):
        for x, y in DataLoader(DATA, batch_size=8):
            step(model, optimizer, x, y)
    assert len(records(tmp_path, "step")) == 6


def test_what_an_optimizer_is_given_beside_a_function_stays_as_it_is(tmp_path):
    class Counted:
        calls = 0

        def __call__(self):
            self.calls += 1
            return torch.zeros(())

    class Own(torch.optim.SGD):
        def step(self, model, closure=None):
            model.eval()
            assert closure is None or closure() is not None and closure.calls == calls.calls
            return super().step()

    model, calls = nn.Linear(8, 4), Counted()
    optimizer = Own(model.parameters(), lr=0.1)
    with watched(tmp_path):
        for x, y in DataLoader(DATA, batch_size=8):
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step(model)
            optimizer.step(model, calls)
    assert calls.calls == 6 and len(records(tmp_path, "step")) == 12


def accumulated(tmp_path):
    facts = records(tmp_path, "facts")[-1]["train"]
    return facts["accumulate"], facts["batch_size"]


def test_batches_of_two_loaders_make_one_step(tmp_path):
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(DATA, batch_size=8, num_workers=1)
    with watched(tmp_path):
        for _ in range(2):
            for (x, y), _ in zip(loader, DataLoader(DATA, batch_size=8, num_workers=1)):
                step(model, optimizer, x, y)
    assert accumulated(tmp_path) == (1, 8) and len(records(tmp_path, "step")) == 12
    assert any("start_us" in record for record in records(tmp_path, "interval"))
    assert {record["epoch"] for record in records(tmp_path, "step")} == {1, 2}


def test_the_size_of_a_batch_is_that_of_training(tmp_path):
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = [[0] * 4] + [list(range(20))] * 5
    with watched(tmp_path):
        model.eval()
        with torch.no_grad():
            for x, _ in DataLoader(DATA, batch_size=1):
                model(x)
        model.train()
        for x, y in DataLoader(DATA, batch_sampler=batches):
            step(model, optimizer, x, y)
    assert accumulated(tmp_path) == (1, 17)  # 104 samples in 6 batches


@pytest.mark.parametrize("ahead", [False, True], ids=["tensors in memory", "looking ahead"])
def test_an_evaluation_on_an_iterator_that_lives_on_is_no_part_of_a_step(tmp_path, ahead):
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    validation = DataLoader(DATA, batch_size=8)
    kept = []  # iterators that a program does not drop
    with watched(tmp_path):
        train = iter(DataLoader(DATA, batch_size=8))
        batch = next(train) if ahead else DATA[:8]
        step(model, optimizer, *batch)
        for _ in range(4):
            following = next(train) if ahead else DATA[:8]
            model.eval()
            with torch.no_grad():
                kept.append(iter(validation))
                for x, _ in itertools.islice(kept[-1], 4):
                    model(x)
            model.train()
            step(model, optimizer, *batch)
            batch = following
    assert [record["samples"] for record in records(tmp_path, "evaluation")] == [32] * 4
    steps = records(tmp_path, "step")
    assert {(record["epoch"], record.get("samples", 8)) for record in steps} == {(1, 8)}


@pytest.mark.parametrize("compiled", [False, True])
def test_labels_that_the_model_gives_itself_belong_to_the_step(tmp_path, compiled):
    net = Net(nn.Linear(8, 4))
    model = torch.compile(net, backend="eager") if compiled else net
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path):
        for _ in range(3):
            for x, _ in DataLoader(DATA, batch_size=8):
                net.eval()
                with torch.no_grad():
                    y = net(x).argmax(1)
                net.train()
                step(model, optimizer, x, y)
    assert records(tmp_path, "evaluation") == []
    assert [record.get("samples") for record in records(tmp_path, "step")] == [8] * 18


@pytest.mark.parametrize(
    "optimizer, kernel",
    [
        (lambda of: torch.optim.LBFGS(of), ""),
        (lambda of: torch.optim.SGD(of, lr=0.1), "single"),
        (lambda of: torch.optim.SGD(of, lr=0.1, fused=True), "fused"),
        (lambda of: torch.optim.SparseAdam(of), ""),
    ],
)
def test_the_kernel_of_an_optimizer_is_known_where_it_has_a_choice(optimizer, kernel):
    parameter = nn.Parameter(torch.zeros(4, 2))
    assert optimizer_kernel(optimizer([parameter])) == kernel
    nn.functional.embedding(torch.tensor([1]), parameter, sparse=True).sum().backward()
    assert optimizer_kernel(optimizer([parameter])) == ("" if kernel == "single" else kernel)


def test_a_program_that_ends_before_it_trains_is_not_judged(tmp_path):
    runs = Runs(tmp_path)
    done = runs.watch(runs.script("import sys, torch\nsys.exit(3)\n"))
    said = "stoker watch: no verdict: the program ended before a step of an optimizer\n"
    assert (done.returncode, done.stderr.strip() + "\n") == (3, said)
