"""Synthesis attribute by attribute, under constraints between rows."""
