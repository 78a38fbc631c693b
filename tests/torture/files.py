# Truncated and changed files of each format, checkpoints included: the program ends with success or an error line, and
# with no more memory than a few times that of the whole file.
import gzip
import os
import shutil
import struct
import subprocess
import threading

import numpy as np
from attack import Attack, Failure, check_end, compile_c
from conftest import PROGRAM, run_program
from jobs import finish
from PIL import Image
from test_resume import EPOCHS, RECIPE

MEMORY = 4  # times the peak of the undamaged file


PIXELS = np.random.default_rng(1).integers(0, 256, (40, 56, 3), dtype=np.uint8)
GREYS = np.random.default_rng(2).integers(0, 256, (30, 12, 12), dtype=np.uint8)
LABELS = np.arange(30) % 3


def image_folder(ending, write):
    def make(path):
        (path / "one").mkdir(parents=True)
        write(path / f"one/0.{ending}")

    return make


def write_runs(path):
    """A run-length encoded BMP."""
    runs = b"".join(bytes([56, level]) + b"\0\0" for level in range(40)) + b"\0\1"
    info = struct.pack("<IiiHHIIiiII", 40, 56, 40, 1, 8, 1, len(runs), 0, 0, 0, 0) + bytes(range(256)) * 4
    head = struct.pack("<2sIHHI", b"BM", 14 + len(info) + len(runs), 0, 0, 14 + len(info))
    path.write_bytes(head + info + runs)


def write_text(path):
    path.write_text("P3 56 40 255\n" + " ".join(str(value) for value in PIXELS.ravel()) + "\n")


def write_safetensors(path):
    header = b'{"images":{"dtype":"U8","shape":[30,12,12],"data_offsets":[0,4320]}}'
    path.write_bytes(struct.pack("<Q", len(header)) + header + GREYS.tobytes())


def write_idx(path, ending="", pack=bytes):
    path.mkdir()
    for part in ("train", "t10k"):
        images = struct.pack(">IIII", 2051, 30, 12, 12) + GREYS.tobytes()
        labels = struct.pack(">II", 2049, 30) + LABELS.astype(np.uint8).tobytes()
        (path / f"{part}-images-idx3-ubyte{ending}").write_bytes(pack(images))
        (path / f"{part}-labels-idx1-ubyte{ending}").write_bytes(pack(labels))


def write_cifar(path):
    path.mkdir()
    rows = np.random.default_rng(3).integers(0, 256, (20, 3073), dtype=np.uint8)
    rows[:, 0] %= 10
    for name in [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]:
        (path / name).write_bytes(rows.tobytes())
    (path / "batches.meta.txt").write_text("".join(f"class{number}\n" for number in range(10)))


def write_pt(path):
    import torch  # takes seconds

    torch.save({"images": torch.from_numpy(GREYS), "labels": torch.from_numpy(LABELS)}, path)


def packed(codec):
    def make(path):
        source = path.parent / f"source of {path.name}"
        run_program("synth", "photos", source, "--count", "24", cwd=path.parent)
        run_program("pack", source, path, "--codec", codec, "--resize-shorter", "64", cwd=path.parent)

    return make


def write_run(path):
    """A run folder: its recipe, checkpoints and records."""
    recipe = path.parent / "r.toml"
    recipe.write_text(RECIPE.replace(f"epochs = {EPOCHS}", "epochs = 1"))
    run_program("train", recipe, "--out", path, cwd=path.parent)


MAKERS = {
    **{f"image-{ending}": image_folder(ending, Image.fromarray(PIXELS).save)
       for ending in ("jpg", "png", "webp", "bmp", "ppm")},
    "image-runs": image_folder("bmp", write_runs),
    "image-text": image_folder("pnm", write_text),
    "x.npy": lambda path: np.save(path, GREYS),
    "plain.npz": lambda path: np.savez(path, images=GREYS, labels=LABELS),
    "deflated.npz": lambda path: np.savez_compressed(path, images=GREYS, labels=LABELS),
    "x.safetensors": write_safetensors,
    "idx": write_idx,
    "idx-gz": lambda path: write_idx(path, ".gz", gzip.compress),
    "cifar": write_cifar,
    "x.pt": write_pt,
    "keep.stk": packed("keep"),
    "dct.stk": packed("dct"),
    "zstd.stk": packed("dct-zstd"),
    "raw.stk": packed("raw"),
    "x.tar": packed("keep"),
    "x.lmdb": packed("keep"),
    "x.h5": packed("keep"),
    "run": write_run,
}  # fmt: skip


def damage(data, random):
    """A truncation, changed bits, or a number that is far too large."""
    kind = random.choice(("cut", "bits", "bits", "number"))
    data = bytearray(data)
    if kind == "cut":
        return bytes(data[: random.randrange(len(data))]), kind
    # Headers are short: half of the changes are made in the first bytes.
    end = len(data) if random.random() < 0.5 else min(len(data), 512)
    for _ in range(random.randint(1, 6) if kind == "bits" else 1):
        at = random.randrange(end)
        if kind == "bits":
            data[at] ^= 1 << random.randrange(8)
        else:
            data[at : at + 4] = random.choice((b"\xff\xff\xff\x7f", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", bytes(4)))
    return bytes(data), kind


def command_for(path):
    if path.name == "run":
        return ["eval", path, "--json"]
    return ["inspect", path, "--verify", "--json"]


class Targets:
    """Each data set, made when it is first asked for, with the peak memory of reading it."""

    def __init__(self, folder):
        self.folder = folder
        self.measure = compile_c("measure.c", folder / "measure")
        self.peaks = {}
        self.lock = threading.Lock()

    def get(self, name):
        path = self.folder / name
        with self.lock:
            if name not in self.peaks:
                MAKERS[name](path)
                status, err, self.peaks[name] = self.read(path, self.folder)
                assert status == 0, (name, err)
        return path, self.peaks[name]

    def read(self, path, folder):
        """Status, stderr and peak memory in KiB."""
        command = [self.measure, folder / "peak", PROGRAM, *command_for(path)]
        with subprocess.Popen([str(word) for word in command], cwd=folder, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, errors="replace",
                              env={**os.environ, "STOKER_CACHE": str(folder / "cache")}) as process:  # fmt: skip
            status, err = finish(process)
        return status, err, int((folder / "peak").read_text())


def file_attacks(count):
    names = list(MAKERS)
    state = {}

    def prepare(shared):
        state["targets"] = Targets(shared)

    def run(case):
        name = names[case.number % len(names)]
        whole, whole_peak = state["targets"].get(name)
        copy = case.folder / name
        (shutil.copytree if whole.is_dir() else shutil.copy)(whole, copy)
        files = [path for path in copy.rglob("*") if path.is_file() and path.stat().st_size > 0]
        file = case.random.choice(sorted(files) or [copy])
        data, kind = damage(file.read_bytes(), case.random)
        file.write_bytes(data)
        status, err, peak = state["targets"].read(copy, case.folder)
        where = f"{name}, {file.name}, {kind}"
        check_end(status, err, where)
        if peak > MEMORY * whole_peak:
            raise Failure(f"{where}: used {peak} KiB, more than {MEMORY} times the {whole_peak} of the undamaged file")

    means = f"success or an error line, no signal, and at most {MEMORY} times the memory of the undamaged file"
    return [Attack("hostile-file", means, count, run, prepare)]
