"""An estimate of what a stack costs per month."""
