"""What MkDocs needs for pages that are read in the source tree, too."""

import re
import sys
from pathlib import Path
from typing import Any

import griffe

sys.path.insert(0, str(Path(__file__).parent))
import cpp_api  # noqa: E402

_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?!tutorials/|notebooks/)[\w./-]+\)")
_ARGUMENT = re.compile(r"^(\w+(?:, \w+)*): ", re.MULTILINE)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to sources lead out of the site: their text stays. The C++ API comes from the headers."""
    if page.file.src_uri == "cpp-api.md":
        return cpp_api.expand(markdown)
    outside = page.file.src_uri.count("/") == 0  # pages in folders link to other pages by ../
    return _OUTSIDE.sub(r"\1", markdown) if outside else markdown


class Arguments(griffe.Extension):
    """Lines `name: meaning` of a docstring become a list."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _ARGUMENT.sub(r"- **\1**: ", obj.docstring.value)
