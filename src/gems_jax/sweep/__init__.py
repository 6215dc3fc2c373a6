"""Sweeps: many settings of one method on one game, from a TOML file to a table and a figure.

file.py        the sweep file, validated completely before anything starts
points.py      its points (settings), grouped into cells
cell.py        one cell: all its points and seeds in one compiled call, an ordinary run directory for each point
executors.py   executors of cells: local processes, SLURM by submitit, a Ray cluster
folder.py      the sweep's folder and its progress
report.py      the table and the parallel coordinates
execution.py   runs a sweep from its file to its table
"""
