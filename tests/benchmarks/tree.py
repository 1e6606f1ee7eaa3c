"""Make a cache root shaped like a real one of vLLM with tensor parallelism.

usage: tree.py ROOT [--files N] [--megabytes M] [--ranks R] [--seed S]

One unit: an AOT family with its shared `inductor_cache`, and the compile family that its handles
lead to. Few files per rank (models, standalone artifacts) hold most bytes, many small ones the
rest, as on the roots measured. The number of files is exact, the bytes are near what is asked.
The same arguments give the same bytes, apart from the root's own path inside handles.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import pprint
import random
import sys

import content

# What one rank of the measured TP4 root held; smaller roots get a share of their bytes instead.
_MODEL_BYTES = 7_146_252
_GRAPH_BYTES = 400_000
_ARTIFACT_BYTES = 16_920_000
_LOCKS = 4
_FIXED_PER_RANK = 4  # model, index, graph, key factors
_PER_ARTIFACT = 4  # artifact, aotautograd, fxgraph, wrapper
_SMALL_SHARE = 0.6  # of all bytes, at most, in the many small files

_KERNEL_TEXT = ("source", "ttir", "ttgir", "llir", "ptx")
_KERNEL_FILES = 10  # source, tuning record, five texts, binary, metadata, group
_KERNELS_PER_LIBRARY = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """How large a root is to be."""

    files: int = 4221
    megabytes: float = 1180.0
    ranks: int = 4
    seed: int = 1

    @property
    def total_bytes(self) -> int:
        return int(self.megabytes * 1e6)

    def per_rank(self, most: int, share: float) -> int:
        """Give the size of a file that each rank has once."""
        return min(most, max(4096, int(self.total_bytes * share / self.ranks)))

    @property
    def artifacts(self) -> int:
        """Count the standalone artifacts of one rank."""
        room = (self.files - _LOCKS) // self.ranks - _FIXED_PER_RANK
        wanted = round(self.total_bytes * 0.8 / _ARTIFACT_BYTES / self.ranks)
        return max(1, min(wanted, room // _PER_ARTIFACT // 2))


class Writer:
    """Writes files below one root and counts them."""

    def __init__(self, root: str, shape: Shape) -> None:
        self.root = os.path.abspath(root)
        self.shape = shape
        self.rng = random.Random(shape.seed)
        self.files = 0
        self.bytes = 0
        self.handle_bytes = 0  # spent on the root's own path: sizes must not depend on it
        seed = str(shape.seed).encode()
        self.aot = f"torch_compile_cache/torch_aot_compile/{hashlib.sha256(seed).hexdigest()}"
        self.key = hashlib.sha256(b"compile" + seed).hexdigest()[:10]
        self.inductor = f"{self.aot}/inductor_cache"

    def put(self, path: str, data: bytes, mode: int = 0o644) -> None:
        where = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(where), exist_ok=True)
        with open(where, "wb") as file:
            file.write(data)
        os.chmod(where, mode)
        self.files += 1
        self.bytes += len(data)

    def put_python(self, text: bytes) -> str:
        """Write Inductor output code under the name of its content; give its directory's name."""
        name = "c" + content.short_digest(text.strip())
        self.put(f"{self.inductor}/{name[1:3]}/{name}.py", text)
        return name[1:3]


def _kernel_sizes(writer: Writer) -> list[int]:
    """Draw the sizes of the small files and shrink them where they would outgrow their share."""
    shape = writer.shape
    per_rank = _FIXED_PER_RANK + _PER_ARTIFACT * shape.artifacts
    count = shape.files - _LOCKS - shape.ranks * per_rank
    sizes = []
    for _ in range(max(0, count)):
        luck = writer.rng.random()
        low, high = (300, 6000) if luck < 0.55 else (8000, 60_000)
        sizes.append(writer.rng.randrange(*((100_000, 900_000) if luck > 0.93 else (low, high))))
    scale = min(1.0, shape.total_bytes * _SMALL_SHARE / max(1, sum(sizes)))
    return [max(300, int(size * scale)) for size in sizes]


def _put_kernel(writer: Writer, sizes: list[int]) -> None:
    """Write one Triton kernel: ten files, of which five share the sizes as text."""
    rng = writer.rng
    name = f"triton_red_fused_add_mul_rsqrt_{rng.randrange(100)}"
    kernel = content.short_digest(rng.randbytes(32)).upper() + "A"
    shard = writer.put_python(content.python_text(rng, sizes[0]))
    record = content.tuning_record(rng, kernel)
    writer.put(f"{writer.inductor}/{shard}/{rng.randbytes(32).hex()}.best_config", record)
    here = f"{writer.inductor}/triton/0/{kernel}"
    for suffix, size in zip(_KERNEL_TEXT, sizes[2:7], strict=True):
        writer.put(f"{here}/{name}.{suffix}", content.python_text(rng, size))
    writer.put(f"{here}/{name}.cubin", content.elf(rng, sizes[7], content.MACHINE_CUDA))
    about = {"name": name, "num_warps": 4, "target": {"backend": "cuda", "arch": 90}}
    writer.put(f"{here}/{name}.json", json.dumps(about).encode())
    children = [f"{name}.{suffix}" for suffix in (*_KERNEL_TEXT, "cubin", "json")]
    paths = {child: f"{writer.root}/{here}/{child}" for child in children}
    writer.put(f"{here}/__grp__{name}.json", json.dumps({"child_paths": paths}).encode())
    writer.handle_bytes += len(children) * len(writer.root)


