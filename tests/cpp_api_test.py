# The C++ API of the site: doxygen reads the headers that docs/cpp-api.md names. Without doxygen the page says so.
import re
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs/site"))
import cpp_api  # noqa: E402

PAGE = (ROOT / "docs/cpp-api.md").read_text()
HEADERS = re.findall(r"^## `(.*)`$", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def expanded():
    if shutil.which("doxygen") is None:
        pytest.skip("needs doxygen: apt-get install doxygen")
    parts = re.split(r"^## `(.*)`$", cpp_api.expand(PAGE), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def test_each_header_begins_with_its_own_comment(expanded):
    assert list(expanded) == HEADERS
    for header, text in expanded.items():
        comment = (ROOT / "src" / header).read_text().splitlines()[0].removeprefix("// ")
        assert text.strip().replace("\\", "").startswith(comment), header


def test_types_functions_members_and_their_comments(expanded):
    loader = expanded["stoker/pipeline/loader.h"]
    assert "### struct stoker::LoaderOptions" in loader and "### class stoker::Loader\n" in loader
    assert "- `int prefetch = 3;`: batches in flight beyond the one in use\n" in loader
    assert re.search(r"```cpp\nstd::shared_ptr< Batch > next\(\);\n```\n\nWaits for the next batch\. Returns null once", loader)
    assert "- `null`" not in loader and "std::atomic" not in loader  # neither a comment's word nor a private member
    kinds = expanded["stoker/formats/dataset.h"]
    assert re.search(r"enum class FieldKind;\n```\n\n.*\n\n- `value`: numbers, carried as they are\n", kinds)


def test_text_is_text(expanded):
    """No comment becomes a tag of HTML, a link or emphasis."""
    for text in expanded.values():
        prose = re.sub(r"`[^`]*`|```.*?```", "", text, flags=re.DOTALL)
        assert not re.search(r"(?<!\\)[<*_\[]", prose.replace("###", "")), prose


def test_a_header_without_anything_is_named():
    if shutil.which("doxygen") is None:
        pytest.skip("needs doxygen: apt-get install doxygen")
    with pytest.raises((ValueError, OSError), match=r"stoker/no\.h"):
        cpp_api.expand("## `stoker/no.h`\n")


def test_without_doxygen_the_page_says_so(monkeypatch, capsys):
    monkeypatch.setattr(cpp_api.shutil, "which", lambda name: None)
    assert cpp_api.expand(PAGE).startswith(PAGE) and "without doxygen" in cpp_api.expand(PAGE)
    assert "skipped" in capsys.readouterr().err
