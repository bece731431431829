"""For the test suites of others: a real svc-cluster in a container, gone when the suite is.

Needs the extra `testing` (`pip install 'svc-cluster[testing]'`), a container engine and the image;
importing this needs none of them.
"""

from svc_cluster.testing.container import SvcClusterContainer, unavailable

__all__ = ["SvcClusterContainer", "unavailable"]
