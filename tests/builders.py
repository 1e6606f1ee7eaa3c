"""Small synthetic vLLM roots, what vLLM does to them, and a look at trees of our own.

Nothing here uses cachekeeper: what a test believes of the disk must not come from what it tests.
"""

import hashlib
import os
import pickle
import shutil
import stat
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from blake3 import blake3

COMPILE = b"torch_compile_cache"
AOT = COMPILE + b"/torch_aot_compile"
WORKING = b".cachekeeper-"
_BASE_NS = 1_790_000_000_123_456_789  # September 2026: old enough for every racy rule
_STEP_NS = 1_000_000_007


@dataclass(frozen=True)
class Unit:
    """One unit of a root: the keys of its aot family and its partner, and how it is built.

    A lean one has no Triton and FX entries: each file costs a crash test a dozen of its steps.
    """

    aot: str
    partner: str
    ranks: int
    mega: bool = False
    lean: bool = False

    @property
    def aot_path(self) -> bytes:
        return AOT + b"/" + self.aot.encode()

    @property
    def partner_path(self) -> bytes:
        return COMPILE + b"/" + self.partner.encode()

    @property
    def paths(self) -> tuple[bytes, bytes]:
        return self.aot_path, self.partner_path


@dataclass(frozen=True)
class Node:
    """One entry of a tree: kind (`d`, `f`, `l`), how it stands, and its bytes or link target."""

    kind: str
    mode: int
    uid: int
    gid: int
    mtime_ns: int
    content: bytes = b""

    def __repr__(self) -> str:
        how = f"{self.kind} {self.mode:o} {self.uid}:{self.gid} {self.mtime_ns}"
        return f"{how} {digest(self.content)[:8]}"


Tree = dict[bytes, Node]


class Clock:
    """Gives each written file its own time, in nanoseconds, long ago."""

    def __init__(self, start_ns: int = _BASE_NS) -> None:
        self.now_ns = start_ns

    def tick(self) -> int:
        self.now_ns += _STEP_NS
        return self.now_ns


def sha(label: str) -> str:
    return hashlib.sha256(label.encode()).hexdigest()


def digest(data: bytes) -> str:
    return blake3(data).hexdigest()


def unit_of(label: str, ranks: int = 2, *, mega: bool = False, lean: bool = False) -> Unit:
    """Return the unit of a label; the same label gives the same keys."""
    return Unit(sha(f"aot {label}"), sha(f"compile {label}")[:10], ranks, mega, lean)


def default_root(root: bytes, *, lean: bool = False) -> tuple[Unit, Unit]:
    """Build a root with a TP2 unit, a mega unit and two companions; returns both units."""
    clock = Clock()
    first = build_unit(root, unit_of("first", lean=lean), "v1", clock)
    second = build_unit(root, unit_of("second", 1, mega=True, lean=lean), "v1", clock)
    write(root + b"/modelinfos/llama-LlamaForCausalLM.json", b'{"hash": "1"}', clock.tick())
    write(root + b"/gpu_p2p_access_cache_for_0,1.json", b'{"0->1": true}', clock.tick())
    settle_directories(root, clock)
    return first, second


def build_unit(root: bytes, unit: Unit, content: str, clock: Clock) -> Unit:
    """Write both families of a unit as a cold start does, the partner's graph before the model."""
    for rank in range(unit.ranks):
        _write_partner(root, unit, rank, content, clock)
    cache = root + b"/" + unit.aot_path + b"/inductor_cache"
    seed = f"{unit.aot} {content}"
    write(cache + b"/ab/cabkernel.py", f"# {seed}\n".encode() * 9, clock.tick())
    write(cache + b"/ab/kernel.best_config", best_config(4), clock.tick())
    for key in cache_keys(unit):
        name = sha(f"{key} {content}")[:20].encode()
        data = pickle.dumps((key, content))
        write(cache + b"/aotautograd/" + key.encode() + b"/" + name, data, clock.tick())
    if not unit.lean:
        binary = f"\x7fELF {seed}".encode() * 5
        write(cache + b"/triton/0/K1/kernel.cubin", binary, clock.tick(), 0o755)
        write(cache + b"/triton/0/K1/kernel.json", b'{"num_warps": 4}', clock.tick())
        write(cache + b"/fxgraph/fa/fakey/" + sha(seed)[:20].encode(), b"fx", clock.tick())
    write(cache + b"/locks/kernel.lock", b"", clock.tick())
    link(cache + b"/ab/newest.py", b"cabkernel.py", clock.tick())
    for rank in range(unit.ranks):
        write(model_path(root, unit, rank), model(unit, rank, content), clock.tick(), 0o600)
    return unit


