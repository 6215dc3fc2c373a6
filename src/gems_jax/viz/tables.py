"""Tables of text cells, for the terminal and for documents."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class TextTable:
    """Table of text cells."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    sections: tuple[int, ...]  # indices of the rows that end a section
    caption: str

    def markdown(self) -> str:
        """Formats the table as Markdown."""
        rule = ["---"] * 2 + ["---:"] * (len(self.header) - 2)
        lines = [self.header, rule, *self.rows]
        return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + f"\n\n{self.caption}\n"

    def rich(self, title: str) -> Any:
        """Makes a table of rich."""
        from rich import box
        from rich.table import Table as RichTable

        table = RichTable(
            title=title, caption=self.caption, title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD,
            padding=(0, 0), pad_edge=False, collapse_padding=True,
        )  # fmt: skip
        for position, name in enumerate(self.header):
            table.add_column(name, justify="left" if position == 0 else "right", no_wrap=True)
        for position, cells in enumerate(self.rows):
            table.add_row(*cells, end_section=position in self.sections)
        return table
