"""Self-contained HTML pages: play against a policy, and look at a run. They need neither a server nor a network.

    write_play_page(gems_jax.load("kuhn"), "play.html")
    write_run_page("runs/kuhn_poker/gems/20260101-120000-s0", "run.html")

The rules of the games and the inference are plain JavaScript in `assets/`; Python puts them, the parameters and the
records of a run into one file. Text of a file is data of the page: it is escaped and never becomes a script.
"""

from gems_jax.web.play_page import PLAYABLE, write_play_page
from gems_jax.web.run_page import write_run_page

__all__ = ["PLAYABLE", "write_play_page", "write_run_page"]
