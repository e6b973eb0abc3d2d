"""Files of names and values: YAML, or JSON, in which each name stands once."""

from typing import Any

import yaml


class _NamesOnce(yaml.SafeLoader):
    """Reads YAML; of a name that stands twice, YAML itself would silently keep the last value."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping.

        Raises:
            ValueError: a name stands twice in it.
        """
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            line = node.start_mark.line + 1
            raise ValueError(f"{twice!r} stands twice in the names from line {line}; keep one")
        return super().construct_mapping(node, deep=deep)


def read_mapping(text: str) -> dict[str, Any]:
    """Parse YAML or JSON text that holds names and values.

    Raises:
        ValueError: it cannot be parsed, holds something else, or a name twice.
    """
    try:
        content = yaml.load(text, Loader=_NamesOnce)
    except yaml.YAMLError as error:
        raise ValueError(f"no valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise ValueError("expected names and values, as in 'seed: 1'")
    return content
