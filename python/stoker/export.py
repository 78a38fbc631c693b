"""Exports a PyTorch model to a file that Stoker trains.

`export_training` traces one training step (forward, loss, gradients, new buffers) and the forward pass in evaluation
mode, and writes both graphs and the initial weights to one .pt2 file. It needs PyTorch with NumPy, but no other part of
Stoker.

    from stoker.export import export_training
    export_training(net, torch.nn.CrossEntropyLoss(), (images, labels), "net.pt2")
"""

import copy
import json
import os
import struct
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export.pt2_archive._package import package_pt2
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, GuardOnDataDependentSymNode, ShapeEnv, StatelessSymbolicContext

VERSION = 1
SEVERAL_INPUTS = 2  # the version of a model that takes fields by name


_TYPES = {
    torch.float32: "F32", torch.float64: "F64", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.uint8: "U8",
}  # fmt: skip

Tensors = tuple[torch.Tensor, ...]
Inputs = torch.Tensor | dict[str, torch.Tensor]  # the image, or several fields by name


def export_training(
    model: nn.Module,
    loss: Callable[..., torch.Tensor],
    example: Sequence[Any],
    path: str | os.PathLike[str],
    *,
    compiled: bool = False,
) -> None:
    """Writes `model`, with its current weights, and `loss` to `path`, a .pt2 file for a recipe's `model.export`.

    loss: a function of (logits, labels) that returns the mean over the batch, a scalar.
    example: a batch (images, labels) of at least two samples: float32 (N, C, H, W) and int64 (N), on the device that
        will train. The batch size of the graphs is free. For another `task` of the recipe, (images, targets) as the
        task has them: float32 (N, K) of multilabel and regression, int64 (N, H, W) of segmentation; of language
        (tokens, next tokens), int64 (N, T). For a model of several inputs a dict takes the place of the images, such
        as {"image": left, "other": right}: fields of the data by name, passed to `forward` by these names. The first
        may have any name, and is then the image.
    compiled: compiles both graphs with AOTInductor, which needs a C++ compiler. The file then runs only on machines of
        this kind, and Stoker loads it only if STOKER_TRUST_NATIVE=1 is set.

    The model must be in training mode, as new modules are. Batch norm, dropout and parameters with requires_grad =
    False work in Stoker as in PyTorch. Mixed precision is traced, too: call torch.autocast inside the model and inside
    the loss.

    Raises TypeError or ValueError with one line for a wrong argument, and OSError if the file cannot be written.
    """
    images, labels = _check(model, loss, example, path)
    names = [name for name, _ in model.named_parameters()]
    persistent = model.state_dict().keys()
    buffer_names = [name for name, _ in model.named_buffers() if name in persistent]
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    state = {name: tensors[name].detach().contiguous() for name in names + buffer_names}
    inputs = _tensors(images)

    model = copy.deepcopy(model)
    _check_logits(model, images, labels)
    unused = _unused(model.train(), loss, images, labels)
    trained = [name for name, p in model.named_parameters() if p.requires_grad and name not in unused]

    def train(*tensors: torch.Tensor) -> Tensors:
        given = dict(zip(state, tensors[len(inputs) + 1 :], strict=True))
        leaves = {name: given[name].detach().requires_grad_(name in trained) for name in names}
        buffers = {name: given[name].clone() for name in buffer_names}
        value = loss(_call(model, {**leaves, **buffers}, images, tensors), tensors[len(inputs)])
        gradients = torch.autograd.grad(value, [leaves[name] for name in trained])
        return (value.detach(), *gradients, *buffers.values())

    def evaluate(*tensors: torch.Tensor) -> Any:
        return _call(model, dict(zip(state, tensors[len(inputs) :], strict=True)), images, tensors)

    smallest = 1 if _takes_one_sample(model, images) else 2
    weights = tuple(state.values())
    graphs = {"train": _export(train, (*inputs, labels), weights, smallest)}
    _compare(train, graphs["train"], (*inputs, labels), weights, smallest)
    model.eval()
    with torch.no_grad():
        graphs["eval"] = _export(evaluate, inputs, weights, 1)
    description = {
        "torch": torch.__version__,
        "device": labels.device.type,
        "compiled": compiled,
        **_describe(images),
        "target": _description_of(labels),
        "smallest_batch": smallest,
        "parameters": [{"name": name, "trained": name in trained} for name in names],
        "buffers": buffer_names,
    }
    if compiled:
        contents: dict[str, Any] = {"aoti_files": {name: _compile(graph) for name, graph in graphs.items()}}
    else:
        contents = {"exported_programs": graphs}
        for graph in graphs.values():
            graph._example_inputs = None  # package_pt2 would store them: a second copy of the weights
    try:
        _write(os.fspath(path), contents, json.dumps(description), _safetensors(state))
    except (OSError, RuntimeError) as error:  # the latter from PyTorch's archive writer
        got = f"{os.fspath(path)!r}: {_first_line(error)}"
        raise OSError(f"path: expected a file that can be written, got {got}") from error


