"""An extension of griffe: makes docstrings readable as Markdown.

Examples (`>>>`) become blocks of code, which Markdown would take for quotations.
"""

from typing import Any

from griffe import Extension

from website.docstrings import fence_examples


class ReadableDocstrings(Extension):
    """Rewrites the docstring of every object of the reference."""

    def on_object(self, *, obj: Any, **kwargs: Any) -> None:
        """Rewrites one docstring in place.

        Args:
          obj: the object that griffe has read.
          **kwargs: unused.
        """
        if obj.docstring is not None:
            obj.docstring.value = fence_examples(obj.docstring.value)
