# Edits of a program's source: the calls that a watch has changed get the same keyword arguments, and nothing else moves.
import subprocess

import pytest
from stoker.watch.fix.patch import CannotEdit, Edit, edited, patch_of

WORKERS = {"num_workers": 2, "persistent_workers": True}


def edit(source, line=1, kind="DataLoader", arguments=WORKERS, **more):
    return edited(source, [Edit("train.py", line, kind, arguments, **more)])


@pytest.mark.parametrize(
    "before, after",
    [
        ("x = DataLoader(data)", "x = DataLoader(data, num_workers=2, persistent_workers=True)"),
        ("x = DataLoader()", "x = DataLoader(num_workers=2, persistent_workers=True)"),
        ("x = DataLoader(data, )", "x = DataLoader(data, num_workers=2, persistent_workers=True )"),
        ("x = DataLoader((data))", "x = DataLoader((data), num_workers=2, persistent_workers=True)"),
        (
            "x = DataLoader(\n    data,\n    batch_size=20  # small\n)",
            "x = DataLoader(\n    data,\n    batch_size=20, num_workers=2, persistent_workers=True  # small\n)",
        ),
        (
            "x = DataLoader(data, num_workers=args.workers, shuffle=True)",
            "x = DataLoader(data, num_workers=2, shuffle=True, persistent_workers=True)",
        ),
        (
            "x = torch.utils.data.DataLoader(data, **more)",
            'x = torch.utils.data.DataLoader(data, **{**more, "num_workers": 2, "persistent_workers": True})',
        ),
        ("x = DataLoader(Slow(), 4)", "x = DataLoader(Slow(), 4, num_workers=2, persistent_workers=True)"),
        ("x = Loader(data)", "x = Loader(data, num_workers=2, persistent_workers=True)"),
        ("é = DataLoader('é')", "é = DataLoader('é', num_workers=2, persistent_workers=True)"),
    ],
)
def test_calls(before, after):
    assert edit(before) == after


def test_a_call_of_several_lines_keeps_its_lines():
    source = "x = DataLoader(\n    data,  # all of it\n    batch_size=4,\n)\n"
    changed = edit(source)
    assert changed == "x = DataLoader(\n    data,  # all of it\n    batch_size=4, num_workers=2, persistent_workers=True\n)\n"
    assert edit(source, line=3) == changed


def test_another_function_is_imported():
    source = '"""Trains."""\nfrom __future__ import annotations\nimport torch\nx = DataLoader(data)\n'
    changed = edit(source, 4, arguments={}, function="stoker.DataLoader")
    assert changed == source.replace("import torch", "import stoker\nimport torch").replace("DataLoader", "stoker.DataLoader")


def test_a_statement_follows_the_imports():
    source = "import torch\nfrom torch import nn\n\nx = 1\n"
    edits = [Edit("train.py", 0, "", {}, statement="torch.set_num_threads(1)")]
    assert edited(source, edits) == source.replace("nn\n", "nn\ntorch.set_num_threads(1)\n")
    with pytest.raises(CannotEdit):
        edited("import torch as t\n", edits)


def test_calls_that_are_not_found():
    by_position = "x = DataLoader(data, 20, True, None, None, 0)", "x = DataLoader(*all_of_them)"
    for source in ("x = make(data)", "x = A(1), B(2)", *by_position):
        with pytest.raises(CannotEdit):
            edit(source)


def test_git_applies_the_patch(tmp_path):
    (tmp_path / "sub").mkdir()
    script = tmp_path / "sub" / "train.py"
    script.write_text("x = DataLoader(data)\nopt = SGD(p, lr=1)")  # no newline at the end
    edits = [Edit(str(script), 1, "DataLoader", WORKERS), Edit(str(script), 2, "SGD", {"fused": True})]
    patch, files, problems = patch_of([*edits, Edit(str(tmp_path / "none.py"), 1, "SGD", {})], tmp_path)
    assert len(problems) == 1 and "none.py" in problems[0]
    assert patch_of(edits, tmp_path / "other")[0] == ""
    assert patch_of(edits, tmp_path, since=0.0)[0] == ""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "apply"], input=patch, text=True, check=True, cwd=tmp_path)
    assert script.read_text() == files[script]
    assert files[script].endswith("persistent_workers=True)\nopt = SGD(p, lr=1, fused=True)")