def _write(path: str, contents: dict[str, Any], description: str, weights: bytes) -> None:
    """The file gets its name when it is complete."""
    folder, name = os.path.split(path)
    with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=folder or ".") as staging:
        part = os.path.join(staging, name)
        package_pt2(part, **contents, extra_files={"stoker.json": description})
        with zipfile.ZipFile(part, "a", zipfile.ZIP_STORED) as archive:  # package_pt2 takes only text
            root = archive.namelist()[0].split("/")[0]
            archive.writestr(f"{root}/extra/weights.safetensors", weights)
        with open(part, "rb") as file:
            os.fsync(file.fileno())
        os.replace(part, path)


def _tensors(images: Inputs) -> Tensors:
    return tuple(images.values()) if isinstance(images, dict) else (images,)


def _map(function: Callable[[torch.Tensor], torch.Tensor], images: Inputs) -> Inputs:
    """The same kind of example with `function` of each tensor."""
    if isinstance(images, dict):
        return {name: function(tensor) for name, tensor in images.items()}
    return function(images)


def _call(model: nn.Module, state: dict[str, torch.Tensor], images: Inputs, tensors: Tensors) -> Any:
    """The model's output with `state`, for the first of `tensors` in the place of the example's."""
    if isinstance(images, dict):
        return functional_call(model, state, (), dict(zip(images, tensors, strict=False)))
    return functional_call(model, state, (tensors[0],))


def _describe(images: Inputs) -> dict[str, Any]:
    if not isinstance(images, dict):
        return {"version": VERSION, "input": list(images.shape[1:])}
    inputs = [{"name": name, **_description_of(tensor)} for name, tensor in images.items()]
    return {"version": SEVERAL_INPUTS, "inputs": inputs}


def _description_of(tensor: torch.Tensor) -> dict[str, Any]:
    """The type and shape of one sample."""
    return {"dtype": _TYPES[tensor.dtype], "shape": list(tensor.shape[1:])}


def _check(model: Any, loss: Any, example: Any, path: Any) -> tuple[Inputs, torch.Tensor]:
    """Checks the arguments before tracing, which takes up to a minute. Returns the example's images and labels."""
    _check_path(path)
    wrapped = (torch.jit.ScriptModule, nn.DataParallel, nn.parallel.DistributedDataParallel)
    if not isinstance(model, nn.Module) or isinstance(model, wrapped) or hasattr(model, "_orig_mod"):
        raise TypeError(f"model: expected a torch.nn.Module, got {type(model).__name__}{_hint(model)}")
    if isinstance(loss, type):
        raise TypeError(f"loss: expected a function of (logits, labels), got a class; write {loss.__name__}()")
    if not callable(loss):
        raise TypeError(
            f"loss: expected a function of (logits, labels), got {type(loss).__name__}; "
            "such as torch.nn.CrossEntropyLoss()"
        )
    images, labels = _check_example(example)
    evaluating = next((name or "all of it" for name, part in model.named_modules() if not part.training), None)
    if evaluating is not None:
        raise ValueError(
            f"model: expected it in training mode, got evaluation mode for {evaluating}; call model.train() first: "
            "Stoker switches to evaluation mode itself"
        )
    for name, parameter in model.named_parameters():
        if parameter.device != labels.device or parameter.dtype != torch.float32:
            fix = "move one of the two" if parameter.device != labels.device else "call model.float()"
            if not parameter.is_floating_point():
                fix = "make it a buffer"
            raise ValueError(
                f"model: expected float32 parameters on {labels.device}, as the example, got {name} of "
                f"{parameter.dtype} on {parameter.device}; {fix}"
            )
    _check_buffers(model)
    return _map(lambda tensor: tensor.detach().contiguous(), images), labels.detach().contiguous()


