"""What names a remote workflow, and what is refused before anything looks at it."""

import pytest

from protocol.remote_ref import RemoteRejected, parse_remote, repository_url


def test_a_name_has_an_owner_a_repository_a_ref_and_a_path() -> None:
    found = parse_remote("github:my-org/flows.x@v1.2/.workflows/review.yaml")
    assert found == ("my-org", "flows.x", "v1.2", ".workflows/review.yaml")
    assert str(found) == "github:my-org/flows.x@v1.2/.workflows/review.yaml"
    assert repository_url(found, {}) == "https://github.com/my-org/flows.x.git"


@pytest.mark.promise("XF04")
@pytest.mark.parametrize(
    "name",
    [
        "github:--upload-pack=touch pwned/repo@v1/a.yaml",
        "github:-u/repo@v1/a.yaml",
        "github:owner/--upload-pack=x@v1/a.yaml",
        "github:owner/repo@--upload-pack=x/a.yaml",
        "github:owner/repo@--output=x/a.yaml",
        "github:owner/repo@-x/a.yaml",
        "github:ext::sh -c id/repo@v1/a.yaml",
        "github:file:///etc/passwd@v1/a.yaml",
        "github:ssh://-oProxyCommand=id/x@v1/a.yaml",
        "github:user:password@host/repo@v1/a.yaml",
        "github:owner/repo@v1:refs/heads/main/a.yaml",
        "github:owner/repo@+v1/a.yaml",
        "github:owner/repo@v1^{}/a.yaml",
        "github:owner/repo@v1~1/a.yaml",
        "github:owner/repo@v1..v2/a.yaml",
        "github:owner/repo@@{u}/a.yaml",
        "github:owner/repo@v1.lock/a.yaml",
        "github:owner/repo@v1/../a.yaml",
        "github:owner/repo@v1/./a.yaml",
        "github:owner/repo@v1/a/../../b.yaml",
        "github:owner/repo@v1//etc/a.yaml",
        "github:owner/repo@v1/%2e%2e/a.yaml",
        "github:owner/repo@v1/.git/a.yaml",
        "github:owner/repo@v1/.GIT/a.yaml",
        "github:owner/repo@v1/a",
        "github:owner/repo@v1/",
        "github:owner/repo@v1",
        "github:owner/repo/a.yaml",
        "github:owner/..@v1/a.yaml",
        "github:owner/repo.git@v1/a.yaml",
        "github:../repo@v1/a.yaml",
        "github:owner/re\npo@v1/a.yaml",
        "github:owner/repo@v1/a.yaml\n",
        "github:owner/repo@v1\0/a.yaml",
        "github:\u043ewner/repo@v1/a.yaml",
        "github:owner/repo@v1/" + "a" * 500 + ".yaml",
    ],
)
def test_what_could_be_taken_for_something_else_is_no_name(name: str) -> None:
    with pytest.raises(RemoteRejected):
        parse_remote(name)


@pytest.mark.promise("XF04")
@pytest.mark.parametrize(
    "base",
    [
        "file:///srv/git", "http://example.com", "ssh://git@host", "ext::sh -c id", "git://host",
        "https://user:pw@host", "https://host/?x=", "https://host/../x", "https://", "--upload-pack=x",
        "https://host:x", "https://[host",
    ],
)  # fmt: skip
def test_a_host_is_https_or_this_machine(base: str) -> None:
    with pytest.raises(RemoteRejected):
        repository_url(parse_remote("github:o/r@v1/a.yaml"), {"AGENT_WORKER_GITHUB_URL": base})
    ours = {"AGENT_WORKER_GITHUB_URL": "http://127.0.0.1:80/git/"}
    assert repository_url(parse_remote("github:o/r@v1/a.yaml"), ours) == "http://127.0.0.1:80/git/o/r.git"
