/** Intervals of probes where they are shorter than the configured `stats_interval_ms`. */

/** Maximum interval of probes of an engine that may have failed, ms, so that one that recovers is used soon. */
export const SICK_PROBE_MS = 1_000

/** Maximum interval, ms, at which engines that also serve other sources are probed: only reports show that load. */
export const SHARED_PROBE_MS = 1_000

/** Minimum interval, milliseconds. */
const MIN_SHARED_PROBE_MS = 100

/** Probes of shared engines that a gateway sends per second: about 1 % of a core (packages/bench/probes.ts). */
export const SHARED_PROBES_PER_S = 80

/**
 * Interval, milliseconds, at which a gateway probes each of its `engines` that also serve other sources. The shorter
 * the interval, the more accurate its view of their queues; in total it makes at most 80 probes a second, or one per
 * engine.
 */
export function sharedProbeMs(engines: number): number {
  return Math.min(SHARED_PROBE_MS, Math.max(MIN_SHARED_PROBE_MS, (1000 * engines) / SHARED_PROBES_PER_S))
}
