"""The weekly reliability review: from the history to one page from which a meeting is run.

The terms of the review:

client-minute       a row of the table `minutes`: one client in one minute of UTC. Consumer groups are not clients:
                    their lag is measured, no failure mode is judged on them, so they have no client-minutes.
healthy             its status is `ok`, or `partial`: nothing was found, but not every mode could be judged. A partial
                    minute counts as healthy, or a fleet without logs would have no objective; it is also stated
unhealthy           its status is `suspected` or `confirmed`; both spend the error budget in full. A failing client
                    hurts whether or not a thread dump has proved it, and a budget that waited for proof would
                    reward bad evidence. The two are counted separately, so that a suspicion can be disputed.
unknown             it could not be judged: neither healthy nor unhealthy, in no ratio, and stated separately
observed            healthy + unhealthy
SLI                 healthy / observed; there is none if nothing was observed
error budget        (1 - target) × observed, in client-minutes; spent = unhealthy
records lost        accepted and undelivered records of the incidents that touch the period: at least and at most. The
                    upper bound is unknown if some were not counted. They count beside the minutes, because an ended
                    client leaves no unhealthy minute behind
watched             a minute of the clock with a row in the table `quality`: the monitor read something
gap                 a minute that was not watched: no data, neither healthy nor unhealthy, and stated separately

All sums are sums of integers, and all orders are total: the same history and options give the same bytes.
"""
