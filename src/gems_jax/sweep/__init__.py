"""Sweeps: many settings of one method on one game, from a TOML file to a table and a figure.

file.py        the sweep file, checked to the last value before anything starts
points.py      its points (settings), and the cells they are computed in
cell.py        one cell: all its points and seeds in one compiled call, an ordinary run directory for each point
executors.py   where cells run: processes here, SLURM by submitit, a Ray cluster
folder.py      the sweep's folder, and how far it is
report.py      the table and the parallel coordinates
execution.py   all of it in order
"""
