"""Differential privacy for tables with missing values."""
