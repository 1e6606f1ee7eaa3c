from keeper_fixtures import empty_store, keeper, root, store, top

__all__ = ["empty_store", "keeper", "root", "store", "top"]
