"""The operations on exchanges and virtual hosts."""

from kafkaesque.admin.api.calls import Route
from kafkaesque.admin.api.changes import Change
from kafkaesque.admin.api.exchange_values import (
    BindingBody,
    ExchangeDryRun,
    ExchangeList,
    ExchangeQuery,
    ExchangesQuery,
    ExchangeView,
    NewExchange,
    RouteQuestion,
    RouteView,
    VhostList,
    VhostsQuery,
)
from kafkaesque.admin.api.exchanges import ExchangePages


def exchange_routes(pages: ExchangePages) -> list[Route]:
    """Return the operations on exchanges, bindings and virtual hosts."""
    return [
        Route(
            method="GET",
            path="/vhosts",
            name="listVhosts",
            summary="Virtual hosts",
            handle=pages.list_vhosts,
            query=VhostsQuery,
            result=VhostList,
        ),
        Route(
            method="GET",
            path="/exchanges",
            name="listExchanges",
            summary="Exchanges",
            handle=pages.list_exchanges,
            query=ExchangesQuery,
            result=ExchangeList,
        ),
        Route(
            method="POST",
            path="/exchanges",
            name="declareExchange",
            summary="Declare an exchange; one that is there and the same is as good",
            handle=pages.declare,
            query=ExchangeDryRun,
            body=NewExchange,
            result=Change,
            status=201,
        ),
        Route(
            method="GET",
            path="/exchanges/{exchange}",
            name="showExchange",
            summary="An exchange, and the bindings from it and to it",
            handle=pages.show_exchange,
            query=ExchangeQuery,
            result=ExchangeView,
        ),
        Route(
            method="DELETE",
            path="/exchanges/{exchange}",
            name="deleteExchange",
            summary="Delete an exchange and the bindings that begin there",
            handle=pages.delete,
            query=ExchangeDryRun,
            result=Change,
        ),
        *_binding_routes(pages),
    ]


def _binding_routes(pages: ExchangePages) -> list[Route]:
    return [
        Route(
            method="POST",
            path="/exchanges/{exchange}/route",
            name="routeMessage",
            summary="Where a message would go; nothing is published",
            handle=pages.route,
            query=ExchangeQuery,
            body=RouteQuestion,
            result=RouteView,
            is_safe=True,
        ),
        Route(
            method="POST",
            path="/exchanges/{exchange}/bind",
            name="bind",
            summary="Bind a queue, an exchange or a topic to an exchange",
            handle=pages.bind,
            query=ExchangeDryRun,
            body=BindingBody,
            result=Change,
        ),
        Route(
            method="POST",
            path="/exchanges/{exchange}/unbind",
            name="unbind",
            summary="End a binding; one that is absent is as good",
            handle=pages.unbind,
            query=ExchangeDryRun,
            body=BindingBody,
            result=Change,
        ),
    ]
