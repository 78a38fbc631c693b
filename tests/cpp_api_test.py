# The C++ API of the site: doxygen reads the headers that docs/cpp-api.md lists. Without doxygen the page says so.
import html
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pygments", reason="needs Pygments, which pytest brings")
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs/site"))
import cpp_headers  # noqa: E402
import cpp_pages  # noqa: E402

MAP = cpp_headers.MAP.read_text()
HEADERS = [path for paths in cpp_headers.groups(MAP).values() for path in paths]
# Types in public signatures whose headers are not in the reference.
LEFT_OUT = {
    # What Stoker's parts hand to each other: a program passes it on, or leaves the argument out.
    "AssembleDraw", "ConstPlanesView", "DctCropCapacity", "DctCropSlot", "DctCropper", "Decoder", "DeviceStreams", "EventNode", "FileInfo",
    "FullyShardedModel", "GatherOps", "ImageBlock", "ImageTable", "PixelTarget", "Planes", "PlanesResizeScratch",
    "PlanesView",
    "RingLevel", "RunSummary", "RunView",
    "StageLinks", "StagePlan", "StateParts", "WorkLog", "WorkSpan",
    # What models override or report that are divided among ranks or into stages.
    "Activation", "DividedParameter", "ModelBlock", "ModelStage", "SumOverRanks", "TensorRanks",
    # Figures and codes whose names say what they are.
    "DecodeMode", "DeviceMemory", "ModelMetadata", "StkCodec", "StkImage",
    # Tables of an op's inner loops, for the tests that compare them.
    "AugmentOp", "AugmentParams", "BlurKernel", "ColorKernels", "MelKernels", "ResizeAxis", "VnniFilter",
}


@pytest.fixture(scope="module")
def reference():
    found = cpp_pages.load()
    if found is None:
        pytest.skip("needs doxygen: apt-get install doxygen")
    return found


@pytest.fixture(scope="module")
def pages(reference):
    made = reference.pages
    return {path: made[cpp_pages.page_of(path)] for path in HEADERS}


def source(path):
    return (ROOT / "src" / path).read_text()


def text_of(page):
    return html.unescape(re.sub(r"<[^>]*>", "", page))


def items(reference):
    return [(header, outer, item) for header in reference.headers.values() for outer in header.items
            for item in (outer, *outer.members)]


def test_the_map_lists_each_header_once():
    assert HEADERS and len(HEADERS) == len(set(HEADERS))
    assert MAP.count("../src/") == len(HEADERS), "a line of docs/cpp-api.md does not look like the others"


def test_headers_that_the_documentation_names_are_listed():
    documents = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/tutorials").glob("*.md"),
                 *(ROOT / "tests/example").glob("*.cpp")]
    named = {name for document in documents for name in re.findall(r"\bstoker/[\w/]+\.h\b", document.read_text())}
    assert sorted(named - set(HEADERS)) == []


def test_public_types_have_headings(pages):
    definition = re.compile(r"^(?:class|struct|enum class|enum) (\w+)(?: final)?(?: : [^;{]*)? \{", re.MULTILINE)
    missing = [f"{path}: {name}" for path, page in pages.items() for name in definition.findall(source(path))
               if not re.search(rf"^## `{name}` ", page, re.MULTILINE)]
    assert missing == []


def test_types_in_signatures_are_listed(reference):
    """A type that a listed header begins to use is also listed, or left out for a reason."""
    definition = re.compile(r"^(?:class|struct|enum class|using) (\w+)(?=[^;\n]*(?:[{=]|\n))", re.MULTILINE)
    defined = {name for header in (ROOT / "src/stoker").rglob("*.h") for name in definition.findall(header.read_text())}
    used = {}
    for header, outer, item in items(reference):
        for word in re.findall(r"(?<!::)\b[A-Z]\w+", re.sub(r'"[^"]*"', "", item.declaration)):
            if word in defined and cpp_pages._find(word, reference.types, outer.name) is None:
                used.setdefault(word, f"{header.path}: {item.name}")
    missing = [f"{word} in {place}" for word, place in used.items() if word not in LEFT_OUT]
    assert missing == [], "list their headers in docs/cpp-api.md, or add them to LEFT_OUT"
    assert sorted(LEFT_OUT - set(used)) == [], "no longer used, or listed by now"


def test_each_page_begins_with_its_header(pages):
    for path, page in pages.items():
        first = source(path).splitlines()[0].removeprefix("// ").replace("`", "")
        assert first in text_of(page), path
        assert f'#include "{path}"' in text_of(page)


