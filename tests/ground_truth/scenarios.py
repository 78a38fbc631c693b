# The planted bottlenecks and the healthy runs. A scenario is a recipe, an environment, and the verdict that is right.
# Each draws sizes and counts from its seed, so that no rule can be tuned to one run.
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import numpy as np
from PIL import Image

HERE = Path(__file__).parent


@dataclass
class Plan:
    """What one case runs. `data` and `rest` are TOML: keys of [data], and whole tables."""

    train: Path
    data: str = ""
    rest: str = ""
    ops: str = '{op = "resize", size = [32, 32]}, {op = "normalize", preset = "imagenet"}'
    val: str = ""
    environment: dict = field(default_factory=dict)
    rank_environment: dict = field(default_factory=dict)  # of the last of two ranks
    beside: Callable = None  # a context manager that runs meanwhile
    memory: str = ""


@dataclass
class Scenario:
    name: str  # the rule that is right; "healthy: ..." for runs without a bottleneck
    plan: Callable  # (rng, Data) -> Plan
    costs_nothing: bool = False  # the rule is right as a finding of severity info; the verdict may be another
    evidence: dict = field(default_factory=dict)  # that the finding must have

    @property
    def healthy(self):
        return self.name.startswith("healthy")

    def accepts(self, document):
        if self.healthy:
            return document["verdict"]["rule"] == "healthy"
        found = next((finding["evidence"] for finding in document["findings"] if finding["rule"] == self.name), None)
        named = self.costs_nothing or document["verdict"]["rule"] == self.name
        return named and found is not None and self.evidence.items() <= found.items()


