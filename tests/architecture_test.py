# The layers of ARCHITECTURE.md as a test: which folder and sub-folder may include which, where
# LibTorch begins, which files may include its heavy headers, how large a class may grow, and which
# folders need a README. The checker is tested too, on small trees that each break one rule.
import ast
import re
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Direct arrows, user -> used. Folders used by a used folder are allowed too; everything else is not.
ARROWS = {
    "base": [],
    "recipe": ["base"],
    "records": ["base"],
    "monitor": ["base"],
    "track": ["recipe", "records"],
    "io": ["base"],
    "formats": ["io"],
    "codecs": ["base"],
    "ops": ["base"],
    "fused": ["base"],
    "pipeline": ["formats", "codecs", "ops", "recipe", "records"],
    "pack": ["pipeline"],
    "python": ["pack"],  # the extension module of the Python package
    "diagnose": ["records", "track", "io"],  # records -> findings; traces -> records
    "tune": ["diagnose"],  # trials, paired measurement, search
    # LibTorch begins here.
    "bridge": ["pipeline"],
    "models": ["bridge", "fused"],
    "dist": ["bridge"],
    "train": ["models", "dist", "track", "monitor"],
    "profile": ["train", "diagnose"],  # Kineto, tables and exports
    "engine": ["profile", "pack", "tune", "cli"],  # the program stoker-engine
    "cli": ["pipeline", "pack", "track", "diagnose", "monitor"],  # the program stoker
}
# Sub-folders: which others of the same folder each may include; "." is the folder itself. Where "." is not listed, its
# headers include no sub-folder, and its sources may include all of them: they choose among formats or codecs.
SUB_ARROWS = {
    "io": {"remote": ["."]},
    "formats": {
        "arrays": [".", "pickle"],
        "arrow": ["."],
        "coco": ["."],
        "folder": ["."],
        "hdf5": ["."],
        "idx_cifar": [".", "pickle"],
        "litdata": [".", "arrow"],
        "lmdb": [".", "pickle"],
        "mds": ["."],
        "pickle": ["."],
        "paired": ["."],
        "pt2": ["."],
        "stk": ["."],
        "synth": ["."],
        "table": ["."],
        "tokens": [".", "arrays"],
        "tfrecord": ["."],
        "webdataset": [".", "arrays"],
    },
    "codecs": {"jpeg": ["."], "dct": [".", "jpeg"], "audio": [".", "video"], "video": ["."]},
    "fused": {"mlp_cuda": ["."]},
    "models": {".": ["kernels"], "kernels": []},
    "diagnose": {"advice": [".", "rules"], "comparison": [".", "report", "rules"], "report": ["."], "rules": ["."],
                 "torch_trace": ["."]},
    "pipeline": {".": ["cache", "sampling", "transforms"], "cache": [], "sampling": [], "transforms": [],
                  "writers": [".", "transforms"]},
    "python": {"src": []},
    "train": {".": ["run", "step", "task"], "run": ["step", "task"], "step": [], "task": []},
    "cli": {"terminal": ["."], "commands": [".", "bench", "terminal"], "bench": [".", "terminal"],
            "top": [".", "terminal"]},
    "engine": {"commands": [".", "tune"], "bench": [".", "tune"], "tune": ["."]},
}
TORCH_FOLDERS = {"bridge", "models", "dist", "train", "profile", "engine"}

# Headers of LibTorch that cost about a gigabyte and ten seconds a file are for these files alone.
# Everything else includes single operators (<ATen/ops/add.h>) and <ATen/core/Tensor.h>.
HEAVY_ALLOWED = {
    "src/stoker/models/exported_graph.cpp",  # one header of AOTInductor, itself small
    "src/stoker/models/graph_program.cpp",  # the number of LibTorch's release
    "src/stoker/train/run/run_facts.cpp",  # likewise
    "src/stoker/models/torch_module.h",  # the adapter for a user's own torch::nn::Module
}