def _put_library(writer: Writer, size: int) -> None:
    directory = content.short_digest(writer.rng.randbytes(32)).upper() + "A"
    path = f"{writer.inductor}/triton/0/{directory}/__triton_launcher.so"
    writer.put(path, content.elf(writer.rng, size, content.MACHINE_X86_64), 0o755)


def _put_small_files(writer: Writer) -> None:
    """Write kernels of ten files, some libraries between them, and libraries for the remainder."""
    sizes = sorted(_kernel_sizes(writer))
    group = _KERNEL_FILES + _KERNELS_PER_LIBRARY
    kernels = len(sizes) // group
    libraries = sizes[kernels * _KERNEL_FILES :]  # the largest ones
    small = sizes[: kernels * _KERNEL_FILES]
    writer.rng.shuffle(small)
    for start in range(0, len(small), _KERNEL_FILES):
        _put_kernel(writer, small[start : start + _KERNEL_FILES])
    for size in libraries:
        _put_library(writer, size)


def _companions(size: int) -> tuple[int, int, int]:
    """Give the sizes of the loose entries and the wrapper that go with an artifact of `size`."""
    return min(80_000, size // 4), min(2_000_000, size // 4), min(60_000, max(400, size // 16))


def _artifact_bytes(room: int) -> int:
    """Find the largest artifact that fits into `room` bytes together with its companions."""
    low, high = 2000, max(2000, room)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (
            (middle, high) if middle + sum(_companions(middle)) <= room else (low, middle - 1)
        )
    return low


def _put_artifact(writer: Writer, path: str, size: int) -> str:
    """Write a standalone artifact with the loose entries it bundles; give its cache key."""
    rng = writer.rng
    key = "a" + content.short_digest(rng.randbytes(32))
    graph_key = "f" + content.short_digest(rng.randbytes(32))
    loose_bytes, graph_bytes, wrapper_bytes = _companions(size)
    loose = content.cached_graph(rng, key, loose_bytes)
    graph = content.cached_graph(rng, graph_key, graph_bytes)
    where = f"{writer.inductor}/aotautograd/{key}"
    writer.put(f"{where}/{content.short_digest(loose)}", loose)
    where = f"{writer.inductor}/fxgraph/{graph_key[1:3]}/{graph_key}"
    writer.put(f"{where}/{content.short_digest(graph)}", graph)
    shard = writer.put_python(content.python_text(rng, wrapper_bytes))
    record = content.tuning_record(rng, key.upper())
    rest = content.machine_code(rng, max(16, size - len(loose) - len(graph)))
    entries = {
        "autotune": (f"{shard}/{rng.randbytes(32).hex()}.best_config", record),
        "inductor": (graph_key, graph + rest),
        "aot_autograd": (key, loose),
    }
    writer.put(path, content.artifact(key, entries))
    return key


def _put_rank(writer: Writer, rank: int, artifact_bytes: int) -> None:
    """Write what one rank has of its own."""
    shape, rng = writer.shape, writer.rng
    model = content.model(rng, rank, shape.per_rank(_MODEL_BYTES, 0.1))
    writer.put(f"{writer.aot}/rank_{rank}_0/model", model, 0o600)
    here = f"torch_compile_cache/{writer.key}/rank_{rank}_0/backbone"
    graph = content.graph_text(rng, shape.per_rank(_GRAPH_BYTES, 0.02))
    writer.put(f"{here}/computation_graph.py", graph)
    writer.put(f"{here}/cache_key_factors.json", content.key_factors(rng, writer.key))
    index = {}
    for number in range(shape.artifacts):
        name = f"artifact_compile_range_1_8192_subgraph_{number}"
        key = _put_artifact(writer, f"{here}/{name}", artifact_bytes)
        handle = (name, f"{writer.root}/{here}/{name}")
        index[((1, 8192), number, "inductor_standalone")] = {
            "cache_key": key,
            "graph_handle": handle,
        }
    writer.put(f"{here}/vllm_compile_cache.py", pprint.pformat(index).encode())


def make_tree(root: str, shape: Shape) -> tuple[int, int]:
    """Make the root, which must be empty or absent; give its files and bytes."""
    if os.path.isdir(root) and os.listdir(root):
        raise SystemExit(f"{root} is not empty")
    writer = Writer(root, shape)
    for _ in range(_LOCKS):
        name = content.short_digest(writer.rng.randbytes(32))
        writer.put(f"{writer.inductor}/locks/{name}.lock", b"")
    _put_small_files(writer)
    own = shape.per_rank(_MODEL_BYTES, 0.1) + shape.per_rank(_GRAPH_BYTES, 0.02)
    rest = shape.total_bytes - (writer.bytes - writer.handle_bytes) - shape.ranks * own
    artifact_bytes = _artifact_bytes(int(rest / shape.ranks / shape.artifacts))
    for rank in range(shape.ranks):
        _put_rank(writer, rank, artifact_bytes)
    return writer.files, writer.bytes


def main(arguments: list[str]) -> None:
    """Make a tree and say how large it became."""
    default = Shape()
    parser = argparse.ArgumentParser(description="Make a cache root shaped like a real vLLM one.")
    parser.add_argument("root")
    parser.add_argument("--files", type=int, default=default.files)
    parser.add_argument("--megabytes", type=float, default=default.megabytes)
    parser.add_argument("--ranks", type=int, default=default.ranks)
    parser.add_argument("--seed", type=int, default=default.seed)
    options = parser.parse_args(arguments)
    shape = Shape(options.files, options.megabytes, options.ranks, options.seed)
    files, size = make_tree(options.root, shape)
    print(json.dumps({"root": os.path.abspath(options.root), "files": files, "bytes": size}))


if __name__ == "__main__":
    main(sys.argv[1:])
