"""Benchmarks: suites of cases that time softcuda and its peers in one run."""
