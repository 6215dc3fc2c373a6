"""Makes docstrings readable as Markdown."""


def fence_examples(text: str) -> str:
    """Encloses examples in fences.

    Args:
      text: a docstring without its common indentation.

    Returns:
      The docstring in which every example, up to the next empty line, is a block of the language `pycon`.
    """
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if line.startswith(">>>") and not inside:
            lines += ["```pycon"]
            inside = True
        elif inside and not line.strip():
            lines += ["```"]
            inside = False
        lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines)
