"""The leaderboard: every method that learns from episodes, on every enumerable game, at equal environment steps.

    cells.py     which games, methods, budgets and seeds there are; settings of a cell
    running.py   runs one cell and stores it, or all that are left
    scores.py    statistics of stored cells
    page.py      docs/leaderboard.md from stored cells
    curves.py    one figure per game
    trials.toml  how many settings were tried for every method

A cell is one game, one method and one total budget, all seeds together. It is stored whole, once, in
`docs/results/leaderboard/<game>/<method>-<budget>.json`.
"""
