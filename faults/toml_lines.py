"""The line of each key in a TOML file, for error messages; `tomllib` does not report lines."""

import re
from collections.abc import Sequence

Path = tuple[str | int, ...]  # ("fault", 2, "at"): the key `at` in the third [[fault]]

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")
_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"""' + r"|'''.*?'''" + r'|"(?:\\.|[^"\\\n])*"' + r"|'[^'\n]*'" + r"|#[^\n]*|[\[\]{}]|\n",
    re.DOTALL,
)


class LineIndex:
    """The line numbers of the keys and tables of a TOML file. In a file that `tomllib` rejects some may be missing."""

    def __init__(self, text: str) -> None:
        self._found: dict[Path, int] = {}
        self._arrays: dict[Path, int] = {}
        self._scan(text)

    def line_of(self, path: Sequence[str | int]) -> int:
        """Return the line (from 1) of a key or, if it has none of its own, of the innermost table around it."""
        wanted = tuple(path)
        while wanted:
            if wanted in self._found:
                return self._found[wanted]
            wanted = wanted[:-1]
        return 1

    def _scan(self, text: str) -> None:
        table: Path = ()
        place, line = 0, 1
        while place < len(text):
            end = text.find("\n", place)
            end = len(text) if end < 0 else end
            here = text[place:end]
            header = _HEADER.match(here)
            key = _KEY.match(here)
            if header and not key:
                names = _names(header[2])
                table = self._enter(header[1] == "[[", names)
                self._found.setdefault(table, line)
                self._found.setdefault(names, line)  # a list of tables: the line of its first one
            elif key:
                self._found.setdefault((*table, *_names(key[1])), line)
                end = _end_of_value(text, place + key.end())
            line += text.count("\n", place, end) + 1
            place = end + 1

    def _enter(self, is_array: bool, names: Path) -> Path:
        path: Path = ()
        for depth, name in enumerate(names):
            path = (*path, name)
            if is_array and depth == len(names) - 1:
                self._arrays[path] = self._arrays.get(path, -1) + 1
            if path in self._arrays:
                path = (*path, self._arrays[path])
        return path


def _names(dotted: str) -> Path:
    parts = re.findall(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""", dotted)
    return tuple(part.strip("\"'") for part in parts)


def _end_of_value(text: str, start: int) -> int:
    """Return the position of the newline that ends a value: the first one outside strings, comments and brackets."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        word = token[0]
        if word in "[{":
            depth += 1
        elif word in "]}":
            depth -= 1
        elif word == "\n" and depth <= 0:
            return token.start()
    return len(text)
