# A plain training loop with stoker.Loader in PyTorch, in two processes with DDP: it learns, the ranks see different
# samples, and a run that is resumed inside of an epoch ends with the same weights.
import os
import socket
import subprocess
import sys
import textwrap

import pytest
from conftest import PYTHON_PACKAGE

pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")

SCRIPT = textwrap.dedent(
    """
    import gc, os
    import torch
    import torch.distributed as dist
    import stoker
    from stoker.transforms import Normalize
    from torch import nn

    RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")

    def start():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10))
        model = nn.parallel.DistributedDataParallel(net)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        loader = stoker.Loader(
            "synth:digits?count=2000",
            64 // WORLD,
            ops=[Normalize(0.13, 0.31)],
            as_tuple=("image", "label", "index"),
            rank=RANK,
            world_size=WORLD,
            seed=1,
            workers=1,
            drop_last=True,
        )
        return model, optimizer, loader

    def train(model, optimizer, loader, epochs, stop=None):
        steps, losses, seen = 0, [], []
        for epoch in range(loader.epoch, epochs):
            loader.set_epoch(epoch)
            for images, labels, index in loader:
                loss = nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                seen += index.tolist()
                steps += 1
                if steps == stop:
                    return losses, seen
        return losses, seen

    def weights(model):
        return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])

    model, optimizer, loader = start()
    losses, seen = train(model, optimizer, loader, 3)
    assert len(losses) == 3 * len(loader) == 3 * 31 and losses[-1] < 0.5 * losses[0], losses

    first, optimizer_1, loader_1 = start()
    before, seen_1 = train(first, optimizer_1, loader_1, 3, stop=45)
    saved = [first.state_dict(), optimizer_1.state_dict(), loader_1.state_dict()]
    second, optimizer_2, loader_2 = start()
    for part, state in zip((second, optimizer_2, loader_2), saved):
        part.load_state_dict(state)
    after, seen_2 = train(second, optimizer_2, loader_2, 3)
    assert before + after == losses and seen_1 + seen_2 == seen
    assert torch.equal(weights(model), weights(second))

    everyone = [None] * WORLD
    dist.all_gather_object(everyone, seen[: len(loader) * 64 // WORLD])
    epoch = sum(everyone, [])
    assert len(set(epoch)) == len(epoch) == 31 * 64
    # DistributedDataParallel keeps the group, whose threads must end before the interpreter does.
    del model, first, second
    gc.collect()
    dist.destroy_process_group()
    print("done", RANK)
    """
)


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def test_a_loop_learns_and_resumes_inside_of_an_epoch(tmp_path):
    world = 2
    common = {"PYTHONPATH": str(PYTHON_PACKAGE), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, **common, "RANK": str(rank), "WORLD_SIZE": str(world)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]
    outputs = [rank.communicate(timeout=300) for rank in ranks]
    for number, (rank, (out, err)) in enumerate(zip(ranks, outputs)):
        assert rank.returncode == 0 and out == f"done {number}\n", err
