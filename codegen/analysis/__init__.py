"""Analyses of tile programs and index expressions: figures that several passes read. No file here changes a program."""
