"""The C++ examples of the pages are the programs that the tests compile and run, or parts of them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


PROGRAMS = [("docs/tutorials/cpp.md", "photos")]
PARTS = [("docs/cpp.md", name) for name in
         ("squares", "fields", "masks", "own_op", "own_model", "custom_task", "own_loop")]


@pytest.mark.parametrize(("page", "example"), PROGRAMS)
def test_example_is_the_compiled_program(page: str, example: str) -> None:
    program = (ROOT / f"tests/example/{example}.cpp").read_text().split("\n", 1)[1].strip()
    assert f"```cpp\n{program}\n```" in (ROOT / page).read_text()


@pytest.mark.parametrize(("page", "example"), PARTS)
def test_parts_are_those_of_the_compiled_program(page: str, example: str) -> None:
    """The block behind the program's name; lines `...` stand between its parts."""
    name = f"tests/example/{example}.cpp"
    block = (ROOT / page).read_text().rsplit(name, 1)[1].split("```cpp\n")[1].split("\n```")[0]
    for part in block.split("\n...\n"):
        assert part.strip() and f"\n{part}\n" in (ROOT / name).read_text(), part


def test_the_first_example_is_short() -> None:
    program = (ROOT / "tests/example/photos.cpp").read_text().split("\n", 1)[1].strip()
    assert len(program.splitlines()) <= 40


PAGES_OF_TEXT = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("src/**/*.md")]


@pytest.mark.parametrize("page", PAGES_OF_TEXT, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_are_short_and_complete(page: Path) -> None:
    for number, line in enumerate(page.read_text().splitlines(), 1):
        assert "@@" not in line, f"{page}:{number}: a placeholder"
        wide = 2 if page.name == "README.zh-CN.md" else 1  # Chinese characters take two columns
        assert len(line) <= 120 * wide or line.startswith(("|", "#include", "find_package")), f"{page}:{number}"


@pytest.mark.parametrize("readme", ["README.md", "README.zh-CN.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(readme: str) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / readme).read_text()):
        assert (ROOT / target).exists(), f"{readme} links to {target}"
