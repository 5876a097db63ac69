"""Graphical models on discrete domains: exact inference, and learning from noisy marginals."""
