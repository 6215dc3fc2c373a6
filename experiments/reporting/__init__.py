"""The report of all finished experiments (`page`) and the verdicts on the paper's claims (`claims`, `ledger`).

All numbers are read when a page is written: from summaries of finished experiments and studies, the history of the
benchmarks, and docs/results for experiments that were not run here. Only the paper's quotes are typed in.
"""
