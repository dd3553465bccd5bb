"""SPACE_ROUTES: the rows of ROUTES for what members share: votes, rules, tasks, documents, resources, grants."""

from typing import Final

from kernel.api.http import (
    documents,
    resources,
    spaces,
)
from kernel.api.http.route import Route
from protocol.api.agents import (
    Cleared,
)
from protocol.api.messages import (
    Channel,
    ResourceInfo,
    ResourceList,
    ResourceRequest,
    ResourceText,
)
from protocol.api.runs import (
    DiffReport,
)
from protocol.api.workflows import MemberList
from protocol.documents import (
    DocumentBlame,
    DocumentChanged,
    DocumentDiff,
    DocumentHistory,
    DocumentInfo,
    DocumentList,
    DocumentPut,
    SuggestionInfo,
    SuggestionList,
    SuggestionMade,
    SuggestionVerdict,
)
from protocol.spaces import SpaceDocument, SpaceList, SpaceMembersRequest

SPACE_ROUTES: Final[tuple[Route, ...]] = (
    Route("GET", "/resources", resources.list_all, ResourceList),
    Route("GET", "/resources/<id>", resources.show, ResourceText),
    Route("GET", "/spaces/<space>/resources", resources.list_in_space, ResourceList),
    Route(
        "POST",
        "/spaces/<space>/resources",
        resources.create,
        ResourceInfo,
        asks=ResourceRequest,
        status=201,
        people_only=True,
    ),
    Route("GET", "/spaces/<space>/resources/<id>", resources.show_in_space, ResourceText),
    Route("GET", "/spaces/<space>/channel", spaces.channel, Channel),
    Route("POST", "/spaces/<space>/clear", spaces.clear, Cleared, people_only=True, scope="admin"),
    Route("GET", "/spaces/<space>/diff", spaces.diff, DiffReport, waits=True),
    Route("GET", "/spaces", spaces.list_spaces, SpaceList, people_only=True),
    Route("GET", "/spaces/<space>/members", spaces.members, MemberList),
    Route(
        "POST",
        "/spaces/<space>/members",
        spaces.change_members,
        SpaceDocument,
        asks=SpaceMembersRequest,
        people_only=True,
        scope="approve",
    ),
    Route("DELETE", "/spaces/<space>", spaces.close_space, SpaceDocument, people_only=True),
    Route("GET", "/spaces/<space>/documents", documents.list_documents, DocumentList),
    Route("GET", "/spaces/<space>/documents/<path:path>", documents.read_document, DocumentInfo),
    Route(
        "PUT",
        "/spaces/<space>/documents/<path:path>",
        documents.write_document,
        DocumentChanged,
        asks=DocumentPut,
        people_only=True,
    ),
    Route(
        "POST",
        "/spaces/<space>/documents/<path:path>",
        documents.append_document,
        DocumentChanged,
        asks=DocumentPut,
        people_only=True,
    ),
    Route(
        "DELETE", "/spaces/<space>/documents/<path:path>", documents.delete_document, DocumentChanged, people_only=True
    ),
    Route("GET", "/spaces/<space>/document-history/<path:path>", documents.document_history, DocumentHistory),
    Route("GET", "/spaces/<space>/document-blame/<path:path>", documents.document_blame, DocumentBlame),
    Route("GET", "/spaces/<space>/document-diff/<path:path>", documents.document_diff, DocumentDiff),
    Route("GET", "/spaces/<space>/suggestions", documents.list_suggestions, SuggestionList),
    Route("GET", "/spaces/<space>/suggestions/<id>", documents.show_suggestion, SuggestionInfo),
    Route(
        "POST",
        "/spaces/<space>/suggestions/<id>/accept",
        documents.accept_suggestion,
        SuggestionMade,
        asks=SuggestionVerdict,
        body_optional=True,
        people_only=True,
        scope="approve",
    ),
    Route(
        "POST",
        "/spaces/<space>/suggestions/<id>/reject",
        documents.reject_suggestion,
        SuggestionMade,
        asks=SuggestionVerdict,
        body_optional=True,
        people_only=True,
    ),
)
