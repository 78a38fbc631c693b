# stoker.Loader in the trainers of others: ResNet-18 on small images with the code of docs/python.md. A run that
# continues from a checkpoint inside of an epoch ends with the same weights, bit for bit. Plain DDP: test_py_ddp.py.
import re

import pytest
from conftest import ROOT

pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")

import stoker  # noqa: E402
import torch  # noqa: E402
from stoker.transforms import Normalize, RandomHorizontalFlip, RandomResizedCrop  # noqa: E402
from torch.nn.functional import cross_entropy  # noqa: E402
from torchvision.models import resnet18  # noqa: E402

EPOCHS, STEPS, SAVE_EVERY = 2, 6, 3  # steps of an epoch; checkpoints in the middle of both epochs, and between them


def code_of(section):
    """The Python code of a section of docs/python.md."""
    text = (ROOT / "docs/python.md").read_text()
    return re.search(rf"^### {section}\n.*?```python\n(.*?)```", text, re.DOTALL | re.MULTILINE)[1]


class Example:
    """Runs a section's code with a new net and a new loader."""

    def __init__(self, data, folder, section, **names):
        self.data, self.folder, self.names = data, folder, names
        self.code = compile(code_of(section), section, "exec")

    def weights(self, checkpoint=None, step=0):
        torch.manual_seed(0)
        ops = [RandomResizedCrop(32), RandomHorizontalFlip(), Normalize([0.5] * 3, [0.25] * 3)]
        loader = stoker.Loader(self.data, 4, ops=ops, seed=5, workers=1)
        assert len(loader) == STEPS
        net = resnet18(num_classes=8)
        given = {"net": net, "loader": loader, "folder": str(self.folder), "checkpoint": checkpoint, "step": step}
        modules = {"stoker": stoker, "torch": torch, "cross_entropy": cross_entropy}
        exec(self.code, {**given, **modules, **self.names, "epochs": EPOCHS, "save_every": SAVE_EVERY})
        loader.close()
        return {name: tensor.detach().clone() for name, tensor in net.state_dict().items()}

    def check(self, checkpoint_of):
        """checkpoint_of: of a step, the checkpoint that the whole run has made."""
        whole = self.weights()
        assert whole["bn1.num_batches_tracked"] == EPOCHS * STEPS
        for step in (3, 6, 9):
            resumed = self.weights(checkpoint_of(step), step)
            different = [name for name in whole if not torch.equal(whole[name], resumed[name])]
            assert not different, f"from step {step}: {different}"


@pytest.fixture(autouse=True)
def one_thread(tmp_path, monkeypatch):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)  # where the libraries write their logs
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
