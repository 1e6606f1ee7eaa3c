import json
import string

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import unhurried

from cachekeeper.probe.origin import PRESENT, caller_origin, redacted

LETTERS = string.ascii_letters + string.digits
# Of the shapes that their makers document; none of them is or was valid.
TOKENS = {
    "Hugging Face": "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH",
    "OpenAI": "sk-" + "a1B2" * 12,
    "OpenAI project": "sk-proj-" + "a1B2" * 12,
    "Anthropic": "sk-ant-api03-" + "a1B2" * 12,
    "Stripe": "sk_live_" + "a1B2" * 6,
    "GitHub": "ghp_" + "a1B2" * 9,
    "GitHub server": "ghs_" + "a1B2" * 9,
    "GitHub fine-grained": "github_pat_11" + "a1B2" * 5 + "_" + "a1B2" * 12,
    "GitLab": "glpat-" + "a1B2" * 5,
    "Slack": "xoxb-123456789012-" + "a1B2" * 6,
    "NVIDIA": "nvapi-" + "a1B2" * 16,
    "npm": "npm_" + "a1B2" * 9,
    "PyPI": "pypi-AgEIcHlwaS5vcmc" + "a1B2" * 9,
    "Docker": "dckr_pat_" + "a1B2" * 7,
    "Google": "AIza" + "a1B2" * 8 + "xyz",
    "Google OAuth": "ya29." + "a0Af" * 9,
    "AWS": "AKIA" + "IOSFODNN7EXAMPLE"[:16],
    "AWS session": "ASIA" + "IOSFODNN7EXAMPLE"[:16],
    "JSON web token": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxIn0.c2ln",
    "URL": "https://user:hunter2@proxy.example:8080/path",
    "URL token": "https://abcdef0123456789@github.com/org/repo",
    "URL of a store": "redis://:hunter2@cache.example:6379/0",
    "signed URL": "https://bucket.example/model?X-Amz-Signature=abc123",
    "query": "https://host.example/?api_key=abc123",
    "header": "Authorization: Bearer abcdef123456",
    "basic": "Basic dXNlcjpwYXNz",
    "PEM": "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
    "key and value": "user=me password=hunter2",
}
# Real values that change a hash, a choice or a speed, and look a little like secrets.
TELLING = {
    "VLLM_CACHE_ROOT": "/mnt/disk-cache-0/vllm",
    "VLLM_USE_MEGA_AOT_ARTIFACT": "1",
    "VLLM_MINIMAX_QK_NORM_RESTORE_WEIGHT_MIN_TOKENS": "512",
    "VLLM_XPU_USE_LLM_SCALER_MOE": "1",
    "TORCHINDUCTOR_MAX_AUTOTUNE": "1",
    "TORCHINDUCTOR_CACHE_DIR": "/raid/task_scheduler_cache/inductor",
    "TORCH_LOGS": "+dynamo,output_code",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    "TRITON_CACHE_DIR": "/scratch/risk-models-quantised-2024/triton",
    "CUDA_VISIBLE_DEVICES": "0,1",
    "ONEAPI_DEVICE_SELECTOR": "level_zero:0,1,2,3",
    "ZE_AFFINITY_MASK": "0,1,2,3",
    "UR_L0_USE_IMMEDIATE_COMMANDLISTS": "1",
    "CCL_TOPO_P2P_ACCESS": "1",
    "NCCL_SOCKET_IFNAME": "eth0",
    "OMP_NUM_THREADS": "8",
    "ATEN_CPU_CAPABILITY": "avx2",
    "LD_PRELOAD": "/usr/lib/libtcmalloc.so.4",
    "HF_HOME": "/models/hf_models_cache",
    "HF_HUB_OFFLINE": "1",
    "HOME": "/home/me",
    "PATH": "/opt/task_runner_2024/bin:/usr/bin:/opt/desk-tools-for-people/bin",
    "XDG_CACHE_HOME": "/home/me/.cache",
    "CXX": "/usr/bin/g++",
    "USER": "me",
}
SECRET_NAMES = [
    "VLLM_API_KEY",
    "HF_TOKEN",
    "HF_TOKENS",
    "NCCL_SECRET",
    "VLLM_DB_PASSWORD",
    "TORCH_PASSPHRASE",
    "CUDA_CREDENTIALS",
    "XDG_SESSION_ID",
    "vllm_api_key",
    "HF_AUTH",
    "VLLM_COOKIE",
    "LD_PRIVATE",
    "VLLM_BEARER",
]


