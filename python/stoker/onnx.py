"""Exports the model of a run folder to ONNX, for ONNX Runtime, TensorRT and their like."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any

from stoker._program import find_program
from stoker.errors import Error, Unsupported

_OPSET = 17


def export_onnx(
    run: str | os.PathLike[str], path: str | os.PathLike[str], *, checkpoint: str | os.PathLike[str] | None = None
) -> None:
    """Writes the model of a run of `stoker train`, in evaluation mode, to `path`.

    The input "image" is float32 (N, C, H, W) for any N, prepared as in training; the output "output" is (N, ...) as the
    task's model gives it, such as the logits of classes. The metadata of the file say how to prepare images ("mean",
    "std", "input") and name the "classes", each as JSON.

    run: a run folder. checkpoint: another checkpoint than the newest, such as RUN/best.

    Needs torch, onnx and the program stoker with its engine. Raises ImportError without them, Unsupported for a model
    that ONNX cannot express, Error with the program's message for a run that cannot be exported, and OSError if `path`
    cannot be written.
    """
    torch, onnx = importlib.import_module("torch"), importlib.import_module("onnx")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "model.pt"
        _export_script(Path(run), script, checkpoint)
        files = {"stoker.json": ""}
        model = torch.jit.load(script, map_location="cpu", _extra_files=files).eval()
        about: dict[str, Any] = json.loads(files["stoker.json"])
        graph = Path(folder) / "model.onnx"
        # The exporter of TorchScript: that of torch.export takes Python modules only, and the model is a C++ one.
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                torch.onnx.export(
                    model,
                    (torch.zeros(2, *about["input"]),),
                    str(graph),
                    dynamo=False,
                    opset_version=_OPSET,
                    input_names=["image"],
                    output_names=["output"],
                    dynamic_axes={"image": {0: "batch"}, "output": {0: "batch"}},
                )
        except torch.onnx.errors.OnnxExporterError as error:
            raise Unsupported(f"[{run}] {str(error).splitlines()[0]}") from error
        made = onnx.load(graph)
    onnx.helper.set_model_props(made, {key: json.dumps(value) for key, value in about.items()})
    onnx.save(made, path)


def _export_script(run: Path, script: Path, checkpoint: str | os.PathLike[str] | None) -> None:
    chosen = [] if checkpoint is None else ["--checkpoint", os.fspath(checkpoint)]
    command = [str(find_program()), "export", str(run), "-o", str(script), *chosen]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Error(done.stderr.strip().removeprefix("stoker: "))
