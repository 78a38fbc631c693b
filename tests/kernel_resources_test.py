"""What each CUDA kernel takes of a multiprocessor, by `nvcc -Xptxas -v`: nothing spills, and the notes are right.

`python tests/kernel_resources_test.py` prints the table of bench/results/cuda_kernels.md.
"""

import collections
import functools
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ARCHITECTURE = "sm_90"
OPTIONS = {  # of src/stoker/ops/CMakeLists.txt and src/stoker/fused/CMakeLists.txt
    "colors_cuda": ["-fmad=false", "--expt-relaxed-constexpr"],
    **dict.fromkeys(
        ("mlp_layers_cuda", "mlp_tail_cuda", "mlp_update_cuda"), ["-fmad=false", "-ftz=true", "--expt-relaxed-constexpr"]
    ),
}
ENTRY = re.compile(
    r"Compiling entry function '(\w+)' for.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
    r".*?Used (\d+) registers(.*?)\n",
    re.DOTALL,
)


def nvcc_release():
    if shutil.which("nvcc") is None:
        return None
    text = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"release ([\d.]+)", text)[1]


@functools.cache
def kernels():
    """For each instance of a kernel its name, registers, bytes of shared memory, and bytes on the stack or spilled."""
    found = []
    for source in sorted(ROOT.glob("src/**/*.cu")):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                ["nvcc", "-cubin", f"-arch={ARCHITECTURE}", "-O3", "-std=c++20", "-Xptxas=-v", f"-I{ROOT}/src"]
                + ["-DFMT_USE_CONSTEXPR=1", "-DFMT_CONSTEVAL=", *OPTIONS.get(source.stem, [])]
                + ["-o", f"{folder}/x.cubin", str(source)],
                capture_output=True,
                text=True,
                check=True,
            )
        for symbol, frame, stores, loads, registers, rest in ENTRY.findall(done.stderr):
            shared = re.search(r"(\d+) bytes smem", rest)
            name = re.findall(r"\d([a-z_]+_kernel)", symbol)[-1]
            found.append((name, int(registers), int(shared[1]) if shared else 0, int(frame) + int(stores) + int(loads)))
    return found


def span(values):
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def table():
    by_name = collections.defaultdict(list)
    for name, *figures in kernels():
        by_name[name].append(figures)
    rows = ["| kernel | instances | registers | shared memory, bytes |", "|---|---|---|---|"]
    for name, figures in sorted(by_name.items()):
        registers, shared, _ = zip(*figures)
        rows.append(f"| `{name}` | {len(figures)} | {span(registers)} | {span(shared)} |")
    return "\n".join(rows) + "\n"


@pytest.fixture
def release():
    return nvcc_release() or pytest.skip("no nvcc")


@pytest.mark.slow
def test_no_kernel_spills(release):
    assert len(kernels()) > 50
    assert [kernel for kernel in kernels() if kernel[3] > 0] == []


@pytest.mark.slow
def test_the_page_has_what_each_kernel_takes(release):
    page = (ROOT / "bench/results/cuda_kernels.md").read_text()
    measured_with = re.search(r"nvcc ([\d.]+) for sm_90 gives", page)[1]
    if release != measured_with:
        pytest.skip(f"the table is that of nvcc {measured_with}, and this is {release}")
    assert table() in page


if __name__ == "__main__":
    print(table(), end="")
