# Hooks of modules: which call follows a hooked class, a program's temporary changes of nn.Module, copies and files of a
# model while its layers are counted, and modules of Python that are loaded later.
import builtins
import contextlib
import copy
import importlib.util
import io
import sys

import pytest

pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
import torch
from test_watch_program import DATA, records, train, watched
from stoker.watch.account import UNMEASURED
from stoker.watch.facts import _layer_speedup, measure_products
from stoker.watch.products import Layer, ProductCounter
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader


class Logging:
    """A base class next to a module's, which defines __call__."""

    def __call__(self, *args, **options):
        self.calls = getattr(self, "calls", 0) + 1
        return super().__call__(*args, **options)


class Net(nn.Linear):
    pass


class Logged(Net, Logging, nn.Module):
    pass


class Wrapped(Net):
    def __call__(self, x):
        return 2 * super().__call__(x)


def test_a_class_beside_a_hooked_one_keeps_its_call(tmp_path):
    with watched(tmp_path):
        train(Net(8, 4), DataLoader(DATA, batch_size=8))
        assert "__call__" in vars(Net)
        model, wrapped = Logged(8, 4), Wrapped(8, 4)
        for _ in range(2):
            model(DATA.tensors[0]), Net(8, 4)(DATA.tensors[0])
            assert torch.equal(wrapped(DATA.tensors[0]), 2 * wrapped.forward(DATA.tensors[0]))
        assert model.calls == 2
    assert "__call__" not in vars(Net) and len(records(tmp_path, "step")) == 6


def test_a_call_that_comes_later_into_a_base_is_found(tmp_path):
    class Base(nn.Linear):
        pass

    class Model(Base):
        pass

    model, calls = Model(8, 4), []

    def counting(module, x):
        calls.append(module)
        return super(Base, module).__call__(x)

    with watched(tmp_path):
        train(model, DataLoader(DATA, batch_size=8))
        Base.__call__ = counting
        model(DATA.tensors[0])
        assert calls == [model]
        del Base.__call__
        model(DATA.tensors[0])
        assert calls == [model]


def test_what_stood_in_nn_module_for_a_while_is_not_called_later(tmp_path):
    class Model(nn.Linear):
        pass

    calls = []
    with watched(tmp_path):
        below = nn.Module.__call__

        def patched(module, *args, **options):
            calls.append(module)
            return below(module, *args, **options)

        nn.Module.__call__ = patched
        model = Model(8, 4)
        model(DATA.tensors[0])
        assert "__call__" in vars(Model)
        nn.Module.__call__ = below
        calls.clear()
        train(model, DataLoader(DATA, batch_size=8))
    assert not calls and len(records(tmp_path, "step")) == 6


LAZY = "import builtins\nbuiltins.stoker_lazy_loaded = True\nraise ImportError('not now')\n"


def test_a_lazy_import_goes_on_waiting(tmp_path):
    (tmp_path / "stoker_lazy.py").write_text(LAZY)
    spec = importlib.util.spec_from_file_location("stoker_lazy", tmp_path / "stoker_lazy.py")
    spec.loader = importlib.util.LazyLoader(spec.loader)
    lazy = importlib.util.module_from_spec(spec)
    try:
        with watched(tmp_path):
            sys.modules["stoker_lazy"] = lazy
            sys.modules["stoker_odd"] = 3
            spec.loader.exec_module(lazy)
            train(nn.Linear(8, 4), DataLoader(DATA, batch_size=8))
        assert not hasattr(builtins, "stoker_lazy_loaded")
    finally:
        del sys.modules["stoker_lazy"], sys.modules["stoker_odd"]
    assert len(records(tmp_path, "step")) == 6


class Odd(type):
    def __setattr__(cls, name, value):
        raise TypeError("this class is finished")


def test_a_class_that_takes_no_hook_costs_the_watch_alone(tmp_path):
    class Model(nn.Linear, metaclass=Odd):
        pass

    with pytest.raises(TypeError, match="finished"), watched(tmp_path):
        assert Model(8, 4)(DATA.tensors[0]).shape == (48, 4)


class Twice(nn.Module):
    def __init__(self, **how):
        super().__init__()
        self.first, self.second, self.how = nn.Linear(8, 8), nn.Linear(8, 4), how

    def forward(self, x):
        if self.how:
            return self.second(checkpoint(self.first, x.requires_grad_(), **self.how))
        return self.second(self.first(x))


