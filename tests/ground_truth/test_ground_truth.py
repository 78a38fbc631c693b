# One seed of each planted bottleneck. ./dev test runs these by themselves: a test beside them would be the bottleneck. A
# machine that is busy by itself gets a second attempt.
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


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return Data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    library = compile_shim(tmp_path_factory.mktemp("shim"))
    return library or pytest.skip("needs a C compiler")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name.replace(": ", "-"))
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
