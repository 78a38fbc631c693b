"""The README's C++ example is the program that the tests compile and run, in both languages."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("readme", ["README.md", "README.zh-CN.md"])
def test_example_is_the_compiled_program(readme: str) -> None:
    program = (ROOT / "tests/example/example.cpp").read_text().split("\n", 1)[1].strip()
    assert f"```cpp\n{program}\n```" in (ROOT / readme).read_text()


@pytest.mark.parametrize("readme", ["README.md", "README.zh-CN.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(readme: str) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / readme).read_text()):
        assert (ROOT / target).exists(), f"{readme} links to {target}"
