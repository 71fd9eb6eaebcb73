"""How cost grows with the work: CPU and memory per unit, connections, history, lookups."""