def test_declarations_and_their_comments(reference):
    found = {item.name: item for _, _, item in items(reference)}
    assert found["LoaderOptions::prefetch"].declaration == "int prefetch = 3"
    assert found["LoaderOptions::prefetch"].comment == "batches in flight beyond the one in use"
    assert found["Loader::next"].declaration == "std::shared_ptr<Batch> next(const OnBadSamples& on_bad_samples = nullptr)"
    assert found["Loader::next"].comment.startswith("Waits for the next batch. Returns null once")
    assert found["Trainer::val_loader"].comment == "null without validation data"  # behind a body
    assert found["FitOptions::resume"].comment.endswith("or the path of a\ncheckpoint or run folder")  # on two lines
    assert found["FitOptions::on_warning"].comment == "one line, without a line break"
    assert found["Model::forward"].declaration == "virtual at::Tensor forward(const at::Tensor& input) = 0"
    assert found["Model::parameter"].protected and not found["Model::load"].protected
    assert found["TorchModule"].declaration == "template <typename Net>\nclass TorchModule final : public Model"
    assert {value.name: value.comment for value in found["FieldKind"].values}["value"] == "numbers, carried unchanged"
    assert "DataError" in found["Error"].derived
    assert "Loader::ring_" not in found and "Loader::start" not in found and "Loader::FieldPlan" not in found


def test_comments_are_text_and_names_are_links(reference):
    header = cpp_headers.Header("stoker/pipeline/loader.h", "<b>Loader</b> & `a < b`, Batch::size, step.", [], [])
    shown = cpp_pages._prose(header.comment, reference, "")
    assert shown.startswith("<p>&lt;b&gt;") and "<code>a &lt; b</code>" in shown and "&amp;" in shown
    assert '<autoref identifier="stoker::Batch::size">Batch::size</autoref>' in shown
    assert '">step<' not in shown  # a word of the language
    assert cpp_pages._prose("As\n  a  table\n\nend", reference, "") == \
        '<p>As</p>\n<div class="cpp-declaration"><pre><code>a  table</code></pre></div>\n<p>end</p>\n'


def test_a_header_without_anything_is_named(reference):
    with pytest.raises((ValueError, OSError), match=r"stoker/no\.h"):
        cpp_headers.read(["stoker/no.h"])


def test_without_doxygen_the_page_says_so(monkeypatch, capsys):
    monkeypatch.setattr(cpp_pages.shutil, "which", lambda name: None)
    assert cpp_pages.load() is None and "skipped" in capsys.readouterr().err
    page = cpp_pages.expand_map(MAP, None)
    assert "without doxygen" in page and all(f"- `{path}`\n" in page for path in HEADERS) and "../src" not in page


def mkdocs():
    """A Python with what docs/site/requirements.txt names: that of `./dev docs`, or this one."""
    for python in (ROOT / "build/docs/venv/bin/python", Path(sys.executable)):
        command = [python, "-c", "import material, mkdocstrings"]
        if python.exists() and subprocess.run(command, capture_output=True).returncode == 0:
            return python
    pytest.skip("needs MkDocs: ./dev docs installs it into build/docs/venv")


def test_the_site_builds_without_warnings(reference, tmp_path):
    site = tmp_path / "site"
    built = subprocess.run([mkdocs(), "-m", "mkdocs", "build", "--strict", "--site-dir", site], cwd=ROOT, text=True,
                           capture_output=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    assert built.returncode == 0, "\n".join(line for line in built.stderr.splitlines() if not line.startswith("INFO"))
    overview = (site / "cpp-api/index.html").read_text()
    for path in HEADERS:
        page = (site / cpp_pages.page_of(path)).with_suffix("") / "index.html"
        shown = page.read_text()
        assert "<autoref" not in shown and "stokercomment" not in shown
        assert all(f'id="stoker::{item.name}"' in shown for item in reference.headers[path].items if item.is_type), path
        assert f"<code>{path}</code>" in overview
    for page in site.glob("cpp-api/**/index.html"):
        for href in re.findall(r'<a href="([./][^"#]*/)(?:#[^"]*)?">', page.read_text().partition("<article")[2]):
            assert (page.parent / href / "index.html").exists(), f"{page}: {href}"
    assert 'href="../cpp-api/pipeline/loader/"' in (site / "cpp/index.html").read_text()
    shutil.rmtree(site)
