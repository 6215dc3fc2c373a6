"""One page about everything that was run (`page`), and what came of the paper's claims (`claims`, `ledger`).

Everything is read when the page is written: summaries of finished experiments and studies, the history of the
benchmarks, and for what was not run here the numbers that docs/results/ holds. Only the paper's words are typed in.
"""
