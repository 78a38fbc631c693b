# stoker.Loader in the trainers of others: ResNet-18 on small images with the code of docs/trainers. A run that
# continues from a checkpoint inside of an epoch ends with the same weights, bit for bit. Plain DDP: test_py_training.py.
import functools
import json
import types

import pytest
from conftest import ROOT

pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")

import stoker  # noqa: E402
import torch  # noqa: E402
from stoker.transforms import Normalize, RandomHorizontalFlip, RandomResizedCrop  # noqa: E402
from torch.nn.functional import cross_entropy  # noqa: E402
from torchvision.models import resnet18  # noqa: E402

EPOCHS, STEPS, SAVE_EVERY = 2, 6, 3  # steps of an epoch; checkpoints in the middle of both epochs, and between them


def code_of(trainer):
    return (ROOT / f"docs/trainers/{trainer.lower()}.py").read_text()


class Example:
    """Runs a trainer's code with a new net and a new loader."""

    def __init__(self, data, folder, trainer, **names):
        self.data, self.folder, self.names = data, folder, names
        self.code = compile(code_of(trainer), trainer, "exec")

    def weights(self, checkpoint=None, step=0, batch_size=4):
        torch.manual_seed(0)
        ops = [RandomResizedCrop(32), RandomHorizontalFlip(), Normalize([0.5] * 3, [0.25] * 3)]
        loader = stoker.Loader(self.data, batch_size, ops=ops, seed=5, workers=1)
        net = resnet18(num_classes=8)
        given = {"net": net, "loader": loader, "folder": str(self.folder), "checkpoint": checkpoint, "step": step}
        modules = {"stoker": stoker, "torch": torch, "cross_entropy": cross_entropy}
        exec(self.code, {**given, **modules, "epochs": EPOCHS, "save_every": SAVE_EVERY, **self.names})
        loader.close()
        return {name: tensor.detach().clone() for name, tensor in net.state_dict().items()}

    def check(self, checkpoint_of, steps=(3, 6, 9), batch_size=4, batches=STEPS):
        """checkpoint_of: of a step, the checkpoint that the whole run has made. batches: of an epoch."""
        whole = self.weights(batch_size=batch_size)
        assert whole["bn1.num_batches_tracked"] == EPOCHS * batches
        for step in steps:
            resumed = self.weights(checkpoint_of(step), step, batch_size)
            different = [name for name in whole if not torch.equal(whole[name], resumed[name])]
            assert not different, f"from step {step}: {different}"


@pytest.fixture(autouse=True)
def one_thread(tmp_path, monkeypatch):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)  # the libraries write their logs there
    yield
    torch.set_num_threads(threads)


def test_lightning(drawn, tmp_path):
    pytest.importorskip("pytorch_lightning")
    example = Example(drawn, tmp_path, "Lightning")
    example.check(lambda step: str(next(tmp_path.glob(f"*step={step}.ckpt"))))


def test_accelerate(drawn, tmp_path):
    accelerate = pytest.importorskip("accelerate")
    example = Example(drawn, tmp_path, "Accelerate", accelerate=accelerate)
    example.check(lambda step: str(tmp_path / str(step)))


def test_ignite(drawn, tmp_path):
    pytest.importorskip("ignite")
    example = Example(drawn, tmp_path, "Ignite")
    example.check(lambda step: str(tmp_path / f"checkpoint_{step}.pt"))


def test_transformers(drawn, tmp_path):
    transformers = pytest.importorskip("transformers")
    example = Example(drawn, tmp_path, "transformers", transformers=transformers)
    example.check(lambda step: str(tmp_path / f"checkpoint-{step}"))


@pytest.mark.parametrize(("batch_size", "batches"), [(4, 6), (5, 5)], ids=["even", "odd"])
def test_transformers_with_accumulated_gradients(drawn, tmp_path, batch_size, batches):
    """Steps of two batches; the last one of an odd epoch has one. Both epochs have three steps."""
    transformers = pytest.importorskip("transformers")
    arguments = functools.partial(transformers.TrainingArguments, gradient_accumulation_steps=2)
    named = types.SimpleNamespace(Trainer=transformers.Trainer, TrainingArguments=arguments)
    example = Example(drawn, tmp_path, "transformers", transformers=named, save_every=1)
    example.check(lambda step: str(tmp_path / f"checkpoint-{step}"), (1, 2, 3, 5), batch_size, batches)
    assert json.loads((tmp_path / "checkpoint-6/trainer_state.json").read_text())["epoch"] == 2


class Read:
    """Remembers which samples were read."""

    def __init__(self):
        self.indices = []

    def __len__(self):
        return 28

    def __getitem__(self, index):
        self.indices.append(index)
        return index


def test_batches_are_left_out_without_being_read():
    accelerate = pytest.importorskip("accelerate")
    from stoker.transformers import TrainerLoader

    data = Read()
    loader = TrainerLoader(stoker.Loader(data, 4, workers=0, prefetch=1))
    loader.set_epoch(1)
    whole = [batch.tolist() for batch in loader]
    assert len(loader) == len(whole) == 7 and len(loader.dataset) == 28
    for skipped in (5, 2):
        loader.set_epoch(1)
        data.indices.clear()
        rest = accelerate.skip_first_batches(loader, skipped)
        assert [batch.tolist() for batch in rest] == whole[skipped:]
        assert data.indices == sum(whole[skipped:], [])
