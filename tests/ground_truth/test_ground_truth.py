# One seed of each planted bottleneck, alone, since another test would be the bottleneck; on a busy machine a second
# attempt. With STOKER_SKIP_SLOW, as in CI, one bottleneck for each kind of rule and one healthy run.
import os
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "python")]
pytest.importorskip("numpy")

from conftest import PROGRAM  # noqa: E402

os.environ.setdefault("STOKER_BIN", str(PROGRAM))

import ground_truth  # noqa: E402
from scenarios import SCENARIOS, Data, compile_shim  # noqa: E402

SEED = 1
ATTEMPTS = 2
IN_CI = {"no-workers", "storage-bound", "decode-bound", "straggler", "small-batch", "healthy: digits"}


def case(scenario):
    slow = scenario.name not in IN_CI and bool(os.environ.get("STOKER_SKIP_SLOW"))
    skipped = pytest.mark.skipif(slow, reason="slow, and STOKER_SKIP_SLOW is set")
    return pytest.param(scenario, marks=skipped, id=scenario.name.replace(": ", "-"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return Data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    library = compile_shim(tmp_path_factory.mktemp("shim"))
    return library or pytest.skip("needs a C compiler")


@pytest.mark.parametrize("scenario", [case(scenario) for scenario in SCENARIOS])
def test_the_planted_cause_is_named(scenario, data, shim):
    told = []
    for _ in range(ATTEMPTS):
        verdict, document = ground_truth.judge(scenario, SEED, data, shim)
        told.append((verdict, ground_truth.above_info(document)))
        if verdict is not None and "findings" in document and scenario.accepts(document):
            return
    if all(verdict is None for verdict, _ in told):
        pytest.skip("other processes took the cores")
    pytest.fail(f"planted {scenario.name}, told {told}")
