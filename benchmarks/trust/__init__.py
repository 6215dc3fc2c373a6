"""Campaigns of faults and hostile files: `python -m benchmarks.trust`."""
