# Documents of any length: rows that hold several, and batches by length.
import io
import json
import math
import tarfile

import numpy as np
import pytest
import stoker as package
import torch
from ranks import run_ranks
from torch import nn
from torch.nn import functional as F

VOCABULARY, CONTEXT, COUNT = 13, 24, 150


def documents(seed=1, count=COUNT, most=40):
    random = np.random.default_rng(seed)
    found = []
    for length in random.integers(2, most, count):
        tokens = [int(random.integers(VOCABULARY))]
        for _ in range(length - 1):
            tokens.append((2 * tokens[-1] + int(random.integers(2))) % VOCABULARY)
        found.append(np.array(tokens, np.int32))
    return found


def write(path, all_documents):
    with tarfile.open(path, "w") as tar:
        for i, tokens in enumerate(all_documents):
            content = io.BytesIO()
            np.save(content, tokens)
            member = tarfile.TarInfo(f"{i:05}.text.npy")
            member.size = content.tell()
            content.seek(0)
            tar.addfile(member, content)
    return path


def opened(path, **options):
    return package.open(path, fields={"tokens": ("text.npy", "tokens")}, **options)


@pytest.fixture
def data(tmp_path):
    return write(tmp_path / "train.tar", documents())


@pytest.fixture
def packed_data(data, tmp_path, stoker):
    stoker("pack", data, "text.stk", "--field", "tokens=text.npy:tokens")
    return tmp_path / "text.stk"


def batches(source, epochs=1, **options):
    loader = package.Loader(source, framework="torch", **{"batch_size": 4} | options)
    return [[{name: value.clone() if torch.is_tensor(value) else value for name, value in batch.items()} for batch in loader] for _ in range(epochs)]


def test_rows_hold_whole_documents(data):
    rows = opened(data, context=CONTEXT)
    found = {}
    for i in range(len(rows)):
        sample = rows[i]
        tokens, segments, positions = sample["tokens"], sample["segment_ids"], sample["position_ids"]
        assert tokens.shape == segments.shape == positions.shape == (CONTEXT + 1,)
        for segment in range(1, segments.max() + 1):
            at = segments == segment
            assert (positions[at] == np.arange(at.sum())).all() and (np.diff(np.flatnonzero(at)) == 1).all()
            found.setdefault(tokens[at].tobytes(), 0)
            found[tokens[at].tobytes()] += 1
        assert (tokens[segments == 0] == 0).all()
    wanted = {}
    for tokens in documents():
        for begin in range(0, len(tokens) - 1, CONTEXT):
            piece = tokens[begin : begin + CONTEXT + 1].astype(np.int64).tobytes()
            wanted[piece] = wanted.get(piece, 0) + 1
    assert found == wanted
    used = sum(np.count_nonzero(rows[i]["segment_ids"]) for i in range(len(rows)))
    assert used / (len(rows) * (CONTEXT + 1)) > 0.9


def test_packed_files_have_the_same_rows(data, packed_data):
    ours, theirs = opened(data, context=CONTEXT), package.open(packed_data, fields={"tokens": ("tokens", "tokens")}, context=CONTEXT)
    assert len(ours) == len(theirs)
    for i in range(len(ours)):
        assert all((ours[i][name] == theirs[i][name]).all() for name in ("tokens", "segment_ids", "position_ids"))


class Attention(nn.Module):
    """One block of attention that stays within segments, with places that begin anew in each."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, 16)
        self.places = nn.Embedding(CONTEXT + 1, 16)
        self.qkv = nn.Linear(16, 48)
        self.head = nn.Linear(16, VOCABULARY)

    def forward(self, tokens, segment_ids, position_ids):
        x = self.tokens(tokens) + self.places(position_ids)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        same = segment_ids.unsqueeze(2) == segment_ids.unsqueeze(1)
        causal = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=same & causal)
        return self.head(x + mixed)


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)


def test_losses_are_those_of_single_documents(data, tmp_path, stoker):
    """Each step's loss on packed rows equals that of the rows' documents, one by one, in PyTorch."""
    write(tmp_path / "val.tar", documents(2, 40, CONTEXT))
    torch.manual_seed(3)
    net = Attention()
    example = {name: torch.zeros(4, CONTEXT, dtype=torch.int64) for name in ("tokens", "segment_ids", "position_ids")}
    package.export.export_training(net, loss_of, (example, torch.zeros(4, CONTEXT, dtype=torch.int64)), tmp_path / "net.pt2")
    (tmp_path / "r.toml").write_text(f"""
