"""The weekly reliability review: turns the monitor's history into one page that guides a meeting.

The terms of the review:

client-minute       a row of the table `minutes`: one client in one minute of UTC. Consumer groups have no
                    client-minutes, because failure modes are judged only for clients
healthy             a client-minute with the status `ok` or `partial`. `partial`: no failure was found, but not every
                    mode could be judged. Partial minutes count as healthy, because clients without logs never have the
                    status `ok`. The review also shows the number of partial minutes
unhealthy           a client-minute with the status `suspected` or `confirmed`. A suspected minute spends as much of the
                    error budget as a confirmed minute: a failing client does harm even if no thread dump proves the
                    failure
unknown             a client-minute that could not be judged. No ratio includes unknown client-minutes
observed            healthy + unhealthy
SLI                 healthy / observed; undefined if nothing was observed
error budget        (1 - target) × observed, in client-minutes; spent = unhealthy
records lost        minimum and maximum number of records that clients accepted and did not deliver. The maximum is
                    unknown if some lost records were not counted. Lost records have an objective of their own,
                    because the SLI does not show every loss: a client that loses records as it ends may have had only
                    healthy minutes
watched             a minute of UTC in which the monitor read data: the table `quality` has a row for this minute
gap                 a minute that was not watched. In a gap, a client is neither healthy nor unhealthy

Only integers are added up, and every sort has a tie-breaker. So the same history and options give the same files, byte
for byte.
"""
