# Runs the scripts of tests/python/watch_scripts with and without `python -m stoker watch`, and counts how often the
# verdict names the planted cause: `.venv/bin/python tests/ground_truth/watched.py [NAME...]`. Ends with 1 if a verdict
# is wrong, or if output or exit status change.
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent)]

from other_load import BUSY_MACHINE, OtherLoad
from scenarios import computes_fp16

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "tests/python/watch_scripts"
PROGRAM = Path(os.environ.get("STOKER_BIN", ROOT / "build/release/bin/stoker")).resolve()
ATTEMPTS = 3
TIMEOUT = 300

PLANTED = {
    "slow_transform": "augment-bound",
    "no_workers": "no-workers",
    "many_workers": "many-workers",
    "item_each_step": "sync-points",
    "single_tensor": "single-tensor-optimizer",
    "pillow_decoding": "decode-bound",
    "tiny_batch": "small-batch",
    "fp32": "full-precision",
    "emulated_fp16": "slow-precision",
    "python_loop": "python-loop",
    "evaluation_each_step": "frequent-evaluation",
    "healthy_mlp": "healthy",
    "healthy_convnet": "healthy",
}
# A text in the line that the finding has to name.
LINES = {"item_each_step": ".as_subclass(OnDevice).item()", "python_loop": "total + (values[i]"}


@dataclass
class Case:
    named: str  # the first rule above info, or "healthy"; "no verdict"; "another line" where that of LINES is not named
    others: bool  # other processes took the cores meanwhile
    same: bool  # output and exit status as without the watch
    plain: subprocess.CompletedProcess
    watched: subprocess.CompletedProcess
    document: dict


def run(words):
    environment = {**os.environ, "PYTHONPATH": str(PROGRAM.parents[1] / "python"), "STOKER_BIN": str(PROGRAM)}
    return subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, timeout=TIMEOUT, env=environment)


def expected(name):
    """Products in fp32 are slow only where bf16 is faster, those in fp16 only where it is emulated."""
    import torch

    no_cause = {"fp32": not torch.ops.mkldnn._is_mkldnn_bf16_supported(), "emulated_fp16": computes_fp16()}
    return "healthy" if no_cause.get(name) else PLANTED[name]


def line_of(name):
    """The place that the finding has to name; "" where it need not name one."""
    lines = (SCRIPTS / f"{name}.py").read_text().splitlines()
    found = [number for number, line in enumerate(lines, 1) if name in LINES and LINES[name] in line]
    return f"{name}.py:{found[0]}" if name in LINES else ""


def named_in(document, name):
    """Findings about a busy machine, and not about the script, are left out."""
    findings = [finding for finding in document["findings"] if finding["severity"] != "info"]
    own = [finding for finding in findings if finding["rule"] not in BUSY_MACHINE]
    if not own:
        return "healthy"
    right = own[0]["rule"] != PLANTED[name] or line_of(name) in own[0]["text"]
    return own[0]["rule"] if right else "another line"


def judge(name, command="watch"):
    """The verdict on a script."""
    script = SCRIPTS / f"{name}.py"
    plain = run([script])
    with tempfile.TemporaryDirectory() as folder, OtherLoad() as load:
        document = Path(folder) / "verdict.json"
        watched = run(["-m", "stoker", command, "--json", document, script])
        read = json.loads(document.read_text()) if document.exists() else {}
    named = named_in(read, name) if read else "no verdict"
    same = (plain.stdout, plain.returncode) == (watched.stdout, watched.returncode)
    return Case(named, load.high, same, plain, watched, read)


def judge_in_peace(name, command="watch"):
    """As judge(); a verdict that is wrong while other processes take the cores is asked for again."""
    for _ in range(ATTEMPTS):
        case = judge(name, command)
        if case.named == expected(name) or not case.others:
            break
    return case


def main(names):
    wrong = 0
    for name in names or PLANTED:
        case = judge_in_peace(name)
        right = case.named == expected(name) and case.same
        wrong += not right
        note = "" if case.same else ", output changed"
        print(f"{name:22} {case.named:24} {'right' if right else 'WRONG'}{note}{', busy machine' if case.others else ''}", flush=True)
    print(f"right: {len(names or PLANTED) - wrong} of {len(names or PLANTED)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
