# Data sets of the Hugging Face hub: names, revisions, signed URLs that expire, listings, and the token, which only the
# hub may see.
import os
import socket

import numpy as np
import pytest
from conftest import run_program
from fake_hub import TOKEN, FakeHub


@pytest.fixture(autouse=True)
def own_settings(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("HF_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("HUGGING_FACE_HUB_TOKEN", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """The bytes of x-0.tar, x-1.tar and x-2.tar, of 700 digits each."""
    folder = tmp_path_factory.mktemp("shards")
    found = {}
    for number in range(3):
        run_program("pack", f"synth:digits?count=700&seed={number}", f"x-{number}.tar", cwd=folder)
        found[f"x-{number}.tar"] = (folder / f"x-{number}.tar").read_bytes()
    return found


@pytest.fixture
def start(monkeypatch):
    """Starts a hub, to which HF_ENDPOINT points."""
    started = []

    def start(files, **options):
        started.append(FakeHub(files, **options))
        monkeypatch.setenv("HF_ENDPOINT", started[-1].hub.origin + "/")
        return started[-1]

    yield start
    for hub in started:
        hub.close()


def report(stoker, data, **options):
    found = stoker("inspect", data, "--verify", "--json", **options).json()
    del found["path"]
    return found


def local(tmp_path, shards, name="x-0.tar"):
    (tmp_path / name).write_bytes(shards[name])
    return name


def test_a_shard_of_the_hub(stoker, tmp_path, start, shards):
    hub = start({("org/digits", "main"): {"data/x 0?.tar": shards["x-0.tar"]}}, private=True)
    name = "hf://datasets/org/digits/data/x 0?.tar"
    env = {"HF_TOKEN": TOKEN}
    assert report(stoker, name, env=env) == report(stoker, local(tmp_path, shards))
    stoker("show", name, "--index", 17, "--npy", "remote.npy", env=env)
    stoker("show", "x-0.tar", "--index", 17, "--npy", "local.npy")
    assert (np.load(tmp_path / "remote.npy") == np.load(tmp_path / "local.npy")).all()
    assert all(headers["authorization"] == f"Bearer {TOKEN}" for _, headers in hub.hub.seen)
    assert len(hub.network.seen) > 3 and len(hub.hub.seen) == 2, "a signed URL is used more than once"
    for _, headers in hub.network.seen:
        assert not {"authorization", "if-match"} & {name.lower() for name in headers}


def test_a_loader_and_the_kept_index(tmp_path, start, shards):
    import stoker as package

    hub = start({("org/digits", "main"): shards})
    dataset = package.open("hf://datasets/org/digits/x-*.tar")
    assert len(dataset) == 2100 and len(hub.network.seen) > 3
    hub.network.seen.clear()
    package.open("hf://datasets/org/digits/x-*.tar")
    assert [headers["range"] for _, headers in hub.network.seen] == 3 * ["bytes=0-0"], "the hash names the content"
    loader = package.Loader("hf://datasets/org/digits/x-*.tar", 8, workers=1)
    assert sum(len(batch["key"]) for batch in loader) == 2100


def test_a_signature_that_expires(stoker, tmp_path, start, shards):
    hub = start({("org/digits", "main"): shards}, uses=1)
    assert report(stoker, "hf://datasets/org/digits/x-0.tar") == report(stoker, local(tmp_path, shards))
    assert len(hub.left) > 1
    hub.uses = 0
    done = stoker("inspect", "hf://datasets/org/digits/x-0.tar", status=1)
    assert "403" in done.err and done.err.count("\n") == 1 and "HIDDEN" not in done.err


def test_a_file_that_changes_between_signatures(stoker, tmp_path, start, shards):
    files = {"x-0.tar": shards["x-0.tar"]}
    hub = start({("org/digits", "main"): files}, uses=1)
    answer = hub.on_network

    def replace_soon(request, path, query):
        if len(hub.network.seen) == 1:
            files["x-0.tar"] = shards["x-0.tar"][:-1] + b"x"
        answer(request, path, query)

    hub.network.respond = replace_soon
    done = stoker("inspect", "--verify", "hf://datasets/org/digits/x-0.tar", status=1)
    assert "replaced while it was open" in done.err


def test_names(stoker, tmp_path, start, shards):
    tar = shards["x-0.tar"]
    hub = start(
        {
            ("org/new", "main"): {"x.tar": tar},
            ("org/new", "refs/convert/parquet"): {"y/x.tar": tar},
            ("org/new", "refs/pr/12"): {"x.tar": tar},
            ("org/new", "v1/a"): {"x.tar": tar},
            ("old", "main"): {"a/x.tar": tar, "x.tar": tar},
        }
    )
    hub.renamed["org/former"] = "org/new"
    for name in [
        "org/new/x.tar",
        "org/new@refs/convert/parquet/y/x.tar",
        "org/new@refs%2Fconvert%2Fparquet/y/x.tar",
        "org/new@~parquet/y/x.tar",
        "org/new@refs/pr/12/x.tar",
        "org/new@v1%2Fa/x.tar",
        "org/former/x.tar",
        "old/a/x.tar",
        "old/x.tar",
        "old@main/a/x.tar",
    ]:
        assert report(stoker, f"hf://datasets/{name}")["samples"] == 700, name
    for name, said in [
        ("datasets/org/new/none.tar", "EntryNotFound"),
        ("datasets/org/new@none/x.tar", "RevisionNotFound"),
        ("datasets/org/none/x.tar", "RepoNotFound"),
        ("models/org/new/x.tar", "hf://models"),
        ("spaces/org/new/x.tar", "hf://spaces"),
        ("org/new/x.tar", "hf://org"),
        ("datasets/org/new/../x.tar", "../x.tar"),
    ]:
        done = stoker("inspect", f"hf://{name}", status=None)
        assert done.status != 0 and said in done.err and done.err.count("\n") == 1, done.err


def test_patterns(stoker, start, shards):
    hub = start({("org/digits", "main"): {**shards, "deep/er/y-0.tar": shards["x-0.tar"], "z.json": b"{}"}})
    assert report(stoker, "hf://datasets/org/digits/x-*.tar")["samples"] == 2100
    pages = [path for path, _ in hub.hub.seen if path.startswith("/api/")]
    assert len(pages) == 3 and "recursive=false" in pages[0] and "cursor=" in pages[1]
    assert report(stoker, "hf://datasets/org/digits/**/*.tar")["samples"] == 2800
    assert report(stoker, "hf://datasets/org/digits/deep/*/y-*.tar")["samples"] == 700
    done = stoker("inspect", "hf://datasets/org/digits/y-*.tar", status=1)
    assert "match the pattern" in done.err and done.err.count("\n") == 1
    assert "EntryNotFound" in stoker("inspect", "hf://datasets/org/digits/none/*.tar", status=1).err


def test_a_packed_set(stoker, tmp_path, start):
    stoker("pack", "synth:digits?count=60", "x.stk", "--shard-size", "8KB")
    files = {f"sets/x.stk/{file.name}": file.read_bytes() for file in (tmp_path / "x.stk").iterdir()}
    start({("org/digits", "main"): files})
    assert report(stoker, "hf://datasets/org/digits/sets/x.stk") == report(stoker, "x.stk")


def test_places_of_the_token(stoker, tmp_path, start, shards):
    hub = start({("org/digits", "main"): shards}, private=True)
    name = "hf://datasets/org/digits/x-0.tar"
    (tmp_path / "home/.cache/huggingface").mkdir(parents=True)
    (tmp_path / "token").write_text(TOKEN + "\n")
    done = stoker("inspect", name, status=1)
    assert "RepoNotFound" in done.err and "HF_TOKEN" in done.err
    stoker("inspect", name, env={"HUGGING_FACE_HUB_TOKEN": TOKEN})
    stoker("inspect", name, env={"HF_TOKEN_PATH": str(tmp_path / "token")})
    stoker("inspect", name, env={"HF_HOME": str(tmp_path)})
    stoker("inspect", name, env={"HF_TOKEN": "hf_wrong", "HF_HOME": str(tmp_path)}, status=1)
    (tmp_path / "home/.cache/huggingface/token").write_text(TOKEN)
    stoker("inspect", name)
    stoker("inspect", name, env={"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}, status=1)
    broken = stoker("inspect", name, env={"HF_TOKEN": "hf_HIDDEN\nx: y"}, status=None)
    assert broken.status != 0 and "HIDDEN" not in broken.err
    seen = len(hub.hub.seen)
    done = stoker("inspect", name, env={"HF_HUB_OFFLINE": "1"}, status=1)
    assert "HF_HUB_OFFLINE" in done.err and done.err.count("\n") == 1 and len(hub.hub.seen) == seen


def test_the_token_is_nowhere(stoker, tmp_path, start, shards):
    hub = start({("org/digits", "main"): shards}, private=True, uses=1)
    env = {"HF_TOKEN": TOKEN}
    name = "hf://datasets/org/digits/x-*.tar"
    runs = [
        stoker("inspect", name, "--verify", env=env),
        stoker("inspect", name, "--verify", "--json", env=env),
        stoker("pack", name, "y.stk", env=env),
        stoker("show", name, env=env),
        stoker("inspect", "hf://datasets/org/digits/none.tar", env=env, status=1),
    ]
    hub.uses = 0
    runs.append(stoker("inspect", name, env=env, status=1))
    assert all("HIDDEN" not in run.out + run.err for run in runs)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files and not [path for path in files if b"HIDDEN" in path.read_bytes() or "HIDDEN" in path.name]
    done = stoker("inspect", "hf://HIDDENuser:HIDDENpw@datasets/org/digits/x-0.tar", status=None)
    assert done.status != 0 and "HIDDEN" not in done.err


def test_a_redirect_into_this_machine_is_refused(stoker, start, shards):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.254", 9))  # sends nothing
        except OSError:
            pytest.skip("needs a network interface besides the loopback")
        address = probe.getsockname()[0]
    hub = start({("org/digits", "main"): shards}, address=address)
    done = stoker("inspect", "hf://datasets/org/digits/x-0.tar", status=1)
    assert " to a loopback address (" in done.err and done.err.count("\n") == 1 and not hub.network.seen
    stoker("inspect", "hf://datasets/org/digits/x-0.tar", env={"STOKER_PRIVATE_REDIRECTS": "1"})
    assert hub.network.seen


def test_a_listing_that_leads_elsewhere(stoker, start, shards):
    hub = start({("org/digits", "main"): shards})
    other = start({("org/digits", "main"): shards})
    entries = b'[{"type": "file", "path": "x-0.tar", "size": 1}]'
    link = {"Link": f'<{other.hub.origin}/api/datasets/org/digits/tree/main?cursor=1>; rel="next"'}
    hub.hub.respond = lambda request, path, query: request.answer(200, link, entries)
    env = {"HF_TOKEN": TOKEN, "HF_ENDPOINT": hub.hub.origin}
    done = stoker("inspect", "hf://datasets/org/digits/*.tar", env=env, status=1)
    assert "same host" in done.err and not other.hub.seen


def parquet(first, count):
    """Parquet with a page for every few rows, so that a sample needs a part of the file."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pixels = np.random.default_rng(first).integers(0, 256, (count, 40, 50, 3), np.uint8)
    rows = [{"bytes": b"P6 50 40 255\n" + image.tobytes(), "path": None} for image in pixels]
    table = pa.table({"image": rows, "label": list(range(first, first + count))})
    sink = pa.BufferOutputStream()
    settings = {"use_dictionary": False, "write_page_index": True, "data_page_size": 1, "write_batch_size": 8}
    pq.write_table(table, sink, row_group_size=150, **settings)
    return pixels, sink.getvalue().to_pybytes()


def test_parquet_of_the_hub(tmp_path, start):
    import stoker as package

    (pixels, first), (_, second) = parquet(0, 400), parquet(400, 100)
    (tests, third) = parquet(500, 20)
    files = {"data/train-00000-of-00002.parquet": first, "data/train-00001-of-00002.parquet": second,
             "data/test-00000-of-00001.parquet": third, "README.md": b"# no configurations"}
    hub = start({("me/mine", "main"): files})
    data = package.open("hf://datasets/me/mine")
    assert len(data) == 500 and data.label(499) == 499 and data.key(450) == "train-00001-of-00002/50"
    assert (data[399]["image"] == pixels[399]).all()
    assert len(package.open("hf://datasets/me/mine", split="test")) == 20
    assert (package.open("hf://datasets/me/mine/data/test-*.parquet")[19]["image"] == tests[19]).all()
    (tmp_path / "data").mkdir()
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)

    def epoch(path, workers):
        loader = package.Loader(path, 50, workers=workers, seed=3, shuffle_window=100, framework="numpy")
        return [(batch["index"].tolist(), batch["image"].tobytes()) for batch in loader]

    assert epoch("hf://datasets/me/mine", 1) == epoch("hf://datasets/me/mine", 4)
    hub.network.seen.clear()
