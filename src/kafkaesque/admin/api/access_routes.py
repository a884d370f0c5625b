"""The operations on users, roles, rules and access keys."""

from kafkaesque.admin.api.access import AccessPages
from kafkaesque.admin.api.access_values import (
    AccessKeyView,
    CertificateList,
    ExplainQuery,
    Explanation,
    NewRole,
    NewRule,
    NewUser,
    RoleList,
    RolesQuery,
    RuleChange,
    RuleList,
    RulesQuery,
    UserChanges,
    UserList,
    UsersQuery,
)
from kafkaesque.admin.api.calls import Route
from kafkaesque.admin.api.changes import Change, DryRun
from kafkaesque.admin.api.rules import RulePages


def access_routes(access: AccessPages, rules: RulePages) -> list[Route]:
    """Return the operations on who may do what."""
    return [*_user_routes(access), *_role_routes(access), *_rule_routes(rules)]


def _user_routes(pages: AccessPages) -> list[Route]:
    return [
        Route(
            method="GET",
            path="/users",
            name="listUsers",
            summary="Users, and what they log in by",
            handle=pages.list_users,
            query=UsersQuery,
            result=UserList,
        ),
        Route(
            method="POST",
            path="/users",
            name="putUser",
            summary="Create a user who logs in by a password, or give one another password",
            handle=pages.put_user,
            query=DryRun,
            body=NewUser,
            result=Change,
            status=201,
        ),
        Route(
            method="PATCH",
            path="/users/{user}",
            name="changeUser",
            summary="Disable or enable a user, give and take roles, limit its log-ins",
            handle=pages.change_user,
            query=DryRun,
            body=UserChanges,
            result=Change,
        ),
        Route(
            method="DELETE",
            path="/users/{user}",
            name="deleteUser",
            summary="Delete a user and all that it logs in by",
            handle=pages.delete_user,
            query=DryRun,
            result=Change,
        ),
        Route(
            method="POST",
            path="/users/{user}/access-keys",
            name="makeAccessKey",
            summary="Give a user one more access key; its secret is shown once",
            handle=pages.make_access_key,
            result=AccessKeyView,
            status=201,
        ),
        Route(
            method="DELETE",
            path="/access-keys/{key}",
            name="deleteAccessKey",
            summary="Delete an access key",
            handle=pages.delete_access_key,
            query=DryRun,
            result=Change,
        ),
    ]


def _role_routes(pages: AccessPages) -> list[Route]:
    return [
        Route(
            method="GET",
            path="/roles",
            name="listRoles",
            summary="Roles, with their users",
            handle=pages.list_roles,
            query=RolesQuery,
            result=RoleList,
        ),
        Route(
            method="POST",
            path="/roles",
            name="putRole",
            summary="Create a role, or change its description",
            handle=pages.put_role,
            query=DryRun,
            body=NewRole,
            result=Change,
            status=201,
        ),
        Route(
            method="DELETE",
            path="/roles/{role}",
            name="deleteRole",
            summary="Delete a role and its rules",
            handle=pages.delete_role,
            query=DryRun,
            result=Change,
        ),
        Route(
            method="GET",
            path="/certificates",
            name="listCertificates",
            summary="Names that certificates log in as, and listeners with TLS",
            handle=pages.list_certificates,
            result=CertificateList,
        ),
    ]


def _rule_routes(pages: RulePages) -> list[Route]:
    return [
        Route(
            method="GET",
            path="/rules",
            name="listRules",
            summary="Rules: who may, or may not, do what",
            handle=pages.list_rules,
            query=RulesQuery,
            result=RuleList,
        ),
        Route(
            method="POST",
            path="/rules",
            name="addRules",
            summary="Add rules, one for each operation, and see what they are for",
            handle=pages.add_rules,
            query=DryRun,
            body=NewRule,
            result=RuleChange,
            status=201,
        ),
        Route(
            method="DELETE",
            path="/rules/{rule}",
            name="deleteRule",
            summary="Remove a rule",
            handle=pages.delete_rule,
            query=DryRun,
            result=RuleChange,
        ),
        Route(
            method="GET",
            path="/explain",
            name="explain",
            summary="Who may do something, and because of what",
            handle=pages.explain,
            query=ExplainQuery,
            result=Explanation,
        ),
    ]