# The commands print through these files alone, which make names of files and classes safe for a terminal.
PRINTING_ALLOWED = {
    "cli/terminal/print.h",
    "cli/terminal/print.cpp",
    "engine/commands/prediction_file.cpp",
    "engine/main.cpp",  # a path that `stoker` reads, byte by byte
}
PRINTING = re.compile(r"\b(fmt::print|std::print|printf|fprintf|puts|fputs|std::cout|std::cerr)\b")

MAX_CLASS_LINES = 500  # its definition, and its methods in all files of its folder
MAX_WITHOUT_README = 10
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
# A definition ends at the first line that begins with its closing brace: clang-format sees to that.
CLASS = re.compile(r"( *)(?:class|struct) (\w+)(?: final)?(?: : [^;]*)?\{(?!.*\};$)")
METHOD = re.compile(r"(?:\w[^;=]*?\b)?(\w+)::(?:~?\w+|operator\S+)\(")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def reachable(folder):
    found, waiting = set(), list(ARROWS[folder])
    while waiting:
        used = waiting.pop()
        if used not in found:
            found.add(used)
            waiting += ARROWS[used]
    return found


def is_torch(header):
    return header.split("/")[0] in {"torch", "ATen", "c10", "caffe2"}


def is_heavy(header):
    if header == "ATen/ATen.h" or header.startswith("torch/csrc/api/include/"):
        return True
    return header.startswith("torch/") and not header.startswith("torch/csrc/")


def sources(root, *tops):
    for top in tops:
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                yield path


def place_of(parts):
    """The folder and the sub-folder ("." for none) of a path below src/stoker, or of one such as cli/."""
    return parts[0], parts[1] if len(parts) > 2 else "."


def folder_of(root, path):
    parts = path.relative_to(root).parts
    return place_of(parts if parts[0] != "src" else parts[2:])


def check_sub_folder(folder, sub, used, is_header):
    """The problem of sub-folder `sub` of `folder` including sub-folder `used`, or None."""
    arrows = SUB_ARROWS.get(folder, {})
    for name in {sub, used} - {"."}:
        if name not in arrows:
            return f"{folder}/{name}/ is missing in SUB_ARROWS"
    if sub == used:
        return None
    if sub == "." and "." not in arrows:
        return f"a header of {folder}/ includes none of its sub-folders" if is_header else None
    if used not in arrows[sub]:
        return f"no arrow leads from {folder}/{sub}/ to {folder}/{used}/"
    return None


def check_include(place, file, quote, header):
    """The problem of `header` included by `file` (relative to the root) at `place`, or None."""
    folder, sub = place
    if is_torch(header):
        if folder not in TORCH_FOLDERS:
            return f"<{header}>: {folder}/ is below bridge/ and knows no LibTorch"
        if is_heavy(header) and file not in HEAVY_ALLOWED:
            return f"<{header}> is a heavy header: include single headers of ATen, or list the file in HEAVY_ALLOWED"
        return None
    parts = header.split("/")
    if parts[0] in ("stoker", "cli", "engine", "python"):
        used, used_sub = place_of(parts[1:] if parts[0] == "stoker" else parts)
        if used not in ARROWS:
            return f'"{header}": {used}/ has no entry in ARROWS'
        if used == folder:
            problem = check_sub_folder(folder, sub, used_sub, file.endswith(".h"))
            return f'"{header}": {problem}' if problem else None
        if used not in reachable(folder):
            return f'"{header}": no arrow leads from {folder}/ to {used}/'
        return None
    if quote == '"':
        return f'"{header}": our own headers are included as "stoker/folder/name.h", "cli/folder/name.h"'
    return None


def check_printing(file, line):
    """The problem of a line of `file` that prints without the helpers, or None."""
    if file not in PRINTING_ALLOWED and PRINTING.search(line.split("//")[0]):
        return "prints directly: use print_stdout or print_stderr (cli/terminal/print.h)"
    return None