def _write_partner(root: bytes, unit: Unit, rank: int, content: str, clock: Clock) -> None:
    top = part_path(root, unit, rank)
    if not unit.lean:
        write(top + b"/cache_key_factors.json", b'{"env": {}}', clock.tick())
    if not unit.mega:
        write(
            top + b"/" + artifact_name(0),
            artifact(f"{unit.partner} {rank} {content}"),
            clock.tick(),
        )
        write(top + b"/vllm_compile_cache.py", index(root, unit, rank), clock.tick())
    write(top + b"/computation_graph.py", f"# graph {rank} {content}\n".encode(), clock.tick())


def part_path(root: bytes, unit: Unit, rank: int) -> bytes:
    return root + b"/" + unit.partner_path + b"/rank_%d_0/backbone" % rank


def model_path(root: bytes, unit: Unit, rank: int) -> bytes:
    return root + b"/" + unit.aot_path + b"/rank_%d_0/model" % rank


def artifact_name(subgraph: int) -> bytes:
    return b"artifact_compile_range_1_16384_subgraph_%d" % subgraph


def cache_keys(unit: Unit) -> tuple[str, ...]:
    """Return the AOTAutograd keys of a unit: directories here, cache_key in the partner's index."""
    return tuple("a" + sha(f"autograd {unit.aot} {number}")[:30] for number in range(1))


def model(unit: Unit, rank: int, content: str) -> bytes:
    """Return a real pickle as vLLM saves one a rank."""
    nested = pickle.dumps({"source": f"def forward(): return {content!r}"})
    return pickle.dumps({"aot": unit.aot, "rank": rank, "code": nested}, protocol=4)


def artifact(seed: str) -> bytes:
    """Return a binary artifact with the checksum that its head names."""
    magic = b"CacheCompiledArtifact"
    body = len(magic).to_bytes(8, "big") + magic + seed.encode() * 7
    return zlib.crc32(body).to_bytes(4, "big") + body


def index(root: bytes, unit: Unit, rank: int) -> bytes:
    """Return `vllm_compile_cache.py`: handles with absolute paths of this root."""
    handles = {
        ((1, 16384), number, "inductor_standalone"): {
            "graph_handle": (
                artifact_name(0).decode(),
                os.fsdecode(part_path(root, unit, rank) + b"/" + artifact_name(0)),
            ),
            "cache_key": key,
        }
        for number, key in enumerate(cache_keys(unit))
    }
    return repr(handles).encode()


def best_config(warps: int, took: float = 0.25) -> bytes:
    return f'{{"XBLOCK": 64, "num_warps": {warps}, "time_taken_ms": {took}}}'.encode()


def rebuild(root: bytes, unit: Unit, content: str, clock: Clock) -> Unit:
    """Do what vLLM does after a source edit: replace each model, add a new 10-hex family."""
    fresh = replace(unit, partner=sha(f"{unit.partner} {content}")[:10])
    for rank in range(unit.ranks):
        _write_partner(root, fresh, rank, content, clock)
    replace_models(root, unit, content, clock)
    return fresh


def replace_models(root: bytes, unit: Unit, content: str, clock: Clock) -> None:
    """Write `model.<pid>.tmp` and rename it over `model`, rank by rank, as vLLM does."""
    for rank in range(unit.ranks):
        target = model_path(root, unit, rank)
        write(target + b".4711.tmp", model(unit, rank, content), clock.tick(), 0o600)
        os.replace(target + b".4711.tmp", target)


def overwrite_unit(root: bytes, unit: Unit, content: str, clock: Clock) -> None:
    """Change both families under their names, and leave extra files and a temporary one."""
    replace_models(root, unit, content, clock)
    cache = root + b"/" + unit.aot_path + b"/inductor_cache"
    write(cache + b"/zz/czzextra.py", f"# extra {content}".encode(), clock.tick())
    write(root + b"/" + unit.aot_path + b"/rank_0_0/model.815.tmp", b"half", clock.tick(), 0o600)
    for rank in range(unit.ranks):
        top = part_path(root, unit, rank)
        write(top + b"/computation_graph.py", f"# {rank} {content}".encode(), clock.tick())
        if not unit.mega:
            data = artifact(f"{unit.partner} {rank} {content}")
            write(top + b"/" + artifact_name(0), data, clock.tick())


