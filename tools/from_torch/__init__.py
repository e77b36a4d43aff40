"""Tuning tasks from the graph of a PyTorch model, for `andiron tasks --from-torch`.

load_model      MODULE of the command line -> an exported program                  needs PyTorch
read_graph      an exported program -> nodes; a node -> its parts in core ATen      needs PyTorch
graph           nodes, as plain data
table           which op of the library computes an operator of ATen: extend this
rule, operands  what the rows of the table consist of
match           a node -> an op of the library with its sizes, or the reason why not
expand          nodes that stand for several others: cells of recurrent layers, biases
collect         nodes -> tasks with their numbers of calls, and what is not served
task_text       the file for `andiron tune --tasks`
"""
