"""Whatever a workflow or project file holds: success or a refusal with places."""

from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernel.agents.catalog import Catalog
from kernel.workflows.load import load_workflow
from kernel.workflows.prepare import prepare
from protocol.api.workflows import StartRequest
from protocol.errors import Refused
from tests.kernel.inspect.files import MOCK, write

EXAMPLES: Final = settings.get_profile("untimed").max_examples
"""As many as is usual; ``scripts/soak properties`` tries more."""
_KEYS = ["name", "agents", "params", "setup", "kickoff", "limits", "workspace", "budget", "providers", "workflows"]
_INNER = ["ref", "a", "b", "model", "backend", "provider", "mock", "prompt", "append", "system", "system_file", "name"]
_STEP = ["shell", "as", "timeout", "type", "short", "default", "required", "do", "text", "hops", "base_url"]
_WORDS = ["a", "mock", "mock/x", "openai/x", "${{ a }}", "${{", "@a ${{ params.a }}", "int", "10m", "", "../x", "no"]
_SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.sampled_from(_WORDS), st.text(max_size=6))
_VALUES: st.SearchStrategy[Any] = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from([*_INNER, *_STEP]), inner, max_size=4)
    ),
    max_leaves=16,
)
_DOCUMENTS = st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=6)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    root: Path = tmp_path_factory.mktemp("project")
    write(root, {".agents/a.yaml": MOCK, ".workflows/x.yaml": ""})
    return Catalog(root)


@pytest.mark.promise("CF06", "CF07", "CF08", "CF09", "CF10", "CF21")
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(_DOCUMENTS)
def test_any_workflow_file_loads_or_is_refused(catalog: Catalog, document: dict[str, Any]) -> None:
    (catalog.root / ".workflows" / "x.yaml").write_bytes(msgspec.json.encode(document))
    try:
        load_workflow(catalog, "x")
        prepare(catalog, StartRequest(workflow="x", trust=True), environ={})
    except Refused as refused:
        assert refused.text  # noqa: PT017  (success is as good)


@pytest.mark.promise("CF07")
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(_DOCUMENTS)
def test_any_project_file_loads_or_is_refused(catalog: Catalog, document: dict[str, Any]) -> None:
    path = catalog.root / "moniro.yaml"
    path.write_bytes(msgspec.json.encode(document))
    try:
        catalog.project()
    except Refused as refused:
        assert refused.text  # noqa: PT017  (success is as good)
    finally:
        path.unlink()
