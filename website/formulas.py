"""Formulas in TeX to MathML, which browsers draw without a script.

Pages hold formulas in GitHub's notation: a fenced block of the language `math`, or `` $`x`$ `` within a line.
"""

import html
import re

from latex2mathml.converter import convert

BLOCK = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"\$`([^`]+)`\$")


def to_mathml(tex: str, display: str = "inline") -> str:
    """Converts a formula.

    Args:
      tex: the formula, without dollar signs.
      display: `inline` or `block`.

    Returns:
      A `math` element on one line, with the formula as its label for readers of screens.

    Raises:
      ValueError: for a command that has no MathML.
    """
    found = convert(tex, display=display)
    if "\\" in found:
        raise ValueError(f"formula {tex!r}: no MathML for {found[found.index(chr(92)) :][:20]!r}. Use another command.")
    found = found.replace("<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>")  # \\sim: the relation, not the character ~
    label = html.escape(" ".join(tex.split()), quote=True).replace("_", "&#95;").replace("*", "&#42;")
    return found.replace("<math ", f'<math aria-label="{label}" ', 1).replace("\n", " ")


def render_formulas(text: str) -> str:
    """Replaces the formulas of a page by MathML.

    Args:
      text: Markdown.

    Returns:
      Markdown with `math` elements.
    """
    text = BLOCK.sub(lambda found: f'<div class="formula">{to_mathml(found[1].strip(), "block")}</div>\n', text)
    # within a span: Markdown takes an unknown element at the start of a line for the start of a block
    return INLINE.sub(lambda found: f"<span>{to_mathml(found[1])}</span>", text)
