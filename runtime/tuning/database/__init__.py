"""A database of measurements: what was timed, where, with which result. Rows are added, and never changed.

measurement    `Task` and `Measurement`: the rows
describe       the task of a request to `compile`, and the machine that measures
schema         the tables, and the steps from older forms to today's
sqlite_file    a database in a file
url_engine     a database on a server, by URL
database       `Database`: adding and finding
open_database  the database of a path or a URL
"""
