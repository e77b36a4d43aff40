"""Measured search: candidates are built, checked and timed, and the fastest is stored in the cache.

candidates     the candidates for a kernel
measurable     whether this machine can measure them
trials         candidates compiled, equal programs once
worker_client  a process of its own in which candidates run (`worker`)
trial_runs     trials run in that process: checked, then timed
racing         alternating measurements, slow candidates cut short
intervals      what samples say of two candidates, whatever the noise
tuning_store   earlier results: their key, storing and finding them
search         the whole search
result         its result
evolution      schedules near those that were measured
database       a database of all that was measured, in a file or on a server
"""
