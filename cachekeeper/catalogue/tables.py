"""The tables. `migrations/versions` makes them; a test finds no difference between the two.

Rows carry the id of their store, and indexes start with it. The same families stand in snapshot
after snapshot, so a family with its content is one row of `family`, and `holding` says which
records hold it.
"""

import sqlalchemy as sa

METADATA = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _text(name: str) -> "sa.Column[str]":
    return sa.Column(name, sa.Text, nullable=False)


def _number(name: str) -> "sa.Column[int]":
    return sa.Column(name, sa.BigInteger, nullable=False)


def _record_id() -> "sa.Column[int]":
    return sa.Column("record_id", sa.ForeignKey("record.id"), primary_key=True)


def _position() -> "sa.Column[int]":
    return sa.Column("position", sa.Integer, primary_key=True)


RECORD = sa.Table(
    "record",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    _text("store_id"),
    _text("digest"),
    _number("sequence"),
    _text("at"),
    _text("kind"),
    _text("subject"),
    _text("detail"),
    sa.Column("root", sa.Text),
    _text("reason"),
    sa.UniqueConstraint("store_id", "digest"),
    sa.Index(None, "store_id", "sequence"),
)

SNAPSHOT = sa.Table(
    "snapshot",
    METADATA,
    _record_id(),
    _text("store_id"),
    _text("message"),
    _number("bytes"),
    _number("families"),
)

FAMILY = sa.Table(
    "family",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    _text("store_id"),
    _text("build"),
    _text("attributes"),
    _text("root"),
    _text("kind"),
    _text("key"),
    _text("path"),
    _number("files"),
    _number("bytes"),
    # build first: the constraint's index also answers builds_by_prefix
    sa.UniqueConstraint(
        "store_id", "build", "attributes", "root", "kind", "key", "path", "files", "bytes"
    ),
    sa.Index(None, "store_id", "key"),
)

HOLDING = sa.Table(
    "holding",
    METADATA,
    _record_id(),
    _position(),
    sa.Column("family_id", sa.ForeignKey("family.id"), nullable=False),
    sa.Index(None, "family_id"),
)

LINK = sa.Table(
    "link",
    METADATA,
    _record_id(),
    _position(),
    _text("store_id"),
    _text("root"),
    _text("aot"),
    _text("compile"),
    _text("source"),
    _text("detail"),
    sa.Index(None, "store_id", "aot"),
)

PIN = sa.Table(
    "pin",
    METADATA,
    _record_id(),
    _text("store_id"),
    _text("name"),
    _text("key"),
    _text("root"),
    _text("status"),
    sa.Column("settled", sa.Boolean, nullable=False),
    _text("snapshot"),
    sa.Index(None, "store_id", "name"),
)

UNPIN = sa.Table(
    "unpin",
    METADATA,
    _record_id(),
    _text("store_id"),
    _text("pin"),
    sa.Index(None, "store_id", "pin"),
)

STATUS = sa.Table(
    "status",
    METADATA,
    _record_id(),
    _text("store_id"),
    _text("ref"),
    _text("target_kind"),
    _text("target"),
    _text("status"),
    sa.Column("previous", sa.Text),
    _text("evidence"),
    sa.Index(None, "store_id", "target"),
)

DAMAGED = sa.Table(
    "damaged",
    METADATA,
    sa.Column("store_id", sa.Text, primary_key=True),
    sa.Column("digest", sa.Text, primary_key=True),
    _text("kind"),
    _text("fact"),
)

REMEMBERED = sa.Table(
    "remembered",
    METADATA,
    sa.Column("store_id", sa.Text, primary_key=True),
    sa.Column("root", sa.Text, primary_key=True),
    sa.Column("family", sa.Text, primary_key=True),
    sa.Column("content", sa.LargeBinary, nullable=False),
)

FACTS = {table.name: table for table in (SNAPSHOT, LINK, PIN, UNPIN, STATUS)}
PARTS = (*FACTS.values(), HOLDING)  # rows that hang on a record