seed = 5
task = "language"
[data]
train = "{data}"
val = "{tmp_path}/val.tar"
batch_size = 8
context = {CONTEXT}
[data.fields.tokens]
from = "text.npy"
is = "tokens"
[model]
export = "net.pt2"
[optimizer]
name = "sgd"
lr = 0.1
[train]
epochs = 2
""")
    stoker("train", "r.toml", "--out", "run")
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if line["type"] == "step"]

    def sum_and_count(tokens):
        """One document's."""
        tokens = torch.from_numpy(tokens.astype(np.int64))[None]
        inputs, ones = tokens[:, :-1], torch.ones_like(tokens[:, :-1])
        logits = net(inputs, ones, torch.arange(inputs.shape[1])[None])
        return F.cross_entropy(logits[0], tokens[0, 1:], reduction="sum"), inputs.shape[1]

    rows = opened(data, context=CONTEXT)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    expected = []
    for epoch in batches(rows, epochs=2, batch_size=8, seed=5):
        for batch in epoch:
            total, count = 0, 0
            for tokens, segments in zip(batch["tokens"].numpy(), batch["segment_ids"].numpy(), strict=True):
                for segment in range(1, segments.max() + 1):
                    one, predicted = sum_and_count(tokens[segments == segment])
                    total, count = total + one, count + predicted
            optimizer.zero_grad()
            (total / count).backward()
            optimizer.step()
            expected.append(float(total.detach() / count))
    assert losses == pytest.approx(expected, abs=1e-5)
    with torch.no_grad():
        parts = [sum_and_count(tokens) for tokens in documents(2, 40, CONTEXT)]
    perplexity = math.exp(sum(float(p[0]) for p in parts) / sum(p[1] for p in parts))
    last = [line for line in lines if line["type"] == "epoch"][-1]
    assert last["val_metrics"]["perplexity"] == pytest.approx(perplexity, rel=1e-4)


def test_batches_by_length_have_every_document_once(data):
    source, wanted = opened(data), documents()
    for options in ({"batch_tokens": 120}, {"batch_size": 6}, {"batch_tokens": 120, "shuffle": False}):
        first, second = batches(source, 2, bucket_by="tokens", seed=2, **options)
        for epoch in (first, second):
            assert sorted(i for b in epoch for i in b["index"].tolist()) == list(range(COUNT))
            for batch in epoch:
                lengths, tokens = batch["tokens_length"], batch["tokens"]
                assert tokens.shape[1] <= max(1.25 * 1.125 * lengths.max(), 8)
                assert "batch_size" in options or len(tokens) == 1 or tokens.numel() <= 120
                for i, length, row in zip(batch["index"].tolist(), lengths.tolist(), tokens, strict=True):
                    assert (row[:length].numpy() == wanted[i]).all() and (row[length:] == 0).all()
        assert [b["tokens"].shape for b in first] == [b["tokens"].shape for b in second]
        assert ([b["index"].tolist() for b in first] == [b["index"].tolist() for b in second]) == (options.get("shuffle") is False)


def test_batches_by_length_do_not_depend_on_workers_ranks_and_restarts(data, packed_data, tmp_path):
    options = {"bucket_by": "tokens", "batch_tokens": 160, "seed": 9}
    first, second = batches(opened(data), 2, **options, workers=0)
    for other in (opened(data), package.open(packed_data, fields={"tokens": ("tokens", "tokens")})):
        again = batches(other, 2, **options, workers=3)
        for epoch, theirs in zip((first, second), again, strict=True):
            assert all((a["tokens"] == b["tokens"]).all() and (a["index"] == b["index"]).all() for a, b in zip(epoch, theirs, strict=True))
    loader = package.Loader(opened(data), 4, framework="torch", **options)
    steps = iter(loader)
    for _ in range(5):
        next(steps)
    resumed = package.Loader(opened(data), 4, framework="torch", **options)
    resumed.load_state_dict(loader.state_dict())
    assert [b["index"].tolist() for b in resumed] == [b["index"].tolist() for b in first[5:]]
    other = package.Loader(opened(data), 4, framework="torch", **options | {"batch_tokens": 200})
    with pytest.raises(package.InvalidArgument):
        other.load_state_dict(loader.state_dict())
    short = opened(write(tmp_path / "short.tar", [d for d in documents() if 8 < len(d) <= 36]))
    whole_batches = batches(short, **options | {"batch_tokens": 90, "drop_last": True})[0]
    parts = [batches(short, **options | {"batch_tokens": 45, "drop_last": True, "rank": rank, "world_size": 2})[0] for rank in range(2)]
    for whole, *slices in zip(whole_batches, *parts, strict=True):
        assert whole["index"].tolist() == [i for part in slices for i in part["index"].tolist()]


