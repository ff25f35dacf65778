"""Data sets: the real one where it is there, and a clear word where it is not.

The only part of the library that reads files or the network.
"""
