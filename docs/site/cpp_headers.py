"""What doxygen finds in public headers: their types, functions and values, with the comments of each.

Comments in the headers are plain `//`. Doxygen gets copies in which each comment that belongs to a declaration is one
word, and the words are exchanged for the comments afterwards: so no comment is taken for a command, a tag or a link.

    python3 docs/site/cpp_headers.py    lists what is public and has no comment
"""

import re
import subprocess
import tempfile
import xml.etree.ElementTree as Xml
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAP = ROOT / "docs/cpp-api.md"
_LISTED = re.compile(r"^- \[`(stoker/[\w/]+\.h)`\]\(\.\./src/\1\)$", re.MULTILINE)
_WORD = re.compile(r"stokercomment(\d+)x")
_COLUMNS = 80  # of a declaration
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
MAX_INITIALIZER_LINES = 1000
QUIET = YES
WARNINGS = NO
"""


@dataclass
class Item:
    """A type, a function, a variable, an alias or an enumeration. `name` is qualified, without the namespace."""

    kind: str
    name: str
    declaration: str
    comment: str  # lines; empty: none
    line: int
    protected: bool = False
    values: list["Item"] = field(default_factory=list)  # of an enumeration
    members: list["Item"] = field(default_factory=list)  # of a type
    derived: list[str] = field(default_factory=list)  # names of the types that derive from it

    @property
    def is_type(self) -> bool:
        return self.kind in ("class", "struct", "enum", "typedef")

    @property
    def last_name(self) -> str:
        return self.name.rpartition("::")[2] if not self.name.startswith("operator") else self.name


@dataclass
class Header:
    path: str  # "stoker/pipeline/loader.h"
    comment: str
    includes: list[str]
    items: list[Item]


def groups(page: str) -> dict[str, list[str]]:
    """The headers that docs/cpp-api.md lists, by heading."""
    parts = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    return {title: _LISTED.findall(text) for title, text in zip(parts[1::2], parts[2::2], strict=True)}


def read(paths: list[str]) -> dict[str, Header]:
    """Throws ValueError for a header in which nothing is found, OSError for one that is not there."""
    comments: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            copy = Path(folder, "src", path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(_marked((ROOT / "src" / path).read_text(), comments))
        subprocess.run(["doxygen", "-"], input=_SETTINGS.format(folder=folder), text=True, check=True)
        found = [_compound(path) for path in Path(folder, "xml").glob("*.xml") if path.stem != "index"]
    reader = _Reader(comments, [compound for compound in found if compound is not None])
    headers = {path: _header(path, reader.items.get(path, [])) for path in paths}
    for path, header in headers.items():
        if not header.items:
            raise ValueError(f"cpp-api.md: doxygen found nothing in {path}")
    return headers


def _header(path: str, items: list[Item]) -> Header:
    text = (ROOT / "src" / path).read_text()
    own = re.sub("^// ?", "", text.partition("\n#pragma once")[0], flags=re.MULTILINE)
    return Header(path, own, re.findall(r'^#include "(.+)"$', text, re.MULTILINE), sorted(items, key=lambda i: i.line))


def _marked(text: str, comments: list[str]) -> str:
    """The comments before a declaration and behind one, each as a word that names its place in `comments`."""
    lines = text.partition("\n#pragma once")[2].splitlines()
    marked: list[str] = []
    at = 0

    def word(parts: list[str]) -> str:
        comments.append("\n".join(parts))
        return f"stokercomment{len(comments) - 1}x"

    def is_comment(number: int) -> bool:
        return number < len(lines) and lines[number].lstrip().startswith("//")

    while at < len(lines):
        line = lines[at]
        at += 1
        indent = line[: len(line) - len(line.lstrip())]
        code, mark, behind = line.partition("  // ")
        if is_comment(at - 1):
            block = [line]
            while is_comment(at):
                block.append(lines[at])
                at += 1
            if at < len(lines) and lines[at].strip():  # else it belongs to no declaration
                marked.append(f"{indent}/// {word([re.sub('^ *// ?', '', part) for part in block])}")
        elif mark and code.strip():
            column = line.index("// ")
            parts = [behind]
            while is_comment(at) and lines[at].index("//") == column:  # a continued comment
                parts.append(re.sub("^ *// ?", "", lines[at]))
                at += 1
            if code.endswith("}") or code.endswith("{"):  # a body, which would take the comment for its own
                marked += [f"{indent}/// {word(parts)}", code]
            else:
                marked.append(f"{code}  ///< {word(parts)}")
        else:
            marked.append(line)
    return "\n".join(marked) + "\n"


def _compound(path: Path) -> Xml.Element | None:
    return Xml.parse(path).getroot().find("compounddef")


class _Reader:
    """Doxygen's XML as items: those of each header."""

    def __init__(self, comments: list[str], compounds: list[Xml.Element]) -> None:
        self._comments = comments
        self.items: dict[str, list[Item]] = {}
        for compound in compounds:
            if compound.get("kind") in ("struct", "class") and compound.get("prot") == "public":
                if "<" not in compound.findtext("compoundname", ""):  # no specialisation
                    self._add(compound, self._type(compound))
            elif compound.get("kind") == "namespace":
                for member in compound.iter("memberdef"):
                    self._add(member, self._member(member, ""))

    def _add(self, element: Xml.Element, item: Item | None) -> None:
        if item is not None:
            self.items.setdefault(_file(element), []).append(item)

    def _type(self, compound: Xml.Element) -> Item:
        name = _inside(compound.findtext("compoundname", ""))
        kind = compound.get("kind", "")
        bases = [f"{base.get('prot')} {_inside(_code(base))}" for base in compound.findall("basecompoundref")]
        declaration = " ".join(filter(None, (f"{kind} {name}", "final" if compound.get("final") == "yes" else "")))
        if bases:
            declaration += " : " + ", ".join(bases)
        found = [self._member(member, name + "::") for member in compound.iter("memberdef")]
        derived = [_inside(_code(element)) for element in compound.findall("derivedcompoundref")]
        return Item(kind, name, _template(compound) + declaration, self._comment(compound), _line(compound),
                    members=sorted((member for member in found if member is not None), key=lambda i: i.line),
                    derived=sorted(derived))

    def _member(self, member: Xml.Element, outer: str) -> Item | None:
        name, kind = member.findtext("name", ""), member.get("kind", "")
        rest = member.findtext("argsstring", "")
        comment = self._comment(member)
        made_by_compiler = "=delete" in rest or ("=default" in rest and not comment)
        if member.get("prot") not in ("public", "protected") or name.startswith(("~", "@")) or made_by_compiler:
            return None
        if kind not in ("function", "variable", "typedef", "enum"):
            return None
        item = Item(kind, outer + name, "", comment, _line(member), protected=member.get("prot") == "protected")
        item.values = [Item("value", value.findtext("name", ""), value.findtext("name", ""), self._comment(value), 0)
                       for value in member.iter("enumvalue")]
        item.declaration = _declaration(member, name, item.values)
        return item

    def _comment(self, of: Xml.Element) -> str:
        """The comments before it, then those behind it."""
        parts = [_flat(of.find(part)) for part in ("briefdescription", "detaileddescription")]
        numbers = sorted({int(number) for number in _WORD.findall(" ".join(parts))})
        return "\n".join(self._comments[number] for number in numbers)