def warm_load(root: bytes, unit: Unit, took: float, clock: Clock) -> None:
    """Do what every warm load does: put the bundled tuning record over the loose one."""
    path = root + b"/" + unit.aot_path + b"/inductor_cache/ab/kernel.best_config"
    write(path + b".tmp0", best_config(8, took), clock.tick())
    os.replace(path + b".tmp0", path)


def write(path: bytes, data: bytes, mtime_ns: int, mode: int = 0o644) -> None:
    """Write a whole file with a time and a mode; an existing one is written in place."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)
    os.utime(path, ns=(mtime_ns, mtime_ns))


def read(path: bytes) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def link(path: bytes, target: bytes, mtime_ns: int) -> None:
    os.symlink(target, path)
    os.utime(path, ns=(mtime_ns, mtime_ns), follow_symlinks=False)


def settle_directories(root: bytes, clock: Clock) -> None:
    """Give every directory a time of its own, so that a restore that forgets one is seen."""
    for top, _directories, _files in sorted(os.walk(root, topdown=False)):
        os.utime(top, ns=(clock.tick(), clock.now_ns))


def tree_of(top: bytes) -> Tree:
    """Return everything below `top`, itself under the empty path; an absent tree is empty."""
    return dict(_nodes(top, b""))


def _nodes(path: bytes, relative: bytes) -> Iterator[tuple[bytes, Node]]:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    how = (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, status.st_mtime_ns)
    if stat.S_ISLNK(status.st_mode):
        yield relative, Node("l", *how, os.readlink(path))
    elif stat.S_ISDIR(status.st_mode):
        yield relative, Node("d", *how)
        for name in sorted(os.listdir(path)):
            yield from _nodes(path + b"/" + name, relative + b"/" + name if relative else name)
    else:
        yield relative, Node("f", *how, read(path))


def families_of(root: bytes) -> dict[bytes, Tree]:
    """Return the tree of each family and companion of a root by its path in the root."""
    places = [
        path
        for parent, inside in ((b"", COMPILE), (COMPILE, AOT), (AOT, b""))
        for path in _children(root, parent)
        if path != inside and not path.startswith(WORKING)
    ]
    return {path: tree_of(root + b"/" + path) for path in places}


def _children(root: bytes, parent: bytes) -> list[bytes]:
    top = root + b"/" + parent if parent else root
    try:
        names = sorted(os.listdir(top))
    except FileNotFoundError:
        return []
    return [parent + b"/" + name if parent else name for name in names]


def content_of(tree: Tree) -> dict[bytes, bytes]:
    """Return only bytes and link targets by path, directories apart."""
    return {path: node.content for path, node in tree.items() if node.kind != "d"}


def digests_of(trees: Iterable[Tree]) -> set[str]:
    """Return the digest of every file and link target in some trees."""
    return {digest(data) for tree in trees for data in content_of(tree).values()}


def working_litter(root: bytes) -> list[bytes]:
    """Return what a restore left in a root."""
    return sorted(name for name in os.listdir(root) if name.startswith(WORKING))


def stored_digests(store: bytes) -> set[str]:
    """Return the digest of every object whose bytes are what its name says."""
    found = set()
    for top, _directories, names in os.walk(store + b"/objects"):
        for name in names:
            data = read(top + b"/" + name)
            if (os.path.basename(top) + name).decode() == digest(data):
                found.add(digest(data))
    return found


def store_litter(store: bytes) -> list[bytes]:
    """Return what lies in a store's `tmp`."""
    return sorted(os.listdir(store + b"/tmp"))


def copy_tree(source: bytes, target: bytes) -> None:
    """Put an exact copy of a tree in place of whatever stands at `target`."""
    remove_tree(target)
    if os.path.lexists(source):
        shutil.copytree(source, target, symlinks=True)


def give_tree(path: bytes, uid: int) -> None:
    """Make a tree another user's, times kept."""
    for top, directories, files in os.walk(path):
        for name in (b".", *directories, *files):
            os.chown(top + b"/" + name, uid, uid, follow_symlinks=False)


def remove_tree(path: bytes) -> None:
    if os.path.lexists(path):
        shutil.rmtree(path)
