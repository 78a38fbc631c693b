# bench/slow_links.py on a small case of each. How close its figures come on a quiet machine is in docs/scaling.md.
import json
import os
import subprocess
import sys

import pytest
from conftest import PROGRAM, ROOT

sys.path.insert(0, str(ROOT / "tests/support"))
from namespaces import why_not  # noqa: E402


@pytest.mark.slow
def test_slow_links_are_measured_and_predicted(program):
    if missing := why_not(rates=True):
        pytest.skip(missing)
    command = [sys.executable, ROOT / "bench/slow_links.py", "--quick", "--steps", "3", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "STOKER_BIN": str(PROGRAM)})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (overlap,) = found["overlap"]
    assert overlap["buckets"] == 1 and 0 < overlap["exposed"] <= overlap["communication"] + 1e-6, overlap
    assert overlap["communication"] > 0.6 * overlap["link"], "as slow as the link"
    plain, delayed = found["points"]
    assert (plain["latency_ms"], delayed["latency_ms"]) == (0, 10)
    for point in (plain, delayed):
        assert 0.9 * point["communication"] < point["predicted_seconds"], point
        # The link's rate bounds a step from below; a busy machine may lengthen it.
        assert 0.6 * point["communication"] < point["measured_seconds"] < 30 * point["communication"], point
