/**
 * Engine seconds per key (docs/cost.md) against the time in which simulated engines worked, in virtual time; and the
 * CPU of a gateway that counts costs against one that does not.
 *
 * Flags: --requests 3000 (per row) · --seeds 2 · --pairs 6 · --no-cpu
 */
import { measureCostCpu } from './cost/cpu.ts'
import { mixedTraffic } from './cost/mixed-traffic.ts'
import type { BenchOptions, BenchResult, BenchRow } from './result.ts'

const TRAFFIC = [
  { name: 'one stream at a time', roles: ['any'], perSecond: 0.2, leaving: 0, whole: 0 },
  { name: 'prefill and decode', roles: ['any', 'any', 'any'], perSecond: 6, leaving: 0, whole: 0 },
  { name: 'with clients that leave', roles: ['any', 'any', 'any'], perSecond: 8, leaving: 0.3, whole: 0 },
  { name: 'with answers that do not stream', roles: ['any', 'any', 'any'], perSecond: 6, leaving: 0.1, whole: 0.4 },
  { name: 'split, idle engines', roles: ['prefill', 'decode', 'decode'], perSecond: 0.3, leaving: 0.2, whole: 0.1 },
  { name: 'split', roles: ['prefill', 'decode', 'decode'], perSecond: 3, leaving: 0.2, whole: 0.1 },
] as const

export default async function cost({ flags, note }: BenchOptions): Promise<BenchResult> {
  const requests = Number(flags['requests'] ?? 3000)
  const seeds = Number(flags['seeds'] ?? 2)
  const rows: BenchRow[] = []
  for (const { name, ...traffic } of TRAFFIC) {
    note(name)
    for (let seed = 1; seed <= seeds; seed++) {
      const { byKey, busyS, savedS, aborted, split } = mixedTraffic({ ...traffic, requests, seed })
      const chargedS = [...byKey.values()].reduce((sum, value) => sum + value, 0)
      const error = Math.abs(chargedS - busyS) / busyS
      rows.push({
        traffic: name,
        seed,
        charged_s: round(chargedS),
        busy_s: round(busyS),
        error: round(error),
        saved_s: round(savedS),
        aborted,
        split,
      })
    }
  }
  const cost_sum_error = Math.max(...rows.map(({ error }) => Number(error)))
  if (flags['no-cpu'] !== undefined) return { rows, headline: { cost_sum_error } }
  const { row, ratio } = await measureCostCpu(Number(flags['pairs'] ?? 6), note)
  return { rows: [...rows, row], headline: { cost_sum_error, cpu_ratio_vs_off: round(ratio) } }
}

const round = (value: number): number => Math.round(value * 10_000) / 10_000
