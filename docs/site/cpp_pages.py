"""The C++ API of the site: docs/cpp-api.md is the map of the public headers, and each header has a page.

Doxygen reads the headers (cpp_headers.py). What stands here makes pages of that: headings in Markdown, the rest in
HTML, so that no comment becomes markup. Names of types and functions become links, which mkdocs-autorefs checks.
"""

import html
import posixpath
import re
import shutil
import sys
import textwrap
from dataclasses import dataclass

import cpp_headers
from cpp_headers import Header, Item
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CppLexer

FOLDER = "cpp-api"
_NAMES = re.compile(r'<span class="(?:n|nc|nf)">(\w+)</span>')
_WORDS = re.compile(r"(?<![\w./:-])([A-Za-z_]\w*(?:::\w+)*)(?![\w/]|\.h\b)")
_DOCUMENT = re.compile(r"(?<![\w/.])docs/([\w-]+)\.md")
_INLINE_HEADER = re.compile(r"(?<!\[)`(stoker/[\w/]+\.h)`")
_ENGINE = re.compile(r"set\(stoker_component ENGINE\)(.*?)endif\(\)", re.DOTALL)
WITHOUT_DOXYGEN = "\n!!! note\n    This site was built without doxygen: see the headers themselves.\n"


@dataclass
class Reference:
    headers: dict[str, Header]
    groups: dict[str, list[str]]

    def __post_init__(self) -> None:
        """The target of a name: the item with a heading. A function of several headers could mean any of them."""
        pages: dict[str, set[str]] = {}
        self.types: set[str] = set()
        for header in self.headers.values():
            for outer in header.items:
                self.types |= {outer.name} if outer.is_type else set()
                for item in (outer, *(member for member in outer.members if member.kind == "function")):
                    pages.setdefault(item.name, set()).add(header.path)
        self.anchors = {name for name, paths in pages.items() if len(paths) == 1}

    @property
    def pages(self) -> dict[str, str]:
        """Markdown by the page's path."""
        return {page_of(path): _page(header, self) for path, header in self.headers.items()}

    @property
    def nav(self) -> list[dict[str, object]]:
        return [{title: [{_file_name(path): page_of(path)} for path in paths]} for title, paths in self.groups.items()]


def load() -> Reference | None:
    """None where doxygen is not installed."""
    if shutil.which("doxygen") is None:
        print("skipped: the C++ API has headers alone, because doxygen is not installed", file=sys.stderr)
        return None
    groups = cpp_headers.groups(cpp_headers.MAP.read_text())
    return Reference(cpp_headers.read([path for paths in groups.values() for path in paths]), groups)


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]


def page_of(path: str) -> str:
    return f"{FOLDER}/{path.removeprefix('stoker/').removesuffix('.h')}.md"


def expand_map(markdown: str, reference: Reference | None) -> str:
    """docs/cpp-api.md with each header's purpose and items."""
    if reference is None:
        return re.sub(r"\[(`stoker/[\w/]+\.h`)\]\(\.\./src/.*?\)", r"\1", markdown) + WITHOUT_DOXYGEN
    introduction = markdown.partition("\n## ")[0]
    parts = [introduction]
    for title, paths in reference.groups.items():
        rows = "\n".join(_row(reference.headers[path], reference) for path in paths)
        parts.append(f"## {title}\n\n<div class=\"cpp-map\">\n{rows}\n</div>")
    return "\n\n".join(parts) + "\n"


def link_headers(markdown: str, source: str, reference: Reference | None) -> str:
    """Inline names of public headers on other pages lead to their pages."""
    if reference is None:
        return markdown

    def link(match: re.Match[str]) -> str:
        if match[1] not in reference.headers:
            return match[0]
        return f"[{match[0]}]({posixpath.relpath(page_of(match[1]), posixpath.dirname(source) or '.')})"

    return _INLINE_HEADER.sub(link, markdown)


def _row(header: Header, reference: Reference) -> str:
    names = [item for item in header.items if item.kind in ("class", "struct", "enum") and "::" not in item.name]
    names = names or [item for item in header.items if item.kind == "function"]
    unique = dict.fromkeys(item.name for item in names)
    at = _url(header.path, FOLDER)
    links = " ".join(f'<code><a href="{at}#stoker::{_id(name)}">{html.escape(name)}</a></code>' for name in unique)
    first = re.split(r"(?<=\.)\s+(?=[A-Z`])|(?<=\.)$|\n\n", header.comment.strip())[0]
    return (f"<p><a class=\"cpp-header\" href=\"{at}\"><code>{header.path}</code></a><br>"
            f"{_inline(' '.join(first.split()), reference, '')}<br>{links}</p>")