def _declaration(member: Xml.Element, name: str, values: list[Item]) -> str:
    kind, type_ = member.get("kind"), _code(member.find("type"))
    if kind == "enum":
        line = " ".join(filter(None, ("enum", "class" if member.get("strong") == "yes" else "", name)))
        line += f" : {type_}" if type_ else ""
        if any(value.comment for value in values):  # they are listed with their comments
            return line
        names = [value.name for value in values]
        short = f"{line} {{ {', '.join(names)} }}"
        return short if len(short) <= _COLUMNS else f"{line} {{\n    " + ",\n    ".join(names) + "\n}"
    if kind == "typedef":
        line = f"using {name} = {type_}"
        before, _, arguments = line.partition("<")
        return line if len(line) <= _COLUMNS or "(" in line else f"{before}<\n    " + arguments.replace(", ", ",\n    ")
    static = "static " if member.get("static") == "yes" and "static" not in type_ else ""
    if kind == "variable":
        value = re.sub(r"^=\s*", "= ", _code(member.find("initializer")))
        brackets = member.findtext("argsstring", "")  # of a pointer to a function
        return " ".join(filter(None, (f"{static}{type_}", name + brackets, value)))
    words = [word for word in ("explicit", "virtual") if _is(member, word)]
    before = " ".join(filter(None, (*words, static.strip(), type_)))
    parameters = [_parameter(element) for element in member.findall("param")]
    return _template(member) + _wrapped(f"{before} {name}".strip(), parameters, _behind(member))


def _wrapped(before: str, parameters: list[str], behind: str) -> str:
    line = f"{before}({', '.join(parameters)}){behind}"
    if len(line) <= _COLUMNS or not parameters:
        return line
    return f"{before}(\n    " + ",\n    ".join(parameters) + f"){behind}"


def _behind(member: Xml.Element) -> str:
    """`const`, `noexcept`, `override` and `= 0` of a function."""
    text = member.findtext("argsstring", "").rpartition(")")[2]
    return re.sub(r" *= *(0|default)", r" = \1", text)


def _is(member: Xml.Element, word: str) -> bool:
    if word == "virtual":
        return member.get("virt") != "non-virtual" and "override" not in member.findtext("argsstring", "")
    return member.get(word) == "yes"


def _template(of: Xml.Element) -> str:
    parameters = of.find("templateparamlist")
    if parameters is None:
        return ""
    return f"template <{', '.join(_parameter(element) for element in parameters.findall('param'))}>\n"


def _parameter(element: Xml.Element) -> str:
    type_, value = _code(element.find("type")), _code(element.find("defval"))
    name = element.findtext("declname", "")
    return " ".join(filter(None, (type_, name))) + (f" = {value}" if value else "")


def _code(element: Xml.Element | None) -> str:
    """Code as the headers have it: doxygen changes the spaces."""
    text = re.sub(r"/\*.*?\*/", "", _flat(element)).strip()
    text = re.sub(r"< | >|  +", lambda spaces: spaces[0].strip() or " ", text)
    text = re.sub(r" ([&*]+)", r"\1", text)
    return re.sub(r"([&*])(?=[A-Za-z])", r"\1 ", text)


def _inside(name: str) -> str:
    return name.removeprefix("stoker::")


def _flat(element: Xml.Element | None) -> str:
    return "" if element is None else " ".join("".join(element.itertext()).split())


def _location(of: Xml.Element) -> Xml.Element:
    location = of.find("location")
    return Xml.Element("location") if location is None else location


def _line(of: Xml.Element) -> int:
    return int(_location(of).get("line") or 0)


def _file(of: Xml.Element) -> str:
    return (_location(of).get("file") or "").split("/src/")[-1]


def undocumented(headers: dict[str, Header]) -> list[str]:
    """"stoker/pipeline/loader.h: Loader::dataset" for what has no comment."""
    return [f"{header.path}: {item.name}" for header in headers.values() for outer in header.items
            for item in (outer, *outer.members) if not item.comment]


if __name__ == "__main__":
    listed = [path for paths in groups(MAP.read_text()).values() for path in paths]
    print("\n".join(undocumented(read(listed))))
