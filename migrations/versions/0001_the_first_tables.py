"""the first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _records()
    _families()
    _snapshots()
    _pins()
    _statuses()
    _beside_records()


def _records() -> None:
    op.create_table(
        "record",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("store_id", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("root", sa.Text),
        sa.Column("reason", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_record"),
        sa.UniqueConstraint("store_id", "digest", name="uq_record"),
    )
    op.create_index("ix_record_store_id_sequence", "record", ["store_id", "sequence"])


def _families() -> None:
    content = ("build", "attributes", "root", "kind", "key", "path")
    op.create_table(
        "family",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("store_id", sa.Text, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in content),
        sa.Column("files", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_family"),
        sa.UniqueConstraint("store_id", *content, "files", "bytes", name="uq_family"),
    )
    op.create_index("ix_family_store_id_key", "family", ["store_id", "key"])
    op.create_table(
        "holding",
        sa.Column("record_id", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("family_id", sa.Integer, nullable=False),
        sa.ForeignKeyConstraint(["record_id"], ["record.id"], name="fk_holding_record_id"),
        sa.ForeignKeyConstraint(["family_id"], ["family.id"], name="fk_holding_family_id"),
        sa.PrimaryKeyConstraint("record_id", "position", name="pk_holding"),
    )
    op.create_index("ix_holding_family_id", "holding", ["family_id"])


def _snapshots() -> None:
    op.create_table(
        "snapshot",
        sa.Column("record_id", sa.Integer, nullable=False),
        sa.Column("store_id", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("families", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["record_id"], ["record.id"], name="fk_snapshot_record_id"),
        sa.PrimaryKeyConstraint("record_id", name="pk_snapshot"),
    )
    op.create_table(
        "link",
        sa.Column("record_id", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("store_id", sa.Text, nullable=False),
        sa.Column("root", sa.Text, nullable=False),
        sa.Column("aot", sa.Text, nullable=False),
        sa.Column("compile", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["record_id"], ["record.id"], name="fk_link_record_id"),
        sa.PrimaryKeyConstraint("record_id", "position", name="pk_link"),
    )
    op.create_index("ix_link_store_id_aot", "link", ["store_id", "aot"])


def _pins() -> None:
    op.create_table(
        "pin",
        sa.Column("record_id", sa.Integer, nullable=False),
        sa.Column("store_id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("root", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("settled", sa.Boolean, nullable=False),
        sa.Column("snapshot", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["record_id"], ["record.id"], name="fk_pin_record_id"),
        sa.PrimaryKeyConstraint("record_id", name="pk_pin"),
    )
    op.create_index("ix_pin_store_id_name", "pin", ["store_id", "name"])
    op.create_table(
        "unpin",
        sa.Column("record_id", sa.Integer, nullable=False),
        sa.Column("store_id", sa.Text, nullable=False),
        sa.Column("pin", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["record_id"], ["record.id"], name="fk_unpin_record_id"),
        sa.PrimaryKeyConstraint("record_id", name="pk_unpin"),
    )
    op.create_index("ix_unpin_store_id_pin", "unpin", ["store_id", "pin"])


def _statuses() -> None:
    op.create_table(
        "status",
        sa.Column("record_id", sa.Integer, nullable=False),
        sa.Column("store_id", sa.Text, nullable=False),
        sa.Column("ref", sa.Text, nullable=False),
        sa.Column("target_kind", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("previous", sa.Text),
        sa.Column("evidence", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(["record_id"], ["record.id"], name="fk_status_record_id"),
        sa.PrimaryKeyConstraint("record_id", name="pk_status"),
    )
    op.create_index("ix_status_store_id_target", "status", ["store_id", "target"])


def _beside_records() -> None:
    op.create_table(
        "damaged",
        sa.Column("store_id", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("fact", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("store_id", "digest", name="pk_damaged"),
    )
    op.create_table(
        "remembered",
        sa.Column("store_id", sa.Text, nullable=False),
        sa.Column("root", sa.Text, nullable=False),
        sa.Column("family", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("store_id", "root", "family", name="pk_remembered"),
    )


def downgrade() -> None:
    """Never needed: an older cachekeeper moves the catalogue aside and makes its own."""