def _url(path: str, source: str) -> str:
    """The URL of a header's page, from the page at the folder `source` of the site."""
    return posixpath.relpath(page_of(path).removesuffix(".md"), source) + "/"


def _page(header: Header, reference: Reference) -> str:
    at = page_of(header.path).removesuffix(".md")
    name = _file_name(header.path)
    # In search, guides come before reference.
    lines = [f"---\ntitle: {name}\nsearch:\n  boost: 0.5\n---\n", f"# `{name}`\n",
             _prose(header.comment, reference, ""), _block(f'#include "{header.path}"', reference, ""),
             _cmake(header.path.split("/")[1])]
    near = [path for path in header.includes if path in reference.headers]
    users = [path for path, other in reference.headers.items() if header.path in other.includes]
    for title, paths in (("Includes", near), ("Included by", users)):
        if paths:
            links = ", ".join(f'<a href="{_url(path, at)}"><code>{_file_name(path)}</code></a>' for path in paths)
            lines.append(f'<p class="cpp-note">{title}: {links}.</p>\n')
    for items in _overloads(header.items):
        lines += _entry(items, reference)
    return _DOCUMENT.sub(lambda match: _document(match, at), "\n".join(lines))


def _document(match: re.Match[str], at: str) -> str:
    """docs/recipe.md as a link from the page at the folder `at` of the site."""
    if not (cpp_headers.ROOT / match[0]).exists():
        return match[0]
    return f'<a href="{posixpath.relpath(match[1], at)}/">{match[0]}</a>'


def _cmake(folder: str) -> str:
    """How a program gets at a header of this folder (cmake/StokerInstall.cmake)."""
    engine = _ENGINE.search((cpp_headers.ROOT / "CMakeLists.txt").read_text())
    assert engine is not None
    torch = f"src/stoker/{folder})" in engine[1]
    component, needs = ("engine", "Needs LibTorch.") if torch else ("pipeline", "Needs no LibTorch.")
    return (f'<p class="cpp-note">CMake: <code>find_package(stoker COMPONENTS {component})</code>, '
            f"<code>stoker::{folder}</code>. {needs}</p>\n")


def _overloads(items: list[Item]) -> list[list[Item]]:
    """Functions of one name are shown together, at the place of the first."""
    together: dict[tuple[str, str], list[Item]] = {}
    for item in items:
        together.setdefault((item.kind if item.kind == "function" else "", item.name), []).append(item)
    return list(together.values())


def _entry(items: list[Item], reference: Reference) -> list[str]:
    item = items[0]
    lines = [f"## `{item.name}` {{ #stoker::{_id(item.name)} .cpp-{item.kind} }}\n"]
    for one in items:
        if one.declaration != f"{one.kind} {one.name}":  # else the heading says all
            lines.append(_block(one.declaration, reference, item.name, one.last_name))
        lines.append(_prose(one.comment, reference, item.name, one.declaration))
        lines.append(_list(one.values, reference, item.name) if any(value.comment for value in one.values) else "")
    derived = [_link(name, name) for name in item.derived if name in reference.types]
    if derived:
        lines.append(f'<p class="cpp-note">Derived: <code>{"</code>, <code>".join(derived)}</code>.</p>\n')
    fields = [member for member in item.members if member.kind != "function"]
    if fields:
        lines.append(_list(fields, reference, item.name))
    for members in _overloads([member for member in item.members if member.kind == "function"]):
        # For the table of contents: readers see the declaration, which has the name in bold.
        lines.append(f"### `{members[0].last_name}` {{ #stoker::{_id(members[0].name)} .cpp-member }}\n")
        for member in members:
            lines.append(_block(member.declaration, reference, item.name, member.last_name))
            if member.protected:
                lines.append('<p class="cpp-note">Protected: for derived classes.</p>\n')
            lines.append(_prose(member.comment, reference, item.name, member.declaration))
    return lines


def _id(name: str) -> str:
    """Without what Markdown's attributes or an address would not take."""
    return re.sub(r"[^\w:]+", lambda match: "-" + "-".join(f"{ord(letter):x}" for letter in match[0]), name)


def _list(items: list[Item], reference: Reference, scope: str) -> str:
    rows = []
    for item in items:
        code = _highlighted(item.declaration, reference, scope, item.last_name)
        rows.append(f'<dt><code class="highlight">{code}</code></dt>')
        values = _list(item.values, reference, scope) if any(value.comment for value in item.values) else ""
        text = _prose(item.comment, reference, scope, item.declaration).strip()
        rows.append(f"<dd>{text}{values}</dd>")
    return '<dl class="cpp-fields">\n' + "\n".join(rows) + "\n</dl>\n"