def readme_needed(root, top):
    """Folders with more than MAX_WITHOUT_README sources directly in them and no README.md of 10 to 80 lines."""
    for folder in [root / top, *sorted(p for p in (root / top).rglob("*") if p.is_dir())]:
        count = sum(1 for path in folder.iterdir() if path.suffix in SUFFIXES)
        readme = folder / "README.md"
        lines = len(readme.read_text().splitlines()) if readme.is_file() else 0
        if count > MAX_WITHOUT_README and not 10 <= lines <= 80:
            yield f"{folder.relative_to(root).as_posix()}: {count} sources need a README.md of 10 to 80 lines, not {lines}"


def class_sizes(folder):
    """Lines of each class of a folder of C++ or Python files."""
    sizes = Counter()
    for path in sorted(folder.iterdir()):
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    sizes[node.name] += node.end_lineno - node.lineno + 1
        if path.suffix not in SUFFIXES:
            continue
        name = end = None
        for line in path.read_text().splitlines():
            if name is None and (found := CLASS.match(line)):
                name, end = found[2], found[1] + "}"
            elif name is None and (found := METHOD.match(line)):
                name, end = found[1], "}"
            if name is not None:
                sizes[name] += 1
                name = None if line.startswith(end) else name
    return sizes


def large_classes(root):
    for top in ("src/stoker", "cli", "engine", "python"):
        for folder in [root / top, *sorted((root / top).rglob("*/"))]:
            for name, lines in class_sizes(folder).items() if folder.is_dir() else ():
                if lines > MAX_CLASS_LINES:
                    at = folder.relative_to(root).as_posix()
                    yield f"{at}: class {name} has {lines} lines, {MAX_CLASS_LINES} at most"


def violations(root):
    found = []
    for path in sorted((root / "src/stoker").iterdir()):
        if path.name not in ARROWS and (path.is_dir() or path.suffix in SUFFIXES):
            found.append(f"src/stoker/{path.name}: is missing in ARROWS")
    headers = {}
    for path in sources(root, "src/stoker", "cli", "engine", "python"):
        file, place = path.relative_to(root).as_posix(), folder_of(root, path)
        if path.suffix == ".h" and "gloo_shim" not in path.parts:
            headers.setdefault(path.name, []).append(file)
        if place[0] not in ARROWS:
            continue  # reported above
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            problem = check_include(place, file, *match.groups()) if match else check_printing(file, line)
            if problem:
                found.append(f"{file}:{number}: {problem}")
    for name, files in headers.items():
        if len(files) > 1:
            found.append(f"{name}: the name of several headers: {', '.join(files)}")
    found += large_classes(root)
    for top in ("src/stoker", "cli", "engine"):
        if (root / top).is_dir():
            found += readme_needed(root, top)
    return found


def test_the_tree_keeps_its_layers():
    assert any(sources(ROOT, "src/stoker")), "no sources found: the check would pass on nothing"
    found = violations(ROOT)
    assert not found, "\n" + "\n".join(found)


def test_the_exceptions_are_few_and_real():
    missing = [file for file in HEAVY_ALLOWED if not (ROOT / file).is_file()]
    assert not missing, f"remove from HEAVY_ALLOWED: {missing}"
    headers = [file for file in HEAVY_ALLOWED if not file.endswith(".cpp")]
    assert headers == ["src/stoker/models/torch_module.h"], "a heavy header in a header reaches every file behind it"


def python_imports(root):
    """Modules of the Python package, and the modules of it that each imports anywhere."""
    files = {path.relative_to(root).with_suffix("").as_posix().replace("/", "."): path
             for path in (root / "stoker").rglob("*.py")}  # fmt: skip
    modules = {name.removesuffix(".__init__"): ast.parse(path.read_text()) for name, path in files.items()}
    for module, tree in modules.items():
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        names = {f"{node.module}.{alias.name}" for node in imports for alias in node.names}
        # Importing a name that is not a module imports the module that has it.
        used = {name if name in modules else name.rpartition(".")[0] for name in names}
        yield module, {name for name in used if name in modules and name not in ("stoker", module)}


def test_python_modules_import_each_other_in_one_direction():
    imports = dict(python_imports(ROOT / "python"))
    assert "stoker.transforms.base" in imports["stoker.loader"]
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(f"a circle: {' -> '.join(error.args[1])}")


