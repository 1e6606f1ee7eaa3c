"""The keeper: one store, its catalogue and the cache roots, as the operations see them."""
