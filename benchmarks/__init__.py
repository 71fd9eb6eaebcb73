"""Side-by-side benchmarks of Sulina and other messaging systems, on one machine, in one run.

``python -m benchmarks`` runs them; README.md explains what is measured and how to read it.
"""
