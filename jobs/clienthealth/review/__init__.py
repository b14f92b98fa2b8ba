"""The weekly reliability review: turns the monitor's history into one page that guides a meeting.

The terms of the review:

client-minute       a row of the table `minutes`: one client in one minute of UTC. Consumer groups have no
                    client-minutes: their lag is measured, but failure modes are judged only on clients
healthy             a client-minute with the status `ok` or `partial`. `partial`: no failure was found, but not every
                    mode could be judged. Partial minutes count as healthy: a fleet without logs has no other minutes.
                    They are also shown separately from minutes with the status `ok`
unhealthy           a client-minute with the status `suspected` or `confirmed`; both spend the error budget in full. A
                    failing client does harm even if no thread dump proves the failure. The two are counted separately,
                    so that a suspicion can be disputed
unknown             a client-minute that could not be judged: neither healthy nor unhealthy, in no ratio, and shown
                    separately
observed            healthy + unhealthy
SLI                 healthy / observed; no value if nothing was observed
error budget        (1 - target) × observed, in client-minutes; spent = unhealthy
records lost        records that clients accepted and did not deliver, in incidents that touch the period: minimum and
                    maximum. The maximum is unknown if some lost records were not counted. Lost records are judged
                    separately from the minutes, because a client that has ended leaves no unhealthy minute behind
watched             a minute of UTC with a row in the table `quality`: the monitor read data in it
gap                 a minute that was not watched: no data, neither healthy nor unhealthy, and shown separately

The same history and options give the same bytes, because only integers are added up and every sort has a tie-breaker.
"""
