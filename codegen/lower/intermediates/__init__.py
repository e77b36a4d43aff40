"""Intermediates that are made inside the nest of what reads them: who reads which elements, in which memory, with which rim."""
