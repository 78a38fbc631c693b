# stoker.Loader in plain DDP: ResNet-18 in two processes with gloo. One process writes the checkpoint inside of an epoch;
# a second pair of processes continues from it, and each of them ends with the weights of the unbroken run, bit for bit.
import os
import subprocess
import sys
import textwrap

import pytest
from conftest import PYTHON_PACKAGE
from test_py_training import free_port

pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")

import torch  # noqa: E402

# sys.argv: the data, the folder for checkpoints and weights, the step of the checkpoint to continue from (0: none).
SCRIPT = textwrap.dedent(
    """
    import gc, sys
    import torch
    import torch.distributed as dist
    import stoker
    from stoker.transforms import Normalize, RandomHorizontalFlip, RandomResizedCrop
    from torch.nn.functional import cross_entropy
    from torch.nn.parallel import DistributedDataParallel
    from torchvision.models import resnet18

    data, folder, step = sys.argv[1], sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()

    torch.manual_seed(0)
    model = DistributedDataParallel(resnet18(num_classes=8))
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    ops = [RandomResizedCrop(32), RandomHorizontalFlip(), Normalize([0.5] * 3, [0.25] * 3)]
    loader = stoker.Loader(data, 2, ops=ops, seed=5, workers=1, rank=rank, world_size=dist.get_world_size())
    parts = {"model": model, "optimizer": optimizer, "loader": loader}
    if step:
        for name, state in torch.load(f"{folder}/{step}.pt", weights_only=True).items():
            parts[name].load_state_dict(state)

    indices = []
    for epoch in range(loader.epoch, 2):
        loader.set_epoch(epoch)
        for batch in loader:
            cross_entropy(model(batch["image"]), batch["label"]).backward()
            optimizer.step()
            optimizer.zero_grad()
            indices += batch["index"].tolist()
            step += 1
            if step == 9 and rank == 0:
                torch.save({name: part.state_dict() for name, part in parts.items()}, f"{folder}/{step}.pt")
    assert step == 2 * len(loader) == 12, (step, len(loader))

    torch.save({"weights": model.module.state_dict(), "indices": indices}, f"{folder}/rank{rank}.pt")
    loader.close()
    # DistributedDataParallel keeps the group, whose threads must end before the interpreter does.
    del model, parts
    gc.collect()
    dist.destroy_process_group()
    """
)


def run(data, folder, step):
    """The weights that each of two processes has at the end, and the samples that it saw."""
    common = {"PYTHONPATH": str(PYTHON_PACKAGE), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(data), str(folder), str(step)],
            env={**os.environ, **common, "RANK": str(rank), "WORLD_SIZE": "2"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    errors = [rank.communicate(timeout=300)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(errors)
    return [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.slow
def test_resnet18_resumes_inside_of_an_epoch(drawn, tmp_path):
    whole = run(drawn, tmp_path, 0)
    samples = len(whole[0]["indices"]) // 2
    assert samples == 12 and {*whole[0]["indices"][:samples], *whole[1]["indices"][:samples]} == set(range(24))
    step = 9  # in the middle of the second epoch
    resumed = run(drawn, tmp_path, step)
    for rank in range(2):
        weights, given = whole[rank]["weights"], resumed[rank]["weights"]
        different = [name for name in weights if not torch.equal(weights[name], given[name])]
        assert not different, f"rank {rank}: {different}"
        assert resumed[rank]["indices"] == whole[rank]["indices"][2 * step :]
