"""Analyses of several filled tables combined into one: Rubin's rules, as pure functions of numpy arrays."""
