"""The documentation site: `make docs` builds it from README.md, docs/ and the docstrings, without a network.

navigation      the pages of the site, and the files that they are made from
stage           copies the pages into one folder, and rewrites links and formulas
formulas        TeX to MathML, so that pages need no script
reference       pages of the API reference
docstrings      makes examples and names in docstrings readable for mkdocstrings
notebooks       reads and executes the tutorials, and writes their pages
play            pages on which a person plays a shipped policy
build           runs all of it
"""
