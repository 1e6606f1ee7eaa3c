"""The bytes of one file each: what vLLM, Inductor and Triton write, in shape and not in meaning.

Everything is well-formed, so that a reader of real caches can read these too: pickles hold plain
values only, Python text parses, records are JSON, containers carry right checksums, binaries are
ELF files with a code section. Text compresses well and machine code badly, as on real roots.
Nothing here touches the disk; the same generator state gives the same bytes.
"""

import base64
import hashlib
import json
import pickle
import random
import struct
import zlib

_BLOCK = 64 * 1024
_ELF_HEADER = struct.Struct("<4sBBBBB7xHHIQQQIHHHHHH")
_ELF_SECTION = struct.Struct("<IIQQQQIIQQ")
_SECTION_NAMES = b"\0.text\0.shstrtab\0"
MACHINE_CUDA = 190
MACHINE_X86_64 = 62
_OPERATIONS = ("aten.mm", "aten.add", "aten.mul", "aten.rsqrt", "aten.mean", "aten.view")


def short_digest(data: bytes) -> str:
    """Name content as torch does: SHA-256 in lower-case base 32, cut to 51 characters."""
    return base64.b32encode(hashlib.sha256(data).digest()).decode().lower()[:51]


def python_text(rng: random.Random, size: int) -> bytes:
    """Make generated-looking source of about `size` bytes that parses."""
    lines = ["import torch", ""]
    length = len("import torch\n\n")
    while length < size - 1:
        number, rows, warps = rng.randrange(10_000), rng.choice((64, 512, 1536)), rng.randrange(99)
        line = f"buf{number} = empty_strided_cuda((s72, {rows}), ({rows}, 1), torch.bfloat16)"
        if warps % 3 == 0:
            line = f"extern_kernels.mm(buf{number}, arg{warps}_1, out=buf{number + 1})"
        lines.append(line)
        length += len(line) + 1
    return ("\n".join(lines) + "\n").encode()


def graph_text(rng: random.Random, size: int) -> bytes:
    """Make a `computation_graph.py` of about `size` bytes: many calls, a collective among them."""
    head = "from __future__ import annotations\nimport torch\nclass GraphModule(torch.nn.Module):\n"
    lines = [head + '    def forward(self, s72: "Sym(s72)", arg0: "bf16[s72, 512]"):']
    length, number, last = len(lines[0]), 0, "arg0"
    while length < size - 40:
        operation = rng.choice(_OPERATIONS)
        line = f'        v{number}: "bf16[s72, 512]" = torch.ops.{operation}.default({last}, 2)'
        if number % 16 == 0:
            line = f'        v{number}: "f32[s72, 2]" = torch.ops.vllm.all_reduce({last}, "tp:0")'
        lines.append(line)
        length, number, last = length + len(line) + 1, number + 1, f"v{number}"
    return ("\n".join([*lines, f"        return ({last},)"]) + "\n").encode()


def machine_code(rng: random.Random, size: int) -> bytes:
    """Make `size` bytes that compress as badly as kernels do: noise, some text, some zeros."""
    pieces = []
    for start in range(0, size, _BLOCK):
        noise = rng.randbytes(min(size - start, _BLOCK * 3 // 4))
        text = b"st.global.b32 [%rd1], %r2; " * (_BLOCK // 8 // 27)
        pieces.append((noise + text).ljust(_BLOCK, b"\0"))
    return b"".join(pieces)[:size]


def elf(rng: random.Random, size: int, machine: int) -> bytes:
    """Make an ELF file of `size` bytes (at least about 300) with one code section."""
    overhead = _ELF_HEADER.size + len(_SECTION_NAMES) + 3 * _ELF_SECTION.size
    code = machine_code(rng, max(16, size - overhead))
    names_at = _ELF_HEADER.size + len(code)
    table_at = names_at + len(_SECTION_NAMES)
    header = _ELF_HEADER.pack(
        *(b"\x7fELF", 2, 1, 1, 0, 0, 2, machine, 1, 0, 0, table_at, 0),
        *(_ELF_HEADER.size, 0, 0, _ELF_SECTION.size, 3, 2),
    )
    sections = (
        bytes(_ELF_SECTION.size)
        + _ELF_SECTION.pack(1, 1, 6, 0, _ELF_HEADER.size, len(code), 0, 0, 1, 0)
        + _ELF_SECTION.pack(7, 3, 0, 0, names_at, len(_SECTION_NAMES), 0, 0, 1, 0)
    )
    return header + code + _SECTION_NAMES + sections


def model(rng: random.Random, rank: int, size: int) -> bytes:
    """Make an AOT `model`: a protocol 4 pickle, its last value the bulk of the bytes."""
    source = python_text(rng, min(3000, size // 4)).decode()
    value = {
        "system": {"python_version": "3.12.3", "torch_version": "2.11.0+cu130", "rank": rank},
        "sources": {"toy.model": source},
        "code": b"",
    }
    value["code"] = machine_code(rng, max(1, size - len(pickle.dumps(value, protocol=4))))
    return pickle.dumps(value, protocol=4)


def cached_graph(rng: random.Random, name: str, size: int) -> bytes:
    """Make an `fxgraph` or `aotautograd` entry: a protocol 4 pickle of plain values."""
    source = python_text(rng, size // 3).decode()
    blob = machine_code(rng, max(16, size - len(source) - 200))
    value = {"key": name, "source_code": source, "blob": blob}
    return pickle.dumps(value, protocol=4)


def tuning_record(rng: random.Random, kernel: str) -> bytes:
    """Make a `.best_config` record."""
    return json.dumps(
        {
            "XBLOCK": rng.choice((128, 256, 512, 1024)),
            "num_warps": rng.choice((2, 4, 8)),
            "num_stages": 1,
            "configs_hash": rng.randbytes(32).hex(),
            "found_by_coordesc": False,
            "time_taken_ms": rng.randrange(5, 60),
            "triton_cache_hash": kernel,
        },
    ).encode()


def key_factors(rng: random.Random, key: str) -> bytes:
    """Make a `cache_key_factors.json`."""
    environment = {f"VLLM_BENCHMARK_FACTOR_{number:03}": number % 7 for number in range(200)}
    factors = {
        "code_hash": rng.randbytes(32).hex(),
        "compiler_hash": key,
        "config_hash": rng.randbytes(5).hex(),
        "env": environment,
    }
    return json.dumps(factors, indent=2, sort_keys=True).encode()


def _sized(data: bytes) -> bytes:
    return struct.pack(">Q", len(data)) + data


def _checked(data: bytes) -> bytes:
    return struct.pack(">I", zlib.crc32(data)) + data


def artifact(key: str, entries: dict[str, tuple[str, bytes]]) -> bytes:
    """Make a standalone artifact: torch's container around `{type: (name, content)}`."""
    payload = [struct.pack(">Q", 1)]
    for kind, (name, content) in entries.items():
        payload.append(_sized(base64.b64encode(kind.encode())) + struct.pack(">Q", 1))
        payload.append(_sized(base64.b64encode(name.encode())) + _sized(content))
    torch_key = hashlib.sha256(b"benchmark torch").digest()
    head = _sized(b"CacheCompiledArtifact") + _sized(torch_key)
    head += _sized(base64.b64encode(key.encode()))
    return _checked(head + _sized(_checked(b"".join(payload))))