def _block(code: str, reference: Reference, scope: str, name: str = "") -> str:
    text = _highlighted(code, reference, scope, name)
    kind = "cpp-declaration " if name else ""
    return f'<div class="{kind}highlight"><pre><code>{text}</code></pre></div>\n'


def _highlighted(code: str, reference: Reference, scope: str, name: str) -> str:
    """HTML with links to types, and with what is declared, `name`, in bold."""
    text = highlight(code, CppLexer(stripnl=True), HtmlFormatter(nowrap=True)).rstrip("\n")
    declared = re.compile(rf'<span class="\w+">{re.escape(name)}</span>(?=<span class="p">\(|<span class="w"> </span>'
                          r'<span class="o">=|$)')
    if name:
        text = declared.sub(lambda match: f"<strong>{name}</strong>", text, count=1)

    def link(match: re.Match[str]) -> str:
        found = _find(match[1], reference.types, scope)
        return match[0] if found is None or found == scope else _link(found, match[0])

    return _NAMES.sub(link, text)


def _find(name: str, known: set[str], scope: str) -> str | None:
    """The item that `name` means in `scope`."""
    while scope:
        if f"{scope}::{name}" in known:
            return f"{scope}::{name}"
        scope = scope.rpartition("::")[0]
    return name if name in known else None


def _link(name: str, shown: str) -> str:
    return f'<autoref identifier="stoker::{_id(name)}">{shown}</autoref>'


def _prose(comment: str, reference: Reference, scope: str, declaration: str = "") -> str:
    """Paragraphs, lists and lines that are set apart by spaces, as the comment has them. Names of parameters are no
    links, though a function may have the same name."""
    own = set(re.findall(r"\w+", declaration)) - reference.types
    parts: list[tuple[str, list[str]]] = []
    for line in comment.splitlines():
        kind = "pre" if line.startswith("  ") else "li" if line.startswith("- ") else "p"
        if not line.strip():
            parts.append(("", []))
        elif parts and parts[-1][0] == kind and kind != "li":
            parts[-1][1].append(line)
        elif kind == "pre" and parts and parts[-1][0] == "li":
            parts[-1][1].append(line.strip())
        else:
            parts.append((kind, [line.removeprefix("- ")]))
    out = []
    for kind, lines in parts:
        if kind == "pre":
            text = html.escape(textwrap.dedent("\n".join(lines)), quote=False)
            out.append(f'<div class="cpp-declaration"><pre><code>{text}</code></pre></div>')
        elif kind == "li":
            out.append(f"<ul><li>{_inline(' '.join(lines), reference, scope, own)}</li></ul>")
        elif kind == "p":
            out.append(f"<p>{_inline(' '.join(lines), reference, scope, own)}</p>")
    return "\n".join(out) + "\n" if out else ""


def _inline(text: str, reference: Reference, scope: str, own: set[str] | frozenset[str] = frozenset()) -> str:
    """Text between backticks as code, and names as links, except for those in `own`."""
    parts = re.split(r"`([^`]+)`", text)
    for at, part in enumerate(parts):
        linked = _linked(part, reference, scope, own, code=at % 2 == 1)
        parts[at] = f"<code>{linked}</code>" if at % 2 else linked
    return "".join(parts)


def _linked(text: str, reference: Reference, scope: str, own: set[str] | frozenset[str], code: bool) -> str:
    parts, end = [], 0
    for match in _WORDS.finditer(text):
        word = match[1]
        name = _find(word, reference.anchors, scope)
        outer = word.rpartition("::")[0]
        if name is None and outer:  # a field: its type
            name = _find(outer, reference.types, scope)
        if name is None or name == scope or word in own or (not code and _is_prose(text, match)):
            continue
        parts += [html.escape(text[end : match.start()], quote=False), _link(name, word)]
        end = match.end()
    return "".join(parts) + html.escape(text[end:], quote=False)


def _is_prose(text: str, match: re.Match[str]) -> bool:
    """`step`, or `Step` where a sentence begins: a word of the language, perhaps, and no name. `next()` is one."""
    word, before = match[1], text[: match.start()].rstrip()
    begins = not before or before[-1] in ".:;("
    if text.startswith("()", match.end()):
        return False
    return re.fullmatch(r"[a-z]+", word) is not None or (begins and re.fullmatch(r"[A-Z][a-z]+", word) is not None)
