# python/stoker/export.py by itself: what it refuses, and that it leaves the model as it was.
import pytest
import torch
from test_import import EXAMPLE, LABELS, dropout_net, export_training
from torch import nn


@pytest.mark.parametrize(
    ("example", "path", "text"),
    [
        ((torch.zeros(4, 3, 8), LABELS), "x.pt2", "expected float32 images"),
        ((torch.zeros(4, 3, 8, 8), LABELS[:2]), "x.pt2", "expected int64 labels (4,)"),
        (EXAMPLE, "x.pt", "expected a name that ends in .pt2"),
    ],
)
def test_the_exporter_refuses_what_cannot_be(tmp_path, example, path, text):
    with pytest.raises(ValueError) as error:
        export_training(dropout_net(), nn.CrossEntropyLoss(), example, tmp_path / path)
    assert text in str(error.value)


def test_exporting_changes_nothing_in_the_model(tmp_path):
    net = dropout_net()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    export_training(net, nn.CrossEntropyLoss(), EXAMPLE, tmp_path / "net.pt2")
    assert net.training and all(p.grad is None for p in net.parameters())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert torch.equal(torch.rand(3), expected)