def _check_buffers(model: nn.Module) -> None:
    """Those that are not persistent become constants of the graphs, of any type."""
    persistent = model.state_dict().keys()
    for name, buffer in model.named_buffers():
        if name in persistent and buffer.dtype not in _TYPES:
            types = ", ".join(str(kind).removeprefix("torch.") for kind in _TYPES)
            raise ValueError(
                f"model: expected buffers of {types}, got {name} of {buffer.dtype}; register it with "
                "persistent=False, or store it as uint8"
            )


def _hint(model: Any) -> str:
    if hasattr(model, "_orig_mod"):
        return "; pass the model without torch.compile: Stoker compiles the step itself"
    if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        return "; pass model.module"
    if isinstance(model, torch.jit.ScriptModule):
        return "; save it and set model.script in the recipe instead"
    return "; create an instance" if isinstance(model, type) else ""


def _check_path(path: Any) -> None:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path: expected a name that ends in .pt2, got {type(path).__name__}")
    if not os.fspath(path).endswith(".pt2"):
        raise ValueError(f"path: expected a name that ends in .pt2, got {os.fspath(path)!r}")
    folder = os.path.dirname(os.fspath(path)) or "."
    if not os.path.isdir(folder):
        raise ValueError(f"path: expected a file in a folder that exists, got {os.fspath(path)!r}")


def _check_example(example: Any) -> tuple[Inputs, torch.Tensor]:
    parts = tuple(example) if isinstance(example, (tuple, list)) else (example,)
    if len(parts) == 2 and isinstance(parts[0], dict) and isinstance(parts[1], torch.Tensor):
        return _check_fields(*parts)
    if len(parts) != 2 or not all(isinstance(part, torch.Tensor) for part in parts):
        got = ", ".join(type(part).__name__ for part in parts)
        raise TypeError(f"example: expected a batch of two tensors, (images, labels), got {got or 'none'}")
    images, labels = parts
    tokens = images.dim() == 2 and images.dtype == torch.int64
    if not (tokens or images.dim() == 4 and images.dtype == torch.float32) or len(images) < 2:
        raise ValueError(
            "example: expected float32 images (N, C, H, W), or int64 tokens (N, T), with N of at least 2, "
            f"got {images.dtype} {tuple(images.shape)}"
        )
    _check_labels(images, labels)
    return images, labels


def _check_labels(images: torch.Tensor, labels: torch.Tensor) -> None:
    classes = labels.dim() == 1 and labels.dtype == torch.int64
    targets = labels.dim() > 1 and labels.dtype in (torch.int64, torch.float32)
    if not (classes or targets) or labels.shape[:1] != images.shape[:1]:
        raise ValueError(
            f"example: expected int64 labels ({len(images)},), or float32 or int64 targets ({len(images)}, ...), "
            f"got {labels.dtype} {tuple(labels.shape)}"
        )
    if labels.device != images.device:
        raise ValueError(f"example: expected labels on {images.device}, as the images, got {labels.device}")


def _check_fields(fields: Any, labels: torch.Tensor) -> tuple[Inputs, torch.Tensor]:
    """The example of a model of several inputs."""
    if len(fields) < 2 or not all(isinstance(name, str) and name for name in fields):
        raise ValueError(f"example: expected at least two fields by name, got {list(fields)}; pass one as a tensor")
    for name, tensor in fields.items():
        if not isinstance(tensor, torch.Tensor) or tensor.dtype not in _TYPES or tensor.dim() == 0 or len(tensor) < 2:
            got = f"{tensor.dtype} {tuple(tensor.shape)}" if isinstance(tensor, torch.Tensor) else type(tensor).__name__
            raise ValueError(f"example: expected a tensor (N, ...) with N of at least 2 for {name}, got {got}")
        _check_labels(tensor, labels)
    return fields, labels


