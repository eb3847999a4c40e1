"""`vgi report`: what a fit did, looked at and judged."""
