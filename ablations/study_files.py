"""Where things of a study are: its text, in a file or shipped, and its queue. Cheap to import."""

from importlib import resources
from pathlib import Path

TABLES = resources.files("ablations") / "tables"


def shipped_studies() -> list[str]:
    """Names of the studies that come with the package."""
    return sorted(Path(f.name).stem for f in TABLES.iterdir() if f.name.endswith(".yaml"))


def study_text(name_or_path: str) -> str | None:
    """The content of a file or of a shipped study; None where there is neither.

    Raises:
        ValueError: the file holds no text.
    """
    if Path(name_or_path).is_file():
        try:
            return Path(name_or_path).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{name_or_path}: no UTF-8 text: {error}") from None
    if name_or_path in shipped_studies():
        return (TABLES / f"{name_or_path}.yaml").read_text(encoding="utf-8")
    return None


def queue_file(runs_dir: Path, name: str) -> Path:
    """Where the queue of a study is kept unless an address is given."""
    return runs_dir / "studies" / f"{name}.sqlite"
