"""MkDocs hooks for pages that are also read in the source tree, and for the pages of the C++ API."""

import re
import sys
from pathlib import Path
from typing import Any

import griffe
from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))
import cpp_pages  # noqa: E402

_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?!tutorials/|notebooks/)[\w./#-]+\)")
_ARGUMENT = re.compile(r"^(\w+(?:, \w+)*): ", re.MULTILINE)
_STYLE = "assets/cpp.css"
_reference: cpp_pages.Reference | None = None


def on_config(config: Any) -> None:
    """The headers of the C++ API come below its map."""
    global _reference
    _reference = cpp_pages.load()
    config.extra_css.append(_STYLE)
    for section in config.nav:
        if _reference is not None and isinstance(section, dict) and "C++ API" in section:
            section["C++ API"] += _reference.nav


def on_files(files: Any, config: Any) -> None:
    files.append(File.generated(config, _STYLE, content=Path(__file__).with_name("cpp.css").read_text()))
    for path, content in (_reference.pages if _reference is not None else {}).items():
        files.append(File.generated(config, path, content=content))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to sources lead out of the site: their text stays. The map of the C++ API comes from the headers."""
    source = page.file.src_uri
    if source == "cpp-api.md":
        return cpp_pages.expand_map(markdown, _reference)
    if source.startswith(cpp_pages.FOLDER + "/"):
        return markdown
    outside = source.count("/") == 0  # pages in folders link to other pages by ../
    return cpp_pages.link_headers(_OUTSIDE.sub(r"\1", markdown) if outside else markdown, source, _reference)


class Arguments(griffe.Extension):
    """Lines `name: meaning` of a docstring become a list."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _ARGUMENT.sub(r"- **\1**: ", obj.docstring.value)
