"""Tuning on workers of an executor or a cluster: tasks as text and numbers, whose parts run anywhere.

task           a task, and the version that it is of
candidates     its candidates as they travel
remote_tasks   what workers do
engine         what runs them: `executor_engine`, `dask_engine`; `open_engine` chooses
dispatcher     gives work to an engine, and what was lost again
task_run       one task on its way
patient_database  waits for a server that is started again
campaign       many tasks, with one database
tune_remotely  `Kernel.tune` with an executor
task_file      tasks in a file
"""
