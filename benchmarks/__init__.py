"""Side-by-side measurements of Sulina and of other messaging systems, on one machine, in one run.

``python -m benchmarks`` runs them; README.md says what is measured and how to read it.
"""
