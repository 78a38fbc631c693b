"""The C++ API of cpp-api.md: doxygen reads the headers that the page names, and each gets its types and functions.

Comments in the headers are plain `//`; doxygen gets copies with `///`. Where doxygen is not installed the page says so.
"""

import html
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as Xml
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_HEADING = re.compile(r"^## `(stoker/[\w/]+\.h)`$", re.MULTILINE)
_SETTINGS = """
INPUT = {folder}/src
RECURSIVE = YES
OUTPUT_DIRECTORY = {folder}
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
EXTRACT_ALL = YES
MARKDOWN_SUPPORT = NO
AUTOLINK_SUPPORT = NO
MULTILINE_CPP_IS_BRIEF = YES
QUIET = YES
WARNINGS = NO
WARN_AS_ERROR = NO
"""


def expand(markdown: str) -> str:
    headers = _HEADING.findall(markdown)
    if shutil.which("doxygen") is None:
        print("skipped: the C++ API has headers alone, because doxygen is not installed", file=sys.stderr)
        return markdown + "\n!!! note\n    This site was built without doxygen: see the headers themselves.\n"
    with tempfile.TemporaryDirectory() as folder:
        _run_doxygen(headers, folder)
        files = [path for path in Path(folder, "xml").glob("*.xml") if path.stem not in ("index", "Doxyfile")]
        compounds = sorted(map(_parse, files), key=_line)
    parts = {header: re.sub(r"\n{3,}", "\n\n", "\n".join(_section(header, compounds))) for header in headers}
    for header, part in parts.items():
        if not part.strip():
            raise ValueError(f"cpp-api.md: doxygen found nothing in {header}")
    return _HEADING.sub(lambda heading: f"{heading[0]}\n\n{parts[heading[1]]}", markdown)


def _run_doxygen(headers: list[str], folder: str) -> None:
    for header in headers:
        copy = Path(folder, "src", header)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(_with_comments((_ROOT / "src" / header).read_text()))
    subprocess.run(["doxygen", "-"], input=_SETTINGS.format(folder=folder), text=True, check=True)


def _with_comments(text: str) -> str:
    """The file's own comment, comments before a declaration, and comments behind one."""
    head, _, rest = text.partition("\n#pragma once")
    lines = ["/** \\file", _plain(re.sub("^// ?", "", head, flags=re.MULTILINE)), "*/"]
    for line in rest.splitlines():
        before, mark, comment = line.partition("// ")
        if mark and not before.strip():
            if lines[-1].find("///< ") > 0:
                lines.append("")  # else it would go on
            line = f"{before}/// {_plain(comment)}"
        elif mark and before.endswith("  "):
            line = f"{before}///< {_plain(comment)}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def _plain(comment: str) -> str:
    """Without what doxygen takes for a command or a tag."""
    return re.sub(r"([\\@])", r"\\\1", html.escape(comment, quote=False))


def _parse(path: Path) -> Xml.Element:
    compound = Xml.parse(path).getroot().find("compounddef")
    assert compound is not None
    return compound


def _section(header: str, compounds: list[Xml.Element]) -> list[str]:
    lines = []
    for compound in compounds:
        kind, name = compound.get("kind"), compound.findtext("compoundname", "")
        if kind == "file" and _file(compound) == header:
            lines.insert(0, _text(compound) + "\n")
        elif kind in ("struct", "class") and _file(compound) == header and compound.get("prot") == "public":
            lines += [f"### {kind} {name}\n", _text(compound) + "\n", *_members(compound, header)]
        elif kind == "namespace":
            lines += _members(compound, header)
    return lines


def _line(compound: Xml.Element) -> int:
    location = compound.find("location")
    return 0 if location is None else int(location.get("line") or 0)


def _members(compound: Xml.Element, header: str) -> list[str]:
    lines = []
    for member in compound.iter("memberdef"):
        arguments = member.findtext("argsstring", "")
        name = member.findtext("name", "")
        if member.get("prot") != "public" or _file(member) != header or "=delete" in arguments or name.startswith("~"):
            continue
        text = _text(member)
        if member.get("kind") == "enum":
            text += "\n" + "".join(_value(value) for value in member.iter("enumvalue"))
        if member.get("kind") == "variable":
            lines.append(f"- `{_declaration(member)}`" + (f": {text}" if text else "") + "\n")
        else:
            lines += [f"```cpp\n{_declaration(member)}\n```\n", text + "\n"]
    return lines


def _declaration(member: Xml.Element) -> str:
    kind, name = member.get("kind"), member.findtext("name", "")
    if kind == "enum":
        return f"enum class {name};"
    if kind == "function":
        kept = " ".join(filter(None, (_flat(member.find("type")), name + member.findtext("argsstring", ""))))
        return f"static {kept};" if member.get("static") == "yes" else f"{kept};"
    if kind == "typedef":
        return f"using {name} = {_flat(member.find('type'))};"
    return f"{_flat(member.find('type'))} {name} {_flat(member.find('initializer'))}".rstrip() + ";"


def _value(value: Xml.Element) -> str:
    text = _text(value)
    return f"\n- `{value.findtext('name')}`" + (f": {text}" if text else "")


def _text(of: Xml.Element) -> str:
    """Its comment. What Markdown would take for markup is escaped."""
    parts = [_flat(of.find(part)) for part in ("briefdescription", "detaileddescription", "inbodydescription")]
    return re.sub(r"([*_<>\[\]#])", r"\\\1", " ".join(filter(None, parts)).removeprefix("< "))


def _flat(element: Xml.Element | None) -> str:
    return "" if element is None else " ".join("".join(element.itertext()).split())


def _file(of: Xml.Element) -> str:
    location = of.find("location")
    return "" if location is None else (location.get("file") or "").split("/src/")[-1]
