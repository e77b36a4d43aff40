"""Passes over the keys of rows, such as attention: by instructions or by lanes, and the choice beside launches apart."""
