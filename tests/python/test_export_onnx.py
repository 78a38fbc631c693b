# stoker.export_onnx: ONNX Runtime gives the outputs of the trained model.
import json
from pathlib import Path

import numpy as np
import pytest
from conftest import PROGRAM, run_program

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
runtime = pytest.importorskip("onnxruntime")
if not (PROGRAM.parent / "stoker-engine").is_file():
    pytest.skip("needs the engine: STOKER_ENGINE=ON", allow_module_level=True)

import stoker  # noqa: E402
import torch  # noqa: E402

MODELS = {
    "mlp": ("synth:digits?count=64", 'name = "mlp"\nhidden = [16]'),
    "convnet": ("synth:digits?count=64", 'name = "convnet"'),
    "resnet18": ("photos", 'name = "resnet18"\nstem = "imagenet"'),
    "vit_s_16": ("photos", 'name = "vit_s_16"'),
}
SLOW = ["mlp", "resnet18"]  # the others have their layers
PHOTO_OPS = '{op = "random_resized_crop", size = 32}, {op = "normalize", preset = "imagenet"}'
RECIPE = """seed = 3
device = "cpu"
[data]
train = "{train}"
val = "20%"
batch_size = 8
workers = 1
{ops}
[model]
{model}
[train]
epochs = 1
threads = 1
"""


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in MODELS])
def test_outputs_are_the_models(program, drawn, tmp_path, monkeypatch, name):
    monkeypatch.setenv("STOKER_BIN", str(PROGRAM))
    train, model = MODELS[name]
    photos = train == "photos"
    ops = f"train_ops = [{PHOTO_OPS}]\nval_ops = [{PHOTO_OPS}]" if photos else ""
    (tmp_path / "r.toml").write_text(RECIPE.format(train=drawn if photos else train, ops=ops, model=model))
    run_program("train", "r.toml", "--out", "run", cwd=tmp_path)
    run_program("export", "run", "-o", "run.pt", cwd=tmp_path)
    stoker.export_onnx(tmp_path / "run", tmp_path / "run.onnx")

    files = {"stoker.json": ""}
    script = torch.jit.load(tmp_path / "run.pt", _extra_files=files)
    about = json.loads(files["stoker.json"])
    session = runtime.InferenceSession(tmp_path / "run.onnx", providers=["CPUExecutionProvider"])
    assert {key: json.loads(text) for key, text in session.get_modelmeta().custom_metadata_map.items()} == about
    for count in (1, 5):
        images = torch.randn(count, *about["input"], generator=torch.Generator().manual_seed(count))
        with torch.no_grad():
            expected = script(images).numpy()
        (found,) = session.run(None, {"image": images.numpy()})
        assert found.shape == expected.shape and np.abs(found - expected).max() <= 1e-4 * max(1, np.abs(expected).max())


def test_a_file_stays_until_the_new_one_is_complete(program, tmp_path, monkeypatch):
    monkeypatch.setenv("STOKER_BIN", str(PROGRAM))
    train, model = MODELS["mlp"]
    (tmp_path / "r.toml").write_text(RECIPE.format(train=train, ops="", model=model))
    run_program("train", "r.toml", "--out", "run", cwd=tmp_path)
    (tmp_path / "run.onnx").write_bytes(b"before")

    def save_half(model, path, **options):
        Path(path).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    before = sorted(path.name for path in tmp_path.iterdir())
    with monkeypatch.context() as full:
        full.setattr(onnx, "save", save_half)
        with pytest.raises(OSError, match="No space"):
            stoker.export_onnx(tmp_path / "run", tmp_path / "run.onnx")
    assert (tmp_path / "run.onnx").read_bytes() == b"before"
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_run_that_is_missing_is_an_error_in_one_line(program, tmp_path, monkeypatch):
    monkeypatch.setenv("STOKER_BIN", str(PROGRAM))
    with pytest.raises(stoker.Error) as raised:
        stoker.export_onnx(tmp_path / "nothing", tmp_path / "out.onnx")
    assert "nothing" in str(raised.value) and "\n" not in str(raised.value)
    assert not (tmp_path / "out.onnx").exists()