# ---- the checker itself ----


def tree(tmp_path, file, text):
    (tmp_path / "src/stoker/base").mkdir(parents=True, exist_ok=True)
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return violations(tmp_path)


ALLOWED = [
    ("src/stoker/base/a.cpp", '#include "stoker/base/error.h"'),
    ("src/stoker/pipeline/a.cpp", '#include "stoker/records/account.h"'),
    ("src/stoker/train/a.cpp", '#include "stoker/recipe/recipe.h"'),
    ("src/stoker/bridge/a.h", "#include <ATen/core/Tensor.h>"),
    ("src/stoker/train/a.cpp", "#include <torch/csrc/autograd/variable.h>"),
    ("src/stoker/ops/a.cpp", "// #include <torch/torch.h>"),
    ("src/stoker/models/torch_module.h", "#include <torch/nn.h>"),
    ("cli/a.cpp", '#include "cli/terminal/table.h"'),
    ("engine/commands/a.cpp", '#include "cli/terminal/table.h"'),
    ("src/stoker/formats/a.cpp", '#include "stoker/formats/lmdb/lmdb.h"'),  # chooses among formats
    ("src/stoker/formats/lmdb/a.cpp", '#include "stoker/formats/pickle/pickle.h"'),
    ("src/stoker/train/a.h", '#include "stoker/train/step/step.h"'),
    ("python/src/a.cpp", '#include "stoker/pipeline/loader.h"'),
    ("python/src/a.cpp", '#include "python/src/arrays.h"'),
    ("cli/terminal/print.cpp", "std::fputs(text, stdout);"),
    ("cli/a.cpp", "snprintf(text, size, format);  // not fputs"),
]


@pytest.mark.parametrize("file, line", ALLOWED)
def test_allows(tmp_path, file, line):
    assert tree(tmp_path, file, line) == []


REFUSED = [
    ("src/stoker/formats/a.cpp", '#include "stoker/codecs/codec.h"', "no arrow"),  # siblings
    ("src/stoker/codecs/a.cpp", '#include "stoker/ops/crop.h"', "no arrow"),
    ("src/stoker/formats/a.cpp", '#include "stoker/records/trace.h"', "no arrow"),
    ("src/stoker/base/a.h", '#include "stoker/records/trace.h"', "no arrow"),  # upwards
    ("src/stoker/models/a.cpp", '#include "stoker/train/step.h"', "no arrow"),
    ("src/stoker/train/a.cpp", "  #  include <stoker/cli/a.h>", "no arrow"),
    ("src/stoker/ops/a.cu", '#include "stoker/codecs/codec.h"', "no arrow"),
    ("src/stoker/codecs/jpeg/a.h", '#include "stoker/ops/crop.h"', "no arrow"),
    ("src/stoker/codecs/jpeg/a.h", '#include "stoker/codecs/dct/dct.h"', "no arrow"),
    ("src/stoker/formats/hdf5/a.cpp", '#include "stoker/formats/lmdb/lmdb.h"', "no arrow"),
    ("src/stoker/formats/a.h", '#include "stoker/formats/lmdb/lmdb.h"', "includes none of its sub-folders"),
    ("src/stoker/formats/new/a.cpp", '#include "stoker/formats/dataset.h"', "is missing in SUB_ARROWS"),
    ("src/stoker/train/step/a.cpp", '#include "stoker/train/trainer.h"', "no arrow"),
    ("cli/a.cpp", '#include "engine/commands.h"', "no arrow"),
    ("python/src/a.cpp", '#include "stoker/train/trainer.h"', "no arrow"),
    ("cli/a.cpp", '#include "python/src/arrays.h"', "no arrow"),
    ("cli/a.cpp", '#include "program.h"', "are included as"),
    ("src/stoker/ops/a.cpp", '#include "../codecs/codec.h"', "are included as"),
    ("cli/a.cpp", '#include "../src/stoker/base/error.h"', "are included as"),
    ("src/stoker/base/a.cpp", '#include "stoker/nowhere/a.h"', "no entry"),
    ("src/stoker/pipeline/a.cpp", "#include <torch/torch.h>", "below bridge"),
    ("src/stoker/ops/a.h", "#include <ATen/core/Tensor.h>", "below bridge"),
    ("src/stoker/base/a.cpp", "#include <c10/cuda/CUDAStream.h>", "below bridge"),
    ("src/stoker/train/a.cpp", "#include <torch/torch.h>", "heavy"),
    ("src/stoker/train/a.cpp", "#include <torch/nn/modules/linear.h>", "heavy"),
    ("src/stoker/train/a.cpp", '#include "torch/csrc/api/include/torch/optim.h"', "heavy"),
    ("src/stoker/models/a.h", "#include <ATen/ATen.h>", "heavy"),
    ("engine/a.cpp", "#include <torch/script.h>", "heavy"),
    ("cli/a.cpp", "#include <ATen/core/Tensor.h>", "knows no LibTorch"),
    ("cli/commands/a.cpp", 'fmt::print("{}", name);', "prints directly"),
    ("engine/commands/a.cpp", "std::fputs(name.c_str(), stderr);", "prints directly"),
    ("src/stoker/train/a.cpp", "std::cout << name;", "prints directly"),
]


