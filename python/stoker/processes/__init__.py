"""Data sets that are Python objects: worker processes prepare their batches (README.md)."""
