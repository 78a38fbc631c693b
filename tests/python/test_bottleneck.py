# `python -m stoker bottleneck`: the program is not changed, some steps run under cProfile and torch.profiler, and the
# verdict rests on the others.
import json
import pstats
import re

import pytest
from conftest import PROGRAM
from test_watch import RANKS, Runs, train

# With step 15 to 17 under cProfile and 21 to 24 under torch.profiler, then 30 to 35 and 60 to 71 of 80.
PROFILED = {*range(15, 18), *range(21, 25), *range(30, 36), *range(60, 72)}


class Profiled(Runs):
    def bottleneck(self, *words):
        return self.python("-m", "stoker", "bottleneck", *words)


@pytest.fixture
def runs(tmp_path):
    return Profiled(tmp_path)


def names(functions):
    return {function["name"] for function in functions}


# With workers the epochs are short, so that processes are forked in steps that are profiled.
@pytest.mark.slow
@pytest.mark.parametrize("workers, size", [(0, 640), (2, 80)], ids=["without workers", "forks while profiling"])
def test_the_program_stays_as_it_is_and_steps_are_profiled(runs, workers, size):
    script = runs.script(train(workers, dynamo=True).replace("640", str(size)).replace("range(2)", f"range({1280 // size})"))
    plain, profiled = runs.python(script), runs.bottleneck("--json", "verdict.json", "--keep", "kept", script)
    assert plain.returncode == profiled.returncode == 0, profiled.stderr
    assert plain.stdout == profiled.stdout
    assert profiled.stderr.count("stoker bottleneck ─") == 1, profiled.stderr
    steps = {record["step"] for record in runs.records("kept", "step")}
    assert steps.isdisjoint(PROFILED) or workers
    assert {*range(1, 15), *range(72, 81)} <= steps

    rank = json.loads((runs.folder / "verdict.json").read_text())["ranks"][0]
    assert rank["steps"] == len(steps)
    assert rank["function_steps"] == 21 or workers
    assert "Module._call_impl" in names(rank["functions"]) | names(runs.records("kept", "functions")[0]["functions"])
    assert "aten::addmm" in names(rank["operators"]) and all(entry["count"] > 0 for entry in rank["operators"])
    assert "Python functions with the most time of their own, over" in profiled.stderr
    assert "operators with the most time of their own, over" in profiled.stderr
    kept = sorted(path.name for path in (runs.folder / "kept").iterdir())
    assert kept == ["metrics.jsonl", "profile.pstats", "trace.json"]
    again = runs.python("diagnose", "kept", "kept/trace.json", "--json", prefix=[PROGRAM])
    assert json.loads(again.stdout)["ranks"] == [rank]


@pytest.mark.slow
def test_the_files_open_in_other_tools(runs):
    assert runs.bottleneck("-o", "page.html", "--keep", "kept", runs.script(train(dynamo=True))).returncode == 0
    stats = pstats.Stats(str(runs.folder / "kept/profile.pstats"))
    called = {name: calls for (file, line, name), (_, calls, *_) in stats.stats.items()}
    assert called["backward"] >= 21 and stats.total_tt > 0
    trace = json.loads((runs.folder / "kept/trace.json").read_text())
    ranges = {event["name"] for event in trace["traceEvents"] if event.get("name", "").startswith("ProfilerStep#")}
    assert ranges == {f"ProfilerStep#{step}" for step in range(4)}
    page = (runs.folder / "page.html").read_text()
    assert '"title":"train.py"' in page
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    assert data["functions"]["steps"] == 21 and len(data["functions"]["rows"]) > 10
    assert data["operators"]["tables"][0]["rows"]


OWN_PROFILERS = """
import cProfile
from torch.profiler import ProfilerActivity, profile
functions = cProfile.Profile()
for number in range(40):
    if number == {functions}:
        functions.enable()
    if number == {operators}:
        operators = profile(activities=[ProfilerActivity.CPU])
        operators.start()
    optimizer.zero_grad()
    loss = model(torch.ones(4, 16)).sum()
    loss.backward()
    optimizer.step()
    if number == 32:
        operators.stop()
        functions.disable()
print(len(functions.getstats()) > 0, len(operators.events()) > 0)
"""


@pytest.mark.parametrize("functions, operators", [pytest.param(2, 2, marks=pytest.mark.slow), (15, 22)], ids=["before ours would begin", "while ours runs"])
def test_a_program_that_profiles_itself_keeps_its_profiles(runs, functions, operators):
    loop = OWN_PROFILERS.format(functions=functions, operators=operators)
    profiled = runs.bottleneck(runs.script(train(dynamo=True).split("if __name__")[0] + loop))
    assert profiled.returncode == 0 and profiled.stdout == "True True\n", profiled.stderr
    for kind in ("functions", "operators"):
        assert f"stoker bottleneck: {kind}: the program runs" in profiled.stderr


def test_a_short_program_has_no_profile(runs):
    done = runs.bottleneck(runs.script(train(dynamo=True).replace("640", "64")))
    assert done.returncode == 0
    assert "no profile was taken: the program made fewer than 15 steps" in done.stderr


@pytest.mark.slow
def test_torchrun_gives_one_report(runs):
    script = runs.script(RANKS)
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "stoker", "bottleneck")
    done = runs.python(*launch, "--json", "verdict.json", "--keep", "kept", script)
    assert done.returncode == 0, done.stderr
    ranks = json.loads((runs.folder / "verdict.json").read_text())["ranks"]
    assert [rank["function_steps"] for rank in ranks] == [9, 9]
    assert "operators" in ranks[0] and "operators" not in ranks[1]
    assert done.stderr.count("stoker bottleneck ─") == 1
