# Images of bfloat16, and the policies of random ops on images that are not uint8.
import numpy as np
import pytest
import stoker as package
import torch
from safetensors.torch import save_file as save_torch
from stoker import transforms as ours
from test_py_planes import COUNT, draw


# torchvision has the ops of its policies for floats in [0, 1] alone, and wrong thresholds for uint16.
@pytest.mark.parametrize("op", [ours.RandAugment(4), ours.TrivialAugmentWide(), ours.AutoAugment(), ours.TimmRandAugment(num_ops=2, p=1)])
@pytest.mark.parametrize("dtype", ["uint16", "float32"])
def test_policies_do_the_same_as_with_bytes(tmp_path, op, dtype):
    y, x = np.mgrid[:40, :48]
    waves = np.array([[np.sin(x / (6 + i % 7) + c) * np.cos(y / (5 + i % 3)) for c in range(3)] for i in range(200)])
    images = np.moveaxis(128 + 100 * waves, 1, -1).astype(np.uint8)
    wide = images * np.uint16(257) if dtype == "uint16" else images.astype(np.float32) / np.float32(255)
    found = []
    for name, given in [("bytes", images), ("wide", wide)]:
        np.savez(tmp_path / f"{name}.npz", images=given)
        (batch,) = package.Loader(tmp_path / f"{name}.npz", 200, ops=[op], shuffle=False, framework="torch")
        found.append(batch["image"])
    close = ((found[0] - found[1]).abs() <= 4 / 255).float().mean((1, 2, 3))
    assert (close > 0.98).float().mean() > 0.95 and (found[0] != torch.from_numpy(images).permute(0, 3, 1, 2) / 255).any()


# Values of bfloat16 are those of float32 with 16 bits less; NumPy lacks the type.
@pytest.mark.parametrize("ending", ["pt", "safetensors"])
@pytest.mark.parametrize("clip", [False, True])
def test_bfloat16(tmp_path, stoker, ending, clip):
    images = torch.from_numpy(draw("float32")).bfloat16()
    images = images[:, None].repeat(1, 2, 1, 1, 1) * torch.tensor([1.0, 0.5]).bfloat16()[:, None, None, None] if clip else images
    tensors = {"images": images.contiguous(), "labels": torch.arange(COUNT), "target": torch.arange(COUNT).bfloat16() / 4}
    path = tmp_path / f"data.{ending}"
    if ending == "pt":
        torch.save(tensors, path)
    else:
        save_torch(tensors, path)
    data = package.open(path, fields={"target": ("target", "value")}, clips=clip)
    assert np.array_equal(data[1]["image"], np.moveaxis(images[1].float().numpy(), -3, -1))
    (found,) = package.Loader(data, COUNT, shuffle=False, framework="torch")
    assert torch.equal(found["image"], images.float())
    assert torch.equal(found["target"], tensors["target"]) and found["target"].dtype == torch.bfloat16
    if not clip:
        assert stoker("inspect", path, "--json").json()["fields"]["image"]["dtype"] == "float32"
        stoker("pack", path, "packed.stk")
        assert np.array_equal(package.open(tmp_path / "packed.stk")[1]["image"], data[1]["image"])
