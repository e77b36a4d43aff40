"""Measured search: candidates are built, checked and timed, and the fastest is kept in the cache.

kept    what was found before: its key, storing and finding it       proposals  what is worth a try
bench   a process of its own in which candidates run (`worker`)      rounds     timing in turns, slow ones cut short
search  all together                                                 result     what it says
"""
