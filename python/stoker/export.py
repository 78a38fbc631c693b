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

Tensors = tuple[torch.Tensor, ...]


def export_training(
    model: nn.Module,
    loss: Callable[..., torch.Tensor],
    example: Sequence[torch.Tensor],
    path: str | os.PathLike[str],
    *,
    compiled: bool = False,
) -> None:
    """Writes `model`, with its current weights, and `loss` to `path`, a .pt2 file for a recipe's `model.export`.

    loss: a function of (logits, labels) that returns the mean over the batch, a scalar.
    example: a batch (images, labels) of at least two samples: float32 (N, C, H, W) and int64 (N), on the device that
        will train. The batch size of the graphs is free. For another `task` of the recipe, (images, targets) as the
        task has them: float32 (N, K) of multilabel and regression, int64 (N, H, W) of segmentation; of language
        (tokens, next tokens), int64 (N, T).
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

    model = copy.deepcopy(model)
    _check_logits(model, images, labels)
    unused = _unused(model.train(), loss, images, labels)
    trained = [name for name, p in model.named_parameters() if p.requires_grad and name not in unused]

    def train(images: torch.Tensor, labels: torch.Tensor, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = dict(zip(state, tensors, strict=True))
        leaves = {name: given[name].detach().requires_grad_(name in trained) for name in names}
        buffers = {name: given[name].clone() for name in buffer_names}
        value = loss(functional_call(model, {**leaves, **buffers}, (images,)), labels)
        gradients = torch.autograd.grad(value, [leaves[name] for name in trained])
        return (value.detach(), *gradients, *buffers.values())

    def evaluate(images: torch.Tensor, *tensors: torch.Tensor) -> Any:
        return functional_call(model, dict(zip(state, tensors, strict=True)), (images,))

    smallest = 1 if _takes_one_sample(model, images) else 2
    weights = tuple(state.values())
    graphs = {"train": _export(train, (images, labels), weights, smallest)}
    _compare(train, graphs["train"], (images, labels), weights, smallest)
    model.eval()
    with torch.no_grad():
        graphs["eval"] = _export(evaluate, (images,), weights, 1)
    description = {
        "version": VERSION,
        "torch": torch.__version__,
        "device": images.device.type,
        "compiled": compiled,
        "input": list(images.shape[1:]),
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
        package_pt2(path, **contents, extra_files={"stoker.json": json.dumps(description)})
    except RuntimeError as error:  # from PyTorch's archive writer
        got = f"{os.fspath(path)!r}: {_first_line(error)}"
        raise OSError(f"path: expected a file that can be written, got {got}") from error
    with zipfile.ZipFile(path, "a", zipfile.ZIP_STORED) as archive:  # package_pt2 takes only text
        root = archive.namelist()[0].split("/")[0]
        archive.writestr(f"{root}/extra/weights.safetensors", _safetensors(state))


def _check(model: Any, loss: Any, example: Any, path: Any) -> tuple[torch.Tensor, torch.Tensor]:
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
        if parameter.device != images.device or parameter.dtype != torch.float32:
            fix = "move one of the two" if parameter.device != images.device else "call model.float()"
            if not parameter.is_floating_point():
                fix = "make it a buffer"
            raise ValueError(
                f"model: expected float32 parameters on {images.device}, as the example, got {name} of "
                f"{parameter.dtype} on {parameter.device}; {fix}"
            )
    return images.detach().contiguous(), labels.detach().contiguous()


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


def _check_example(example: Any) -> tuple[torch.Tensor, torch.Tensor]:
    parts = tuple(example) if isinstance(example, (tuple, list)) else (example,)
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
    classes = labels.dim() == 1 and labels.dtype == torch.int64
    targets = labels.dim() > 1 and labels.dtype in (torch.int64, torch.float32)
    if not (classes or targets) or labels.shape[:1] != images.shape[:1]:
        raise ValueError(
            f"example: expected int64 labels ({len(images)},), or float32 or int64 targets ({len(images)}, ...), "
            f"got {labels.dtype} {tuple(labels.shape)}"
        )
    if labels.device != images.device:
        raise ValueError(f"example: expected labels on {images.device}, as the images, got {labels.device}")
    return images, labels


def _run(model: nn.Module, images: torch.Tensor) -> Any:
    buffers = {name: b.clone() for name, b in model.named_buffers()}
    try:
        return functional_call(model, buffers, (images,))
    except Exception as error:
        shape = tuple(images.shape)
        raise ValueError(f"model: expected one that takes images {shape}, got {_first_line(error)}") from error


def _check_logits(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> None:
    """Checks the output in evaluation mode. In training mode the output may be anything that the loss accepts."""
    with torch.no_grad(), torch.random.fork_rng():
        logits = _run(model.eval(), images)
    if labels.dim() > 1:  # the targets of another task, whose outputs Stoker checks
        if not isinstance(logits, torch.Tensor) or logits.shape[:1] != images.shape[:1]:
            got = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
            raise ValueError(f"model: expected one tensor of outputs ({len(images)}, ...) in evaluation, got {got}")
        return
    if not isinstance(logits, torch.Tensor) or logits.dim() != 2 or len(logits) != len(images):
        got = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise ValueError(f"model: expected one tensor of logits ({len(images)}, classes) in evaluation, got {got}")
    classes = logits.shape[1]
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(
            f"example: expected labels from 0 to {classes - 1}, for the {classes} outputs of the model, "
            f"got {labels.min().item()} to {labels.max().item()}"
        )


def _training_loss(model: nn.Module, loss: Any, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
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


def _unused(model: nn.Module, loss: Any, images: torch.Tensor, labels: torch.Tensor) -> set[str]:
    """The parameters that the loss does not depend on. PyTorch's optimisers do not change them."""
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not trained:
        raise ValueError("model: expected a parameter that requires a gradient, got none")
    value = _training_loss(model, loss, images, labels)
    _check_mean(model, loss, images, labels, value.item())
    gradients = torch.autograd.grad(value, list(trained.values()), allow_unused=True)
    return {name for name, gradient in zip(trained, gradients, strict=True) if gradient is None}


