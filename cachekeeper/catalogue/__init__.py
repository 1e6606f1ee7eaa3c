"""The catalogue: an SQLite index of the store's records, for questions that many records answer.

Records are the truth; every row here is made from them again when it is missing, and the file may
be deleted at any time. A killed process leaves the last committed index, which the next question
catches up; processes that ask at the same time wait for each other. Only this package writes it.

Importing `cachekeeper.catalogue.catalogue` is cheap: SQLAlchemy comes with the first question,
Alembic only where a file has to be made or migrated.
"""