def test_training_on_batches_by_length(data, tmp_path, stoker):
    class Bigram(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(VOCABULARY, VOCABULARY)

        def forward(net, tokens):
            return net.table(tokens)

    torch.manual_seed(1)
    net = Bigram()
    torch.jit.script(net).save(tmp_path / "net.pt")
    (tmp_path / "r.toml").write_text(f"""
seed = 4
task = "language"
[data]
train = "{data}"
val = "{data}"
bucket_by = "tokens"
batch_tokens = 200
[data.fields.tokens]
from = "text.npy"
is = "tokens"
[model]
script = "net.pt"
[optimizer]
name = "sgd"
lr = 1.0
[train]
epochs = 2
""")
    stoker("train", "r.toml", "--out", "run")
    run_ranks(2, "train", "r.toml", "--out", "ranks", cwd=tmp_path)
    lines, of_ranks = ([json.loads(line) for line in (tmp_path / run / "metrics.jsonl").read_text().splitlines()] for run in ("run", "ranks"))
    assert [line["step"] for line in of_ranks if line["type"] == "step"] == [line["step"] for line in lines if line["type"] == "step"]
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    expected = []
    for epoch in batches(opened(data), 2, bucket_by="tokens", batch_tokens=200, seed=4):
        for batch in epoch:
            tokens = batch["tokens"].long()
            targets = tokens[:, 1:].masked_fill(torch.arange(1, tokens.shape[1]) >= batch["tokens_length"][:, None], -100)
            optimizer.zero_grad()
            loss = loss_of(net(tokens[:, :-1]), targets)
            loss.backward()
            optimizer.step()
            expected.append(float(loss))
    assert [line["loss"] for line in lines if line["type"] == "step"] == pytest.approx(expected, abs=1e-5)


def test_bad_documents_are_replaced(tmp_path):
    found = documents()
    for i in (3, 77):
        found[i] = np.array([-1.5, 2.5])  # not tokens
    source = opened(write(tmp_path / "bad.tar", found))
    loader = package.Loader(source, 4, framework="torch", bucket_by="tokens", batch_tokens=160, bad_samples=2)
    with pytest.warns(package.BadSampleWarning):
        indices = [i for batch in loader for i in batch["index"].tolist()]
    assert sorted(bad.index for bad in loader.bad_samples.values()) == [3, 77]
    assert len(indices) == COUNT and not {3, 77} & set(indices)
    rows = opened(tmp_path / "bad.tar", context=CONTEXT)
    loader = package.Loader(rows, 4, bad_samples=2)
    with pytest.warns(package.BadSampleWarning):
        list(loader)
    assert len(loader.bad_samples) == 2


def test_a_long_document_takes_no_memory_of_the_short(tmp_path, stoker):
    found = [np.arange(5, dtype=np.int32) for _ in range(2000)] + [np.zeros(300_000, np.int32)]
    source = opened(write(tmp_path / "long.tar", found))
    loader = package.Loader(source, 4, framework="torch", bucket_by="tokens", batch_tokens=16384, workers=1)
    shapes = {tuple(batch["tokens"].shape) for batch in loader}
    assert shapes == {(2000, 8), (1, 327680)}


def test_show_needs_pictures(packed_data, stoker):
    message = stoker("show", packed_data, "--field", "tokens:tokens", status=1).err
    assert "tokens int32" in message and message.count("\n") == 1


def test_settings_that_do_not_fit(data, stoker, tmp_path):
    source = opened(data)
    for options, named in (
        ({"batch_tokens": 100}, "bucket_by"), ({"bucket_by": "text.npy"}, "bucket_by"), ({"bucket_by": "tokens", "balance": True}, "balance"),
        ({"bucket_by": "tokens", "epoch_samples": 10}, "epoch_samples"), ({"bucket_by": "tokens", "shuffle_window": 10}, "shuffle_window"),
    ):  # fmt: skip
        with pytest.raises(package.InvalidArgument, match=named):
            package.Loader(source, 4, **options)
    with pytest.raises(package.InvalidArgument, match="context"):
        package.open(data, context=CONTEXT)
