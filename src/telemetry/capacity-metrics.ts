import type { Metric } from './metric.ts'

/** Capacity of pools with an objective, by role of the engines. */
export const CAPACITY_METRICS: readonly Metric[] = [
  {
    from: 'capacity',
    type: 'gauge',
    name: 'firstlight_pool_replicas_needed',
    help:
      'Engines of the role that keep the `slo` of the pool at the arrivals of the last minutes; at least 1 while ' +
      'requests arrive, run or wait. No sample: the pool has no `slo`.',
    value: ({ replicas }) => replicas,
    row: 'Capacity',
  },
  {
    from: 'capacity',
    type: 'gauge',
    name: 'firstlight_pool_arrivals_per_second',
    help: 'Requests per second for the engines of the role, with refused ones (pools with `slo`).',
    value: ({ requestsPerS }) => requestsPerS,
    row: 'Capacity',
  },
  {
    from: 'capacity',
    type: 'gauge',
    name: 'firstlight_pool_spare_requests_per_second',
    help:
      'Further requests per second that the available engines of the role serve within the `slo` of the pool. ' +
      'No sample: no request has been seen yet.',
    value: ({ spareRequestsPerS }) => spareRequestsPerS,
    row: 'Capacity',
  },
  {
    from: 'capacity',
    type: 'gauge',
    name: 'firstlight_pool_exhaustion_seconds',
    help:
      'Time until arrivals exceed the capacity of the role, if they keep rising as in the last five minutes. ' +
      'No sample: they do not rise, or it takes more than an hour.',
    value: ({ exhaustionS }) => exhaustionS,
    row: 'Capacity',
  },
  {
    from: 'pool',
    type: 'gauge',
    name: 'firstlight_pool_capacity_overstated_ratio',
    help:
      'Share of the minutes of the last hour in which more than 1 % of the requests were refused or late, though the ' +
      'stated capacity had room for them. Minutes without requests do not count. No sample: none was compared.',
    value: ({ capacityError: error }) => (error === undefined ? undefined : error.overstated / error.minutes),
    row: 'Capacity',
  },
  {
    from: 'pool',
    type: 'gauge',
    name: 'firstlight_pool_capacity_understated_ratio',
    help:
      'Share of the minutes of the last hour in which at most 1 % of the requests were refused or late, though they ' +
      'exceeded the stated capacity. Minutes without requests do not count. No sample: none was compared.',
    value: ({ capacityError: error }) => (error === undefined ? undefined : error.understated / error.minutes),
    row: 'Capacity',
  },
]
