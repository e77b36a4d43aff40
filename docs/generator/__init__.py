"""Makers of the pages that come from the code, a file for each page or group of pages. `docs/generate.py` writes them."""
