"""A cost model that learns from a database of measurements to correct the closed form, and ranks candidates by it.

walk_program       the loops of a tile program, with how often each statement is executed
cache_traffic      bytes that a cache fetches in these loops
features           a program as numbers
schedule_features  those of a schedule, and what the closed form predicts for it; kept in the cache
training_set       the rows of a database with features and times
trees              gradient-boosted trees
figures            how well an order of candidates fits their times
train_model        trees for a kind of machine, compared with the closed form on ops that they have not seen
train_database     models for all kinds of machines of a database
model_store        `LearnedModel`, and the table that it is in
ranker             `ranker_for`: candidates by a model, where one may be used
order_candidates   candidates that are not compiled yet by a model, for workers
"""