def _environment(environment):
    return caller_origin(environment, "host", 1000, "0.1.0")["environment"]


def test_the_origin_says_who_and_where():
    """Host, uid and version, and that the environment is the caller's and not vLLM's."""
    expected = {
        "of": "caller",
        "environment": {"VLLM_USE_AOT_COMPILE": "1"},
        "host": "gpu1",
        "uid": 1000,
        "cachekeeper": "0.1.0",
    }
    assert expected == caller_origin({"VLLM_USE_AOT_COMPILE": "1"}, "gpu1", 1000, "0.1.0")


@pytest.mark.parametrize("name", sorted(TELLING))
def test_telling_variables_are_kept(name):
    """What can explain another hash, choice or speed stands in the record as it was."""
    assert {name: TELLING[name]} == _environment({name: TELLING[name]})


@pytest.mark.parametrize("kind", sorted(TOKENS))
def test_secret_values_are_recorded_as_present_only(kind):
    """A token in any variable, alone or within a longer text, never reaches a record."""
    token = TOKENS[kind]
    for value in (token, f"--token {token}", f'{{"a": "{token}"}}', f"a;{token};b"):
        assert _environment({"VLLM_EXTRA": value}) == {"VLLM_EXTRA": PRESENT}


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_variables_named_like_secrets_are_recorded_as_present_only(name):
    """Whatever stands in such a variable is not recorded, that it was set is."""
    assert redacted(name, "hunter2") == PRESENT


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("VLLM_MAX_TOKENS", "4096", "4096"),
        ("VLLM_MAX_TOKENS", "abc", PRESENT),
        ("VLLM_TOKEN", "4096", PRESENT),
        ("VLLM_MAX_TOKENS_KEY", "4096", PRESENT),
    ],
)
def test_a_number_of_tokens_is_no_secret(name, value, expected):
    """Limits in tokens shape the graph; a token or a list of them is a secret all the same."""
    assert expected == redacted(name, value)


@unhurried
@given(
    st.sampled_from(["hf_", "sk-", "ghp_", "nvapi-", "glpat-", "AKIA", "eyJ"]),
    st.text(LETTERS, min_size=20, max_size=40),
    st.text(" =:,;/'\"&?", max_size=2),
    st.sampled_from(sorted(TELLING)),
)
def test_no_token_reaches_a_record(mark, rest, around, name):
    """Tokens of well-known makers are found in any variable and any surroundings."""
    token = mark + rest
    value = f"before{around} {token}{around}after"
    assert token not in json.dumps(caller_origin({name: value}, "h", 0, "v"))


@unhurried
@given(st.text(LETTERS + "._~-", min_size=1), st.text(LETTERS + "!$%*,;._~-", min_size=1))
def test_no_password_of_a_url_reaches_a_record(user, password):
    """Credentials in a URL are found whatever their characters."""
    assume(password not in PRESENT)
    for scheme in ("https", "socks5h", "postgresql+asyncpg", "s3"):
        url = f"{scheme}://{user}:{password}@host.example/path"
        assert redacted("VLLM_PROXY", url) == PRESENT


@unhurried
@given(st.dictionaries(st.sampled_from([*TELLING, *SECRET_NAMES]) | st.text(), st.text()))
def test_a_record_holds_whole_values_or_none(environment):
    """Each variable that is recorded has its own value or the mark, and all can be written."""
    found = _environment(environment)
    assert all(value in (environment[name], PRESENT) for name, value in found.items())
    assert environment.keys() & TELLING.keys() <= found.keys()
    assert found == json.loads(json.dumps(found))


@pytest.mark.parametrize("name", ["EDITOR", "LMX_DATA", "MY_VLLM_X", "VLLM", "OLDPATH", "PS1"])
def test_variables_that_tell_nothing_are_left_out(name):
    """Only known names are recorded: what nobody asked for is not collected."""
    assert _environment({name: "value"}) == {}


def test_variables_come_sorted():
    """Two records of one environment are equal byte for byte."""
    names = ["ZE_A", "CUDA_B", "VLLM_C"]
    assert sorted(names) == list(_environment(dict.fromkeys(names, "1")))
