"""Registers an endpoint, watches a wallet, and lists the wallet's events: python example.py G…"""

import os
import sys

from lumenhook_client import AuthenticatedClient
from lumenhook_client.api.endpoints import create_endpoint, get_endpoint
from lumenhook_client.api.events import list_events
from lumenhook_client.api.watches import create_watch
from lumenhook_client.models import AssetInput, EndpointCreate, Problem, WatchCreate

wallet = sys.argv[1]
api = os.environ.get("LUMENHOOK_API", "http://127.0.0.1:8080")


def data_of(answer):
    """The data of an answer; a problem ends the program with what it says."""
    if answer is None or isinstance(answer, Problem):
        sys.exit(f"refused: {answer}")
    return answer


with AuthenticatedClient(api, os.environ["LUMENHOOK_KEY"]) as client:
    made = EndpointCreate(url="https://shop.example/webhooks", description="from Python")
    endpoint = data_of(create_endpoint.sync(client=client, body=made))
    length = len(endpoint.secret)
    print("endpoint", endpoint.id, "whose secret is shown once:", length, "long")

    asked = WatchCreate(
        wallet_address=wallet, endpoint_id=endpoint.id, assets=[AssetInput(code="XLM")]
    )
    watch = data_of(create_watch.sync(client=client, body=asked))
    print("watch", watch.id)

    events = data_of(list_events.sync(client=client, wallet_address=wallet, limit=10))
    for event in events.data:
        print("event", event.id, event.type_)

    problem = get_endpoint.sync("ep_none", client=client)
    print("problem", problem.code if isinstance(problem, Problem) else problem)
