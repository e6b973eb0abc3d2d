"""The rules of the house: who may import whom, what is cheap to import, how large code may grow."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("lightning_modules", "data", "ablations", "analysis")
OURS = (*ROOMS, "tests")
PACKAGE_FILES = sorted(file for room in ROOMS for file in (ROOT / room).rglob("*.py"))
ALL_FILES = PACKAGE_FILES + sorted((ROOT / "tests").rglob("*.py"))

MAY_IMPORT = {
    "lightning_modules": ("lightning_modules", "data.batches"),
    "data": ("data",),
    "ablations": ("ablations", "lightning_modules", "data"),
    "analysis": ("analysis", "ablations.ledger", "ablations.config"),
    "ablations/commands.py": ROOMS,  # where every room meets
    "ablations/figure_commands.py": ROOMS,
    "ablations/analysis_commands.py": ROOMS,
    "ablations/bootstrap_commands.py": ROOMS,
    "ablations/claim_commands.py": ROOMS,
    "ablations/report_commands.py": ROOMS,
    "ablations/wandb_commands.py": ROOMS,
    "ablations/dashboard_commands.py": ROOMS,
}
HARNESS_LIBRARIES = ("wandb", "optuna", "jsonargparse", "datasets")
# design.py holds the constraints between levels, not forward code.
MODEL_FILES = sorted(
    {*(ROOT / "lightning_modules").rglob("*.py")} - {ROOT / "lightning_modules/design.py"}
)
LONGEST_FILE = 300
LONGEST_BODY = 40
UNFINISHED = ("TO" + "DO", "FIX" + "ME", "X" * 3)
MACHINE_PATHS = ("/ho" + "me/", "/ro" + "ot/", "/wo" + "rk/", "/t" + "mp/")


def parse(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def imported_modules(tree: ast.AST) -> Iterator[str]:
    """Every module named by an import; `from a import b` gives `a.b`, for b may be a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def breaches(tree: ast.AST, place: str) -> list[str]:
    """The imports of our own that this room or file may not make."""
    ours = [name for name in imported_modules(tree) if name.split(".")[0] in OURS]
    return [name for name in ours if not any(is_within(name, ok) for ok in MAY_IMPORT[place])]


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef, source: list[str]) -> int:
    """Lines of a function's body without docstring, comments and blank lines."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    if not body:
        return 0
    lines = source[body[0].lineno - 1 : function.end_lineno]
    return sum(1 for line in lines if line.strip() and not line.strip().startswith("#"))


@pytest.mark.parametrize("file", PACKAGE_FILES, ids=name_of)
def test_a_room_imports_only_what_it_may(file: Path) -> None:
    name = name_of(file)
    assert breaches(parse(file), name if name in MAY_IMPORT else name.split("/")[0]) == []


def test_a_forbidden_import_is_found() -> None:
    tree = ast.parse("def late():\n    from ablations import run\n    import data.translation")
    assert breaches(tree, "lightning_modules") == ["ablations.run", "data.translation"]


@pytest.mark.parametrize("room", ["lightning_modules", "data"])
def test_model_and_data_load_without_the_harness_libraries(room: str) -> None:
    """Somebody who takes only the modules needs neither sweeps nor trackers."""
    modules = [
        ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for file in (ROOT / room).rglob("*.py")
        if file.name != "__init__.py"
    ]
    code = (
        f"import sys\nfor name in {HARNESS_LIBRARIES}: sys.modules[name] = None\n"
        f"import importlib\nfor name in {modules}: importlib.import_module(name)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("room", [*ROOMS, "lightning_modules/axes"])
def test_a_package_itself_holds_only_a_docstring(room: str) -> None:
    """Importing a room costs nothing until one of its files is asked for."""
    statements = parse(ROOT / room / "__init__.py").body
    assert [type(statement) for statement in statements] == [ast.Expr]


def test_the_help_of_the_command_loads_no_heavy_library() -> None:
    code = (
        "import contextlib, sys\nfrom ablations.cli import main\n"
        "with contextlib.suppress(SystemExit): main(['--help'])\n"
        "heavy = {'torch', 'pytorch_lightning', 'pandas', 'seaborn', 'optuna'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {sorted(heavy)}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "sweep" in done.stdout


@pytest.mark.parametrize("file", ALL_FILES, ids=name_of)
def test_a_file_stays_short(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) < LONGEST_FILE


@pytest.mark.parametrize("file", ALL_FILES, ids=name_of)
def test_a_function_body_stays_short(file: Path) -> None:
    source = file.read_text(encoding="utf-8").splitlines()
    functions = [
        node
        for node in ast.walk(parse(file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    lengths = {function.name: body_lines(function, source) for function in functions}
    assert {name: n for name, n in lengths.items() if n >= LONGEST_BODY} == {}


def test_a_body_is_counted_without_docstring_comments_and_blank_lines() -> None:
    text = 'def f():\n    """Two\n    lines."""\n    # why\n    a = 1\n\n    return a\n'
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert body_lines(function, text.splitlines()) == 2


@pytest.mark.parametrize("file", MODEL_FILES, ids=name_of)
def test_model_code_never_asks_for_a_level_by_name(file: Path) -> None:
    """A level carries its behaviour; comparing strings would put it back into the forward code."""
    compared = [
        ast.unparse(node)
        for node in ast.walk(parse(file))
        if isinstance(node, ast.Compare)
        for side in (node.left, *node.comparators)
        if isinstance(side, ast.Constant) and isinstance(side.value, str)
    ]
    assert compared == []


@pytest.mark.parametrize("file", ALL_FILES, ids=name_of)
def test_nothing_is_left_unfinished_or_tied_to_one_machine(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert [mark for mark in (*UNFINISHED, *MACHINE_PATHS) if mark in text] == []
