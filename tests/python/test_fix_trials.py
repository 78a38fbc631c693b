# The measurement of a change, and the implementations of an optimizer's step that it may switch between.
import copy
import random

import pytest
import torch

pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
from stoker.watch.fix.kernels import has_kernel, kernels_of, set_kernel
from stoker.watch.fix.trials import Trial


def run(gain, noise, seed):
    """A trial until it is over, of turns whose times have `noise`."""
    generator, trial = random.Random(seed), Trial()
    while not trial.is_over:
        trial.add(*(time * generator.lognormvariate(0, noise) for time in (1.0, 1.0 / gain)))
    return trial


@pytest.mark.parametrize("noise", [0.02, 0.1, 0.3])
def test_equal_ways_are_seldom_kept(noise):
    kept = sum(run(1.0, noise, seed).gain().is_clear for seed in range(300))
    assert kept <= 15  # 5 %


@pytest.mark.parametrize("gain, noise", [(1.3, 0.05), (2.0, 0.2), (1.1, 0.02)])
def test_gains_are_found_and_lie_in_their_interval(gain, noise):
    gains = [run(gain, noise, seed).gain() for seed in range(200)]
    assert sum(one.is_clear for one in gains) >= 190
    assert sum(one.low <= gain <= one.high for one in gains) >= 180


def test_a_change_that_halves_the_speed_is_given_up_soon():
    trial = run(0.5, 0.1, 0)
    assert len(trial.within) == 2 and not trial.gain().is_clear


def optimizers():
    of = torch.optim
    return [(of.SGD, {"momentum": 0.9}), (of.Adam, {}), (of.AdamW, {"weight_decay": 0.1}), (of.Adagrad, {})]


@pytest.mark.parametrize("kind, options", optimizers())
@pytest.mark.parametrize("kernel", ["foreach", "fused"])
def test_another_kernel_makes_the_same_steps_but_for_rounding(kind, options, kernel):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(9, 7), torch.nn.Linear(7, 3))
    optimizer = kind(model.parameters(), lr=0.1, foreach=False, **options)
    assert has_kernel(optimizer, kernel)

    def train(model, optimizer):
        optimizer.zero_grad()
        model(torch.ones(4, 9)).square().sum().backward()
        optimizer.step()

    train(model, optimizer)
    twin, state = copy.deepcopy(model), copy.deepcopy(optimizer.state_dict())
    twin_optimizer = kind(twin.parameters(), lr=0.1, foreach=False, **options)
    twin_optimizer.load_state_dict(state)
    set_kernel(optimizer, kernel)
    train(model, optimizer)
    train(twin, twin_optimizer)
    for one, other in zip(model.parameters(), twin.parameters()):
        torch.testing.assert_close(one, other)


def test_flags_come_back_also_of_new_groups():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1)
    former = kernels_of(optimizer)
    set_kernel(optimizer, "fused")
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(3))], "fused": True})
    assert all(group["fused"] for group in optimizer.param_groups)
    set_kernel(optimizer, former)
    assert [(group["foreach"], group["fused"]) for group in optimizer.param_groups] == [former[0][1:]] * 2


def test_optimizers_that_are_left_alone():
    class Own(torch.optim.SGD):
        pass

    weights = [torch.nn.Parameter(torch.ones(2))]
    assert not has_kernel(Own(weights, lr=0.1), "fused")
    assert not has_kernel(torch.optim.LBFGS(weights), "fused")
    assert not has_kernel(torch.optim.SGD(weights, lr=0.1, differentiable=True), "foreach")
    assert not has_kernel(torch.optim.Adam([torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))]), "fused")
