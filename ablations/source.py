"""Which code a run goes through."""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("lightning_modules", "data", "ablations")
FIRST = "ablations.run"
WATCHING = ("ablations.inspection", "ablations.tracking", "ablations.tuning")
"""What a run tells of itself to others, and who ends it early: no number of it comes from there."""
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@cache
def source_version(root: Path = ROOT) -> str:
    """12 hexadecimal digits of the code that a run goes through: what is computed, not its looks.

    That is the file of a run and all of ours that it imports, one through the other, but for what
    only watches. Comments, docstrings and layout don't count, and neither do commands, tables and
    documentation. Python
    before 3.12 writes some texts in another way than later ones, so has versions of its own.
    """
    digest = hashlib.sha256()
    for module, tree in sorted(_modules(root).items()):
        digest.update(f"{module}\n{_plain_text(tree)}\n".encode())
    return digest.hexdigest()[:12]


def _modules(root: Path) -> dict[str, ast.Module]:
    """The modules that a run goes through, by their names."""
    found: dict[str, ast.Module] = {}
    asked = [FIRST]
    while asked:
        module = asked.pop()
        file = root.joinpath(*module.split(".")).with_suffix(".py")
        if module not in (*found, *WATCHING) and file.is_file():
            found[module] = ast.parse(file.read_bytes())
            asked += [n for n in _imported(found[module]) if n.split(".")[0] in ROOMS]
    return found


def _imported(tree: ast.Module) -> Iterator[str]:
    """Every name that may be a module: of `from a import b`, both `a` and `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _plain_text(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        if isinstance(node, Documented) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)