def noise(rng, height, width):
    """Pixels that are costly to decode, but no pure noise: a coarse picture with some grain. Beyond 1024 they repeat."""
    high, wide = min(height, 1024), min(width, 1024)
    coarse = rng.integers(0, 256, (high // 16 + 1, wide // 16 + 1, 3), dtype=np.uint8)
    picture = np.asarray(Image.fromarray(coarse).resize((wide, high), Image.BILINEAR), dtype=np.int16)
    grain = rng.integers(-24, 25, (high, wide, 3), dtype=np.int16)
    tile = np.clip(picture + grain, 0, 255).astype(np.uint8)
    return np.tile(tile, (-(-height // high), -(-width // wide), 1))[:height, :width]


class Data:
    """Makes data sets on demand, below one folder, and keeps them for later cases."""

    def __init__(self, folder):
        self.folder = folder

    def images(self, name, count, size, suffix="jpg", classes=2, seed=0):
        path = self.folder / f"{name}-{count}-{size}-{seed}"
        if not path.exists():
            rng = np.random.default_rng(seed)
            for i in range(count):
                target = path / f"class{i % classes}" / f"{i:05}.{suffix}"
                target.parent.mkdir(parents=True, exist_ok=True)
                side = size if isinstance(size, int) else int(rng.choice(size))
                Image.fromarray(noise(rng, side * 3 // 4, side)).save(target, quality=92)
        return path

    def arrays(self, count, side, seed=0):
        path = self.folder / f"arrays-{count}-{side}-{seed}.npz"
        if not path.exists():
            rng = np.random.default_rng(seed)
            images = rng.integers(0, 256, (count, side, side, 3), dtype=np.uint8)
            np.savez(path, images=images, labels=rng.integers(0, 4, count, dtype=np.int64))
        return path


MLP = '[model]\nname = "mlp"\nhidden = [32]\nclasses = 4\n'
CONVNET = '[model]\nname = "convnet"\nclasses = 4\n'
WIDE_MLP = '[model]\nname = "mlp"\nhidden = [512]\nclasses = 4\n'
COSTLY_OPS = (
    '{op = "color_jitter", brightness = 0.4, contrast = 0.4, saturation = 0.4, hue = 0.1}, '
    '{op = "random_rotation", degrees = 30}, {op = "resize", size = [32, 32]}, {op = "normalize", preset = "imagenet"}'
)
RESNET = '[model]\nname = "resnet18"\nclasses = 4\n'


def epochs(count):
    return f"[train]\nepochs = {count}\n"


def cores():
    return len(os.sched_getaffinity(0))


def computes_fp16():
    """Whether this processor multiplies matrices in fp16."""
    return bool({"avx512_fp16", "amx_fp16"} & set(Path("/proc/cpuinfo").read_text().split()))


def no_workers(rng, data):
    images = data.images("medium", 120, int(rng.integers(500, 700)))
    return Plan(images, f"batch_size = {rng.choice([8, 12, 16])}\nworkers = 0", CONVNET + epochs(4))


def few_workers(rng, data):
    images = data.images("medium", 160, int(rng.integers(700, 900)))
    return Plan(images, f"batch_size = {rng.choice([8, 16])}\nworkers = 1", MLP + epochs(8))


def storage_bound(rng, data):
    images = data.images("small", 200, int(rng.integers(80, 120)))
    slow = {"SLOW_UNDER": str(images), "SLOW_US": str(rng.integers(4000, 9000))}
    return Plan(images, "batch_size = 10", MLP + epochs(4), environment=slow)


def decode_bound(rng, data):
    images = data.images("large", 60, int(rng.integers(1500, 1900)))
    return Plan(images, f"batch_size = {rng.choice([4, 6])}\nworkers = {cores()}", MLP + epochs(6))


def augment_bound(rng, data):
    arrays = data.arrays(200, int(rng.integers(260, 320)))
    return Plan(arrays, f"batch_size = 8\nworkers = {cores()}", MLP + epochs(15), ops=COSTLY_OPS)


def many_workers(rng, data):
    images = data.images("medium", 120, int(rng.integers(500, 700)))
    return Plan(images, f"batch_size = 16\nworkers = {rng.integers(12, 25) * cores() // 2}", MLP + epochs(24))


def no_prefetch(rng, data):
    images = data.images("uneven", 160, (48,) * 19 + (6000,), seed=int(rng.integers(3)))
    ops = '{op = "resize", size = [16, 16]}, {op = "normalize", preset = "imagenet"}'  # else the steps hide the wait
    return Plan(images, f"batch_size = 2\nprefetch = 1\nworkers = {cores()}", CONVNET + epochs(6), ops=ops)


def straggler(rng, data):
    images = data.images("small", 200, int(rng.integers(80, 120)))
    slow = {"SLOW_UNDER": str(images), "SLOW_US": str(rng.integers(8000, 15000))}
    return Plan(images, "batch_size = 8\nworkers = 1", MLP + epochs(3), rank_environment=slow)


def memory_pressure(rng, data):
    arrays = data.arrays(int(rng.integers(2000, 3000)), 64)
    ops = '{op = "normalize", preset = "imagenet"}'
    return Plan(arrays, "batch_size = 32", WIDE_MLP + epochs(6) + 'checkpoint_every = "6 epochs"\n', ops=ops, memory="tight")


def small_batch(rng, data):
    arrays = data.arrays(int(rng.integers(500, 800)), 16)
    ops = '{op = "normalize", preset = "imagenet"}'
    return Plan(arrays, f"batch_size = {rng.choice([1, 2])}", CONVNET + epochs(2), ops=ops)


def frequent_evaluation(rng, data):
    arrays, val = data.arrays(int(rng.integers(200, 300)), 32), data.arrays(1500, 32, seed=1)
    return Plan(arrays, "batch_size = 16", CONVNET + epochs(4), val=str(val))


def frequent_checkpoints(rng, data):
    arrays = data.arrays(int(rng.integers(100, 200)), 32)
    return Plan(arrays, "batch_size = 8", RESNET + '[train]\nepochs = 2\ncheckpoint_every = "1 steps"\n')


def slow_precision(rng, data):
    arrays = data.arrays(int(rng.integers(500, 800)), 16)
    ops = '{op = "normalize", preset = "imagenet"}'
    rest = WIDE_MLP + epochs(3) + 'precision = "fp16"\n'
    return Plan(arrays, f"batch_size = {rng.choice([24, 32])}", rest, ops=ops)


@contextmanager
def busy_cores():
    burn = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"  # ends with this process
    others = [subprocess.Popen([sys.executable, "-c", burn]) for _ in range(2 * cores())]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def other_processes(rng, data):
    arrays = data.arrays(int(rng.integers(400, 600)), 32)
    return Plan(arrays, "batch_size = 32", CONVNET + epochs(3), beside=busy_cores)


def healthy_convnet(rng, data):
    arrays = data.arrays(int(rng.integers(800, 1200)), 32)
    return Plan(arrays, f"batch_size = {rng.choice([32, 64])}", CONVNET + epochs(3))


def healthy_resnet(rng, data):
    arrays = data.arrays(int(rng.integers(200, 300)), 32)
    return Plan(arrays, "batch_size = 25", RESNET + epochs(3))


def healthy_photos(rng, data):
    images = data.images("small", 200, int(rng.integers(80, 120)))
    return Plan(images, "batch_size = 20", RESNET + epochs(3))


def healthy_digits(rng, data):
    return Plan(
        f"synth:digits?count={rng.integers(8000, 12000)}",
        f"batch_size = {rng.choice([64, 128])}",
        '[model]\nname = "mlp"\n' + epochs(8),
        ops="",
        val="synth:digits?count=1000",
    )


SCENARIOS = [
    Scenario("no-workers", no_workers),
    Scenario("few-workers", few_workers),
    Scenario("storage-bound", storage_bound),
    Scenario("decode-bound", decode_bound),
    Scenario("augment-bound", augment_bound),
    Scenario("many-workers", many_workers, costs_nothing=True),
    Scenario("no-prefetch", no_prefetch),
    Scenario("straggler", straggler, evidence={"rank": 1}),
    Scenario("memory-pressure", memory_pressure),
    Scenario("small-batch", small_batch),
    Scenario("frequent-evaluation", frequent_evaluation),
    Scenario("frequent-checkpoints", frequent_checkpoints),
    Scenario("other-processes", other_processes),
    *([] if computes_fp16() else [Scenario("slow-precision", slow_precision)]),
    Scenario("healthy: convnet", healthy_convnet),
    Scenario("healthy: resnet18", healthy_resnet),
    Scenario("healthy: photos", healthy_photos),
    Scenario("healthy: digits", healthy_digits),
]


def compile_shim(folder):
    """slow_reads.so in `folder`; None without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = folder / "slow_reads.so"
    if not library.exists():
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", HERE / "slow_reads.c", "-o", library, "-ldl"], check=True)
    return library
