"""What makes the pages of the docs from the code, a file each. `docs/generate.py` writes them."""