def _run(model: nn.Module, images: Inputs) -> Any:
    buffers = {name: b.clone() for name, b in model.named_buffers()}
    try:
        return _call(model, buffers, images, _tensors(images))
    except Exception as error:
        shape = ", ".join(str(tuple(tensor.shape)) for tensor in _tensors(images))
        names = f" as {', '.join(images)}" if isinstance(images, dict) else ""
        raise ValueError(f"model: expected one that takes images {shape}{names}, got {_first_line(error)}") from error


def _check_logits(model: nn.Module, images: Inputs, labels: torch.Tensor) -> None:
    """Checks the output in evaluation mode. In training mode the output may be anything that the loss accepts."""
    with torch.no_grad(), torch.random.fork_rng():
        logits = _run(model.eval(), images)
    if labels.dim() > 1:  # the targets of another task, whose outputs Stoker checks
        if not isinstance(logits, torch.Tensor) or logits.shape[:1] != labels.shape[:1]:
            got = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
            raise ValueError(f"model: expected one tensor of outputs ({len(labels)}, ...) in evaluation, got {got}")
        return
    if not isinstance(logits, torch.Tensor) or logits.dim() != 2 or len(logits) != len(labels):
        got = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise ValueError(f"model: expected one tensor of logits ({len(labels)}, classes) in evaluation, got {got}")
    classes = logits.shape[1]
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(
            f"example: expected labels from 0 to {classes - 1}, for the {classes} outputs of the model, "
            f"got {labels.min().item()} to {labels.max().item()}"
        )


def _training_loss(model: nn.Module, loss: Any, images: Inputs, labels: torch.Tensor) -> torch.Tensor:
    """The loss of one training step, checked to be a scalar with a gradient."""
    with torch.random.fork_rng():
        output = _run(model, images)
        try:
            value = loss(output, labels)
        except Exception as error:
            raise ValueError(f"loss: expected a function of (logits, labels), got {_first_line(error)}") from error
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"loss: expected a tensor, the mean over the batch, got {type(value).__name__}")
    if value.dim() != 0:
        raise ValueError(
            f"loss: expected a scalar, the mean over the batch, got {tuple(value.shape)}; "
            'use reduction="mean", or call .mean()'
        )
    if not value.requires_grad:
        raise ValueError("loss: expected one with a gradient, got one without; leave out detach() and no_grad()")
    return value


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__


def _unused(model: nn.Module, loss: Any, images: Inputs, labels: torch.Tensor) -> set[str]:
    """The parameters that the loss does not depend on. PyTorch's optimisers do not change them."""
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not trained:
        raise ValueError("model: expected a parameter that requires a gradient, got none")
    value = _training_loss(model, loss, images, labels)
    _check_mean(model, loss, images, labels, value.item())
    gradients = torch.autograd.grad(value, list(trained.values()), allow_unused=True)
    return {name for name, gradient in zip(trained, gradients, strict=True) if gradient is None}


def _check_mean(model: nn.Module, loss: Any, images: Inputs, labels: torch.Tensor, value: float) -> None:
    try:
        doubled = _map(lambda tensor: torch.cat([tensor, tensor]), images)
        twice = _training_loss(model, loss, doubled, torch.cat([labels, labels])).item()
    except ValueError as error:
        raise _batch_size_error(error, 2 * len(labels)) from error
    if 1.9 < twice / (value or 1) < 2.1:  # not exactly 2, because dropout draws other values
        raise ValueError(
            "loss: expected the mean over the batch, got one that is twice as large for twice the batch; "
            'use reduction="mean"'
        )