def hooks_of(model):
    return [hook for module in model.modules() for hook in module._forward_hooks.values()]


@pytest.mark.parametrize("how", [{}, {"use_reentrant": True}, {"use_reentrant": False}], ids=str)
def test_layers_have_hooks_of_ours_while_the_model_runs_only(tmp_path, how):
    model = Twice(**how)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path):
        for _ in range(2):
            for x, y in DataLoader(DATA, batch_size=8):
                loss = nn.functional.cross_entropy(model(x), y)
                assert not hooks_of(model) and not hooks_of(copy.deepcopy(model))
                loss.backward()
                torch.save(model, io.BytesIO())
                optimizer.step()
    assert records(tmp_path, "facts")[-1]["train"]["matmul_flops"] == 6 * 8 * (8 * 8 + 8 * 4)


@pytest.mark.parametrize(
    ("model", "inputs", "flops"),
    [
        (nn.Sequential(nn.Linear(8, 3), nn.Linear(3, 16)), (5, 8), 2 * 5 * 3 * 16),
        (nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2), (2, 4, 9, 9), 2 * 2 * 6 * 25 * 2 * 9),
        (nn.Conv1d(4, 6, 3, dilation=2, padding="same"), (2, 4, 9), 2 * 2 * 6 * 9 * 4 * 3),
    ],
    ids=["linear", "conv2d", "conv1d"],
)
def test_the_largest_layer_is_measured_as_it_is(model, inputs, flops):
    counter = ProductCounter()
    counter.begin(model)
    x = torch.randn(inputs)
    model(x).sum().backward()
    counter.end()
    layer = counter.largest
    assert layer.flops == flops
    largest = model[1] if isinstance(model, nn.Sequential) else model
    given = model[0](x) if isinstance(model, nn.Sequential) else x
    torch.testing.assert_close(layer.call(given, largest.weight), largest(given) - largest.bias.view(-1, *[1] * (x.dim() - 2)))
    facts = measure_products(None, "fp32", layer)
    if torch.ops.mkldnn._is_mkldnn_bf16_supported():
        assert facts["fp32_flops"] > 0 and facts["bf16_speedup"] > 0


# Its weight is computed, and its buffers change, each time it is read.
def test_a_layer_whose_weight_is_computed_stays_as_it_is(tmp_path):
    def trained(watch):
        torch.manual_seed(0)
        layer = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 4))
        with watch:
            for _ in range(2):
                train(layer, DataLoader(DATA, batch_size=8), torch.optim.SGD(layer.parameters(), lr=0.1))
        return layer.state_dict()

    plain, seen = trained(contextlib.nullcontext()), trained(watched(tmp_path))
    assert plain.keys() == seen.keys() and all(torch.equal(plain[name], seen[name]) for name in plain)
    assert records(tmp_path, "facts")[-1]["train"]["matmul_flops"] == 6 * 8 * 8 * 4


def test_layers_that_cannot_be_measured_are_left_out():
    linear, counter = nn.Linear(4, 2), ProductCounter()
    counter.begin(linear)
    linear(torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)]))
    counter.end()
    assert counter.largest is None and counter.flops > 0
    huge = Layer(10**15, (1,), (1, 1), {})
    assert _layer_speedup(huge, None, 1e9) is None, "a pass would take days"
    assert _layer_speedup(Layer(1, (2, 3), (4, 5), {}), None, 1e9) is None, "shapes that do not fit"


def test_a_frozen_layer_has_fewer_products(tmp_path):
    model = Twice()
    model.first.requires_grad_(False)
    with watched(tmp_path):
        for _ in range(2):
            train(model, DataLoader(DATA, batch_size=8), torch.optim.SGD(model.second.parameters(), lr=0.1))
    assert records(tmp_path, "facts")[-1]["train"]["matmul_flops"] == 2 * 8 * (8 * 8 + 3 * 8 * 4)


def test_a_model_that_raises_while_its_layers_are_counted_has_no_hooks_afterwards(tmp_path):
    model, steps = Twice(), 0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(tmp_path) as session:
        for _ in range(2):
            for x, y in DataLoader(DATA, batch_size=8):
                if steps == 6:
                    with pytest.raises(RuntimeError):
                        model(x[:, :3])
                    assert not hooks_of(model) and session._account.phase == UNMEASURED
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                steps += 1
    assert len(records(tmp_path, "step")) == 12
