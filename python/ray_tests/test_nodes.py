"""A node that goes away in the middle of a run."""

from __future__ import annotations

from typing import Any

import ray
from ray.cluster_utils import Cluster
from test_completion import LEARNERS, bytes_of, fitted

STORE = 100 * 2**20


def test_a_node_that_goes_away_changes_nothing() -> None:
    ray.shutdown()
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 2, "object_store_memory": STORE, "include_dashboard": False},
    )
    try:
        node = cluster.add_node(num_cpus=2, object_store_memory=STORE)
        ray.init(address=cluster.address, log_to_driver=False)
        gone = []

        def remove(event: dict[str, Any]) -> None:
            if event["steps"] == 4:
                actors = ray._private.state.actors().values()
                homes = [actor["Address"]["NodeID"] for actor in actors]
                assert homes.count(node.node_id) == 2, homes
                cluster.remove_node(node, allow_graceful=False)
                gone.append(node)

        # Actors are spread over both nodes, and all fit on the one that is left.
        options = LEARNERS["bayes"]
        found = fitted(shards=8, actors=4, num_cpus=0.5, callback=remove, **options)
        assert gone
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert bytes_of(found) == bytes_of(fitted(shards=8, actors=0, **options))
