"""Datasets, suites, metrics, statistics, results."""
