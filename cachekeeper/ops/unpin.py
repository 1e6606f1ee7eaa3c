"""unpin: a pin is no more; its bytes stay until garbage collection."""

from cachekeeper.catalogue.rows import PinRow
from cachekeeper.core.errors import UnknownReferenceError
from cachekeeper.core.record import Record
from cachekeeper.core.references import nearest_hint
from cachekeeper.keeper.keeper import Keeper


def plan_unpin(keeper: Keeper, name: str) -> PinRow:
    """Return the pin with exactly this name; raises UnknownReferenceError."""
    pin = keeper.catalogue.pin_named(name)
    if pin is None:
        names = [row.name for row in keeper.catalogue.pins()]
        hint = nearest_hint(name, names, "cachekeeper pins lists them")
        raise UnknownReferenceError(f"no pin is named {name!r}", hint)
    return pin


def execute_unpin(keeper: Keeper, pin: PinRow) -> Record:
    """Record that a pin is no more; its bytes stay until garbage collection."""
    store = keeper.store
    with store.in_use(timeout_s=keeper.settings.lock_timeout_s):
        return store.records.append("unpin", {"name": pin.name, "pin": pin.digest})