@pytest.mark.parametrize("file, line, problem", REFUSED)
def test_refuses(tmp_path, file, line, problem):
    found = tree(tmp_path, file, "#pragma once\n" + line + "\n")
    assert len(found) == 1 and found[0].startswith(f"{file}:2: ") and problem in found[0]


def test_refuses_a_folder_outside_the_table(tmp_path):
    assert tree(tmp_path, "src/stoker/extra/a.h", "") == ["src/stoker/extra: is missing in ARROWS"]


def test_refuses_a_file_outside_the_folders(tmp_path):
    assert tree(tmp_path, "src/stoker/all.h", "") == ["src/stoker/all.h: is missing in ARROWS"]


def test_refuses_a_large_class(tmp_path):
    header = "class Shard : public Item {\n  public:\n    struct Part {\n    };\n    int a() const { return 1; }\n};\n"

    def method(lines):
        return "std::vector<int> Shard::read(int from,\n                             int to) {\n" + "    a();\n" * lines + "}\n"

    assert tree(tmp_path, "src/stoker/base/shard.h", header) == []
    assert tree(tmp_path, "src/stoker/base/shard.cpp", method(491)) == []
    assert tree(tmp_path, "src/stoker/base/shard_more.cpp", "Shard::~Shard() {\n}\n") == [
        "src/stoker/base: class Shard has 502 lines, 500 at most"
    ]
    tree(tmp_path, "src/stoker/base/shard_more.cpp", "int other() {\n    return Shard::least(1);\n}\n")
    python = "class Loader:\n" + "    a = 1\n" * 500
    assert tree(tmp_path, "python/stoker/loader.py", python) == [
        "python/stoker: class Loader has 501 lines, 500 at most"
    ]


def test_refuses_two_headers_of_one_name(tmp_path):
    (tmp_path / "src/stoker/ops").mkdir(parents=True)
    (tmp_path / "src/stoker/ops/crop.h").write_text("")
    found = tree(tmp_path, "src/stoker/codecs/crop.h", "")
    assert found == ["crop.h: the name of several headers: src/stoker/codecs/crop.h, src/stoker/ops/crop.h"]


def test_refuses_a_large_folder_without_a_readme(tmp_path):
    folder = tmp_path / "src/stoker/ops"
    folder.mkdir(parents=True)
    for i in range(10):
        (folder / f"{i}.cpp").write_text("")
    assert tree(tmp_path, "src/stoker/base/a.cpp", "") == []
    assert tree(tmp_path, "src/stoker/ops/a.cpp", "") == ["src/stoker/ops: 11 sources need a README.md of 10 to 80 lines, not 0"]
    (folder / "README.md").write_text("x\n" * 10)
    assert violations(tmp_path) == []
