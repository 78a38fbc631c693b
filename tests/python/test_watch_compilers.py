# What compiles or sends a program's code sees no hook: TorchScript finds functions by their ids, torch.compile tells
# methods of Tensor by their class, and pickle by value writes down a class's attributes.
import inspect
import types

import pytest

pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
import torch
from test_watch_program import DATA, records, train, watched
from torch import nn
from torch.utils.data import DataLoader


def test_torchscript_finds_what_is_hooked(tmp_path):
    def slope(x: torch.Tensor) -> torch.Tensor:
        y = (x * x).sum()
        gradient = torch.autograd.grad([y], [x])[0]
        return torch.zeros_like(x) if gradient is None else gradient

    def back(x: torch.Tensor) -> None:
        torch.autograd.backward((x * x).sum())

    x = torch.tensor([3.0], requires_grad=True)
    before = dict(torch.jit._builtins._get_builtin_table())
    with watched(tmp_path):
        assert torch.jit.script(slope)(x).item() == 6
        torch.jit.script(back)
    assert torch.jit._builtins._get_builtin_table() == before  # other functions may get the ids of ours


class Own(torch.Tensor):
    def to(self, *args, **options):
        return super().to(*args, **options)


class Counting(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), options=None):
        return super().__torch_function__(function, types, args, options or {})


COMPILED = {
    "unbound": lambda x: torch.Tensor.to(x, torch.float64) + 1,
    "map": lambda x: list(map(torch.Tensor.cpu, [x, x]))[1] + 1,
    "super": lambda x: x.as_subclass(Own).to(torch.float64) + 1,
    "function": lambda x: x.as_subclass(Counting).to(torch.float64) + 1,
}


@pytest.mark.parametrize("fresh", [True, False], ids=["first use", "used before"])
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_code_calls_methods_of_tensors(tmp_path, name, fresh):
    torch._dynamo.reset()
    if fresh:
        torch._dynamo.trace_rules.clear_lru_cache()
    else:
        torch._dynamo.trace_rules.get_tensor_method()
    x = torch.arange(4.0)
    frames = []

    def backend(graph, inputs):
        frames.append(graph)
        return graph.forward

    compiled = torch.compile(COMPILED[name], backend=backend, fullgraph=True)
    try:
        with watched(tmp_path):
            for _ in range(3):
                assert compiled(x).tolist() == [1, 2, 3, 4]
            assert len(frames) == 1
        assert compiled(x).tolist() == [1, 2, 3, 4]
    finally:
        torch._dynamo.trace_rules.clear_lru_cache()


def described(method):
    names = ("__module__", "__objclass__", "__name__", "__qualname__", "__doc__", "__wrapped__", "__text_signature__")
    kinds = inspect.ismethoddescriptor(method), isinstance(method, types.MethodDescriptorType), method.__class__
    return [getattr(method, name, None) for name in names], kinds, torch.overrides.resolve_name(method)


def test_methods_of_tensors_say_what_they_are(tmp_path):
    methods = "to", "cuda", "item", "__bool__", "numpy"
    plain = [described(getattr(torch.Tensor, name)) for name in methods]
    with watched(tmp_path):
        assert [described(getattr(torch.Tensor, name)) for name in methods] == plain
        with pytest.raises(AttributeError):
            torch.Tensor.to.__module__


def test_what_a_class_holds_can_be_pickled_by_value(tmp_path):
    """As cloudpickle does with classes of __main__: it writes down a function's code and the objects it uses."""

    class Net(nn.Linear):
        pass

    class Counted(nn.Linear):
        def __call__(self, x):
            return super().__call__(x)

    with watched(tmp_path):
        for net in (Net(8, 4), Counted(8, 4)):
            train(net, DataLoader(DATA, batch_size=24))
        for kind in (Net, Counted):
            cells = [cell.cell_contents for cell in vars(kind)["__call__"].__closure__]
            (hook,) = [of for of in cells if type(of).__name__ == "Hook"]
            function, arguments = hook.__reduce__()
            assert function(*arguments) in cells  # a function of Python, which can be pickled by value
            assert not any(getattr(of, "__module__", "").startswith("stoker") for of in cells if isinstance(of, type))


def test_a_compiled_step_is_timed_and_no_frame_of_the_watch_is_compiled(tmp_path, recwarn):
    torch._dynamo.reset()
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile(backend="eager")
    def step(x, y):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    with watched(tmp_path):
        for x, y in DataLoader(DATA, batch_size=8):
            step(x, y)
    steps = records(tmp_path, "step")
    assert len(steps) == 6 and all("backward" in of["us"] and "optimizer" in of["us"] for of in steps[1:]), steps
    assert not [str(of.message) for of in recwarn if "does not know how to trace" in str(of.message)]