def _batch_size_error(error: BaseException, size: int) -> ValueError:
    got = f"{_first_line(error.__cause__ or error)} for {size} samples"
    return ValueError(
        f"model: expected one that takes batches of any size, got {got}; "
        "use -1 as the batch size in reshape and view"
    )


def _takes_one_sample(model: nn.Module, images: Inputs) -> bool:
    """False if batch norm needs two samples: torch.nn refuses one value per channel, the traced operators do not."""
    try:
        with torch.no_grad(), torch.random.fork_rng():
            first = tuple(tensor[:1] for tensor in _tensors(images))
            _call(model, {name: b.clone() for name, b in model.named_buffers()}, images, first)
        return True
    except ValueError:
        return False
    except RuntimeError as error:
        raise _batch_size_error(error, 1) from error


def _export(function: Any, batch: Tensors, weights: Tensors, smallest: int) -> Any:
    """Exports the function with a free batch size.

    It is traced twice: by make_fx, which traces through torch.autograd.grad, and by torch.export, for the file format.
    """
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)

    def fake(tensor: torch.Tensor, free: bool) -> torch.Tensor:
        sizes = [DimDynamic.DYNAMIC if free and i == 0 else DimDynamic.STATIC for i in range(tensor.dim())]
        return mode.from_tensor(tensor, symbolic_context=StatelessSymbolicContext(dynamic_sizes=sizes))

    arguments = [fake(tensor, True) for tensor in batch] + [fake(tensor, False) for tensor in weights]
    try:
        with mode, enable_python_dispatcher():
            graph = make_fx(function, _allow_non_fake_inputs=True)(*arguments)
    except GuardOnDataDependentSymNode as error:
        raise ValueError(
            "model: expected a step that is the same for all values of its tensors, got one whose branches or shapes "
            "depend on them (an if, .item() or nonzero()); use torch.where or masks"
        ) from error
    size = torch.export.Dim("batch", min=smallest)
    shapes = (*({0: size} for _ in batch), *(None for _ in weights))
    return torch.export.export(graph, (*batch, *weights), dynamic_shapes=shapes)


def _compare(function: Any, program: Any, batch: Tensors, weights: Tensors, smallest: int) -> None:
    """Compares the traced step with the model on other batch sizes, in case the trace has a fixed size."""
    labels = batch[-1]
    for size in (smallest, len(labels) + 1):
        rows = torch.arange(size, device=labels.device) % len(labels)
        results = []
        for run in (function, program.module()):
            # TF32 would hide differences: batch norm over few values amplifies its rounding to a tenth.
            with torch.random.fork_rng(), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
                torch.manual_seed(0)
                results.append(run(*(tensor[rows] for tensor in batch), *weights))
        if not all(_same(ours, theirs) for ours, theirs in zip(*results, strict=True)):
            raise RuntimeError(f"the traced step differs from the model's on a batch of {size}")


def _same(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """True if two results differ by rounding only.

    A GPU adds in another order from call to call, and batch norm over one sample amplifies that: gradients of a
    ResNet-18 differed by 1.4 %.
    """
    if torch.allclose(ours, theirs, rtol=1e-3, atol=1e-5, equal_nan=True):
        return True
    if not theirs.is_cuda or not theirs.is_floating_point() or not theirs.isfinite().all():
        return False
    ours, theirs = ours.double(), theirs.double()
    return bool((ours - theirs).norm() <= 3e-2 * theirs.norm())


def _compile(program: Any) -> Any:
    from torch._inductor import aot_compile

    options = {"aot_inductor.package": True}
    return aot_compile(program.module(check_guards=False), *program.example_inputs, options=options)


def _safetensors(tensors: dict[str, torch.Tensor]) -> bytes:
    """The tensors in safetensors format: the header's length in eight bytes, a JSON header, the data."""
    header, parts, end = {}, [], 0
    for name, tensor in tensors.items():
        if tensor.dtype not in _TYPES:
            raise ValueError(f"model: expected tensors of supported types, got {name} of {tensor.dtype}")
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        parts.append(flat.view(torch.uint8).numpy().tobytes())
        begin, end = end, end + len(parts[-1])
        header[name] = {"dtype": _TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(parts)
