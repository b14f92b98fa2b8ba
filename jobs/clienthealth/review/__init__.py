"""The weekly reliability review: from the history to one page that a meeting is run from.

What its words mean, everywhere in the review:

client-minute       a row of the table `minutes`: one client in one minute of UTC. Consumer groups are not clients:
                    their lag is measured, no failure mode is judged on them, so they are in no client-minute.
healthy             its status is `ok`, or `partial`: nothing was found, and not every mode could be judged. It counts
                    as healthy by what was, else a fleet without logs had no objective; how many is stated by itself
unhealthy           its status is `suspected` or `confirmed`; both spend the error budget in full. What is wrong with
                    a client hurts whether or not a thread dump has proved it, and a budget that waited for proof
                    would reward bad evidence. The two are counted apart, so that a suspicion can be disputed.
unknown             it could not be judged: neither healthy nor unhealthy, in no ratio, and stated by itself
observed            healthy + unhealthy
SLI                 healthy / observed; there is none where nothing was observed
error budget        (1 - target) × observed, in client-minutes; spent = unhealthy
records lost        what the incidents that touch the period tell of records that were accepted and not delivered: at
                    least and at most. Nobody knows how many at most where some were not counted. They count beside the
                    minutes, because a client that has gone leaves no unhealthy minute behind
watched             a minute of the clock with a row in the table `quality`: the monitor read something
gap                 a minute that was not watched: no data, neither healthy nor unhealthy, and stated by itself

All sums are sums of integers, and all orders are total: the same history and options give the same bytes.
"""