def _check_mean(model: nn.Module, loss: Any, images: torch.Tensor, labels: torch.Tensor, value: float) -> None:
    try:
        twice = _training_loss(model, loss, torch.cat([images, images]), torch.cat([labels, labels])).item()
    except ValueError as error:
        raise _batch_size_error(error, 2 * len(images)) from error
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


def _takes_one_sample(model: nn.Module, images: torch.Tensor) -> bool:
    """False if batch norm needs two samples: torch.nn refuses one value per channel, the traced operators do not."""
    try:
        with torch.no_grad(), torch.random.fork_rng():
            functional_call(model, {name: b.clone() for name, b in model.named_buffers()}, (images[:1],))
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
    images, labels = batch
    for size in (smallest, len(images) + 1):
        rows = torch.arange(size, device=images.device) % len(images)
        results = []
        for run in (function, program.module()):
            # TF32 would hide differences: batch norm over few values amplifies its rounding to a tenth.
            with torch.random.fork_rng(), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
                torch.manual_seed(0)
                results.append(run(images[rows], labels[rows], *weights))
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
    types = {
        torch.float32: "F32", torch.float64: "F64", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
        torch.int32: "I32", torch.uint8: "U8",
    }  # fmt: skip
    header, parts, end = {}, [], 0
    for name, tensor in tensors.items():
        if tensor.dtype not in types:
            raise ValueError(f"model: expected tensors of supported types, got {name} of {tensor.dtype}")
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        parts.append(flat.view(torch.uint8).numpy().tobytes())
        begin, end = end, end + len(parts[-1])
        header[name] = {"dtype": types[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(parts)
