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

from stoker._program import find_program, name_torch
from stoker.errors import Error, Unsupported


def export_onnx(
    run: str | os.PathLike[str], path: str | os.PathLike[str], *, checkpoint: str | os.PathLike[str] | None = None
) -> None:
    """Writes the model of a run of `stoker train`, in evaluation mode, to `path`.

    The input "image" is float32 (N, C, H, W) for any N, prepared as in training; the output "output" is (N, ...) as the
    task's model gives it, such as the logits of classes. The metadata of the file say how to prepare images ("mean",
    "std", "input") and name the "classes", each as JSON.

    run: a run folder. checkpoint: another checkpoint than the newest, such as RUN/best.

    Needs torch, onnx, onnxscript and the program stoker with its engine (`pip install stoker-engine`, or $STOKER_BIN
    names one). Raises ImportError or FileNotFoundError without them, Unsupported for a model that ONNX cannot express,
    Error with the program's message for a run that cannot be exported, and OSError if `path` cannot be written.
    """
    onnx = importlib.import_module("onnx")
    importlib.import_module("onnxscript")  # which torch's exporter needs
    target = Path(path)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        script = Path(folder) / "model.pt"
        _export_script(Path(run), script, checkpoint)
        graph = Path(folder) / "model.onnx"
        made, about = _export_graph(script, str(run))
        onnx.helper.set_model_props(made, {key: json.dumps(value) for key, value in about.items()})
        onnx.save(made, graph)
        with open(graph, "rb") as file:
            os.fsync(file.fileno())
        os.replace(graph, target)  # it gets its name when it is complete


def _export_graph(script: Path, run: str) -> tuple[Any, dict[str, Any]]:
    """Returns the model, and the metadata of the TorchScript file: classes, and how images are prepared.

    It writes no file, so each of its errors is one of the model.
    """
    import torch
    from torch._export.converter import TS2EPConverter  # the model is a C++ one, without a Python module to export

    files = {"stoker.json": ""}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        load: Any = torch.jit.load
        model = load(script, map_location="cpu", _extra_files=files).eval()
        about: dict[str, Any] = json.loads(files["stoker.json"])
        example = (torch.zeros(2, *about["input"]),)
        try:
            program = TS2EPConverter(model, example).convert()
            _complete_sizes(program)
            names: dict[str, Any] = {"input_names": ["image"], "output_names": ["output"]}
            exported: Any = torch.onnx.export(program, example, **names, verbose=False)
            made = exported.model_proto
        except Exception as error:  # of many kinds, for models of others
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise Unsupported(f"[{run}] expected a model that ONNX can express, got {reason}") from error
    return made, about


def _complete_sizes(program: Any) -> None:
    """One size of a pooling stands for both sides in PyTorch; the exporter would write only one."""

    def complete(size: Any) -> Any:
        return 2 * list(size) if isinstance(size, (list, tuple)) and len(size) == 1 else size

    for node in program.graph.nodes:
        if str(node.target).startswith("aten.max_pool2d"):
            node.args = tuple(map(complete, node.args))


def _export_script(run: Path, script: Path, checkpoint: str | os.PathLike[str] | None) -> None:
    chosen = [] if checkpoint is None else ["--checkpoint", os.fspath(checkpoint)]
    program = find_program(engine=True)
    name_torch(program)
    command = [str(program), "export", str(run), "-o", str(script), *chosen]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode != 0:
        said = done.stderr.strip().removeprefix("stoker: ")
        raise Error(said or f"[{run}] expected stoker export to end, got exit status {done.returncode}")
