import type { DashboardRow } from './dashboard-row.ts'
import { flag, type RegionMetric } from './metric.ts'

const regionGauge = (name: string, help: string, value: RegionMetric['value'], row?: DashboardRow): RegionMetric => ({
  from: 'region',
  type: 'gauge',
  name: `firstlight_region_${name}`,
  help,
  value,
  ...(row === undefined ? {} : { row }),
})

/** Gauges of clusters behind another gateway. */
export const REGION_METRICS: readonly RegionMetric[] = [
  regionGauge(
    'engines',
    'Available engines behind the gateway of a cluster. No sample of the region metrics: no digest yet, or the ' +
      'engines are this gateway’s own.',
    (r) => r.engines,
    'Regions',
  ),
  regionGauge('requests', 'Requests booked in the region, from all gateways.', (r) => r.requests, 'Regions'),
  regionGauge(
    'queued_prompts',
    'Requests booked in the region that have no first token yet.',
    (r) => r.queued,
    'Regions',
  ),
  regionGauge(
    'expected_time_to_first_token_seconds',
    'Predicted TTFT of an uncached prompt of 1,024 tokens, including the network. No sample: no engine is available.',
    (r) => (r.expectedTtftMs === null ? null : r.expectedTtftMs / 1000),
    'Regions',
  ),
  regionGauge(
    'rtt_seconds',
    'Network round trip: as configured, or the minimum of the last eight measured.',
    (r) => r.rttMs / 1000,
    'Regions',
  ),
  regionGauge('digest_age_seconds', 'Age of the last digest of the region.', (r) => r.ageMs / 1000, 'Regions'),
  regionGauge('reachable', '1 if the region answered the last query, else 0.', (r) => flag(r.reachable)),
  regionGauge(
    'blocking_match',
    '1 if tokenizer and block size equal those of the region. 0: cached prefixes of its engines are unknown.',
    (r) => flag(r.blockingMatch),
  ),
]
