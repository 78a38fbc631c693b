# The measurement of a change, and the implementations of an optimizer's step that it may switch between.
import copy
import random

import pytest
import torch

pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
from stoker.watch.fix.kernels import has_kernel, set_kernel, updates_alike
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
def test_another_kernel_changes_no_more_than_it_says(kind, options, kernel):
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
    alike = updates_alike(optimizer, kernel)
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), twin.parameters()))
    twin_optimizer = kind(twin.parameters(), lr=0.1, foreach=False, **options)
    twin_optimizer.load_state_dict(state)
    set_kernel(optimizer, kernel)
    train(model, optimizer)
    train(twin, twin_optimizer)
    same = all(torch.equal(one, other) for one, other in zip(model.parameters(), twin.parameters()))
    assert same or not alike
    for one, other in zip(model.parameters(), twin.parameters()):
        torch.testing.assert_close(one, other)


def test_flags_come_back():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1)
    former = [(group.get("foreach"), group.get("fused")) for group in optimizer.param_groups]
    set_kernel(optimizer, "fused")
    assert optimizer.param_groups[0]["fused"]
    set_kernel(optimizer, former)
    assert (optimizer.param_groups[0]["foreach"], optimizer.param_groups[0]["fused"]) == former[0]


def test_optimizers_of_the_program_are_left_alone():
    class Own(torch.optim.SGD):
        pass

    assert not has_kernel(Own([torch.nn.Parameter(torch.ones(2))], lr=0.1), "fused")
    assert not has_kernel(torch.optim.LBFGS([torch.nn.Parameter(torch.ones(2))]), "fused")
