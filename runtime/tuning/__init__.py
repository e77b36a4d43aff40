"""Measured search: candidates are built, checked and timed, and the fastest is kept in the cache.

candidates     what is worth a try
trials         candidates compiled, those that are alike once
worker_client  a process of its own in which candidates run (`worker`)
racing         timing in turns, slow ones cut short
tuning_store   what was found before: its key, storing and finding it
search         all together
result         what it says
"""
