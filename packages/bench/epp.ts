/**
 * Endpoint picker behind a real Envoy, with stub engines: equal admissions, bookings at the end, lost requests, also
 * while pickers restart, CPU per request beside the gateway's own in the same run, and the time that the picker adds to the same Envoy with a static
 * cluster. CPU figures are those of the picker's process, without Envoy.
 *
 * Flags: --envoy PROGRAM (default: envoy on PATH) · --requests 10000 (in each processing mode) · --admissions 500 ·
 * --restart-requests 3000 (while pickers restart) · --repeats 3 · --seconds 3
 */
import { compareAdmissions } from './epp/admissions.ts'
import { findEnvoy } from './epp/envoy.ts'
import { runModes } from './epp/modes.ts'
import { runRestarts } from './epp/restarts.ts'
import { openSite, type Site } from './epp/site.ts'
import { median } from './median.ts'
import { type LoadResult, runLoad } from './proxy/processes.ts'
import type { BenchOptions, BenchResult, BenchRow } from './result.ts'

const LOADS = [
  { name: '1k_spaced', connections: 32, bytes: 1024, pace: [20, 5] },
  { name: '1k_burst', connections: 16, bytes: 1024, pace: [0, 0] },
  { name: '220k', connections: 4, bytes: 220_000, pace: [0, 0] },
  { name: '400k', connections: 4, bytes: 400_000, pace: [0, 0] },
  { name: '1k_alone', connections: 1, bytes: 1024, pace: [0, 0] },
] as const

type LoadName = (typeof LOADS)[number]['name']

export default async function epp({ flags, note }: BenchOptions): Promise<BenchResult> {
  const { program, version } = findEnvoy(flags['envoy'])
  note(`Envoy ${version}`)
  const count = (name: string, otherwise: number): number => Number(flags[name] ?? otherwise)
  const site = await openSite(program)
  try {
    const admissions = await compareAdmissions(site, count('admissions', 500))
    note(`admissions: ${admissions.compared} compared, ${admissions.differ} differ`)
    const modes = await runModes(site, count('requests', 10_000), note)
    const restarts = await runRestarts(site, count('restart-requests', 3_000))
    note(`restarts: ${JSON.stringify(restarts)}`)
    const costs = await measureCosts(site, flags, note)
    const rows: readonly BenchRow[] = [
      ...modes.rows,
      { mode: 'full_duplex, pickers terminated', ...restarts.terminated },
      { mode: 'full_duplex, pickers killed', ...restarts.killed },
      ...costs.rows,
    ]
    const headline = {
      requests: modes.requests,
      admissions_differ: admissions.differ,
      leaked_bookings: modes.leaked + restarts.leaked,
      lost_requests: modes.lost + restarts.terminated.lost + restarts.unclean,
      broken_messages_hurt_others: modes.hurt,
      restarts: restarts.terminated.restarts,
      lost_to_killed_pickers: restarts.killed.lost,
      ...costs.headline,
    }
    return { rows, headline }
  } finally {
    site.close()
  }
}

interface Costs {
  readonly rows: readonly BenchRow[]
  readonly headline: Readonly<Record<string, number>>
}

/** Interleaves the gateway, the picker and the static Envoy in each repeat. */
async function measureCosts(site: Site, flags: BenchOptions['flags'], note: BenchOptions['note']): Promise<Costs> {
  const ms = Number(flags['seconds'] ?? 3) * 1000
  const subjects = [
    ['envoy_static', await site.envoy('static'), null],
    ['gateway', site.gateway, site.gateway.pid],
    ['picker', await site.envoy('full_duplex'), site.picker.pid],
    ['picker_heads', await site.envoy('heads'), site.picker.pid],
  ] as const
  const runs = new Map<string, LoadResult[]>()
  for (let repeat = 0; repeat < Number(flags['repeats'] ?? 3); repeat++) {
    for (const { name, ...load } of LOADS) {
      note(`${repeat + 1} ${name}`)
      for (const [subject, { port }, pid] of subjects) {
        const result = await runLoad({ ...load, port, ms, warmMs: repeat === 0 ? 1_500 : 500 }, pid)
        runs.set(`${name} ${subject}`, [...(runs.get(`${name} ${subject}`) ?? []), result])
      }
    }
  }
  const of = (load: LoadName, subject: string, figure: 'cpu_us' | 'ttfb_ms_p50' | 'ttfb_ms_p99'): number =>
    median(runs.get(`${load} ${subject}`)!.map((result) => result[figure] ?? 0))
  const rows = LOADS.flatMap(({ name }) =>
    subjects.map(([subject]) => ({
      load: name,
      subject,
      cpu_us: of(name, subject, 'cpu_us'),
      ttfb_ms_p50: of(name, subject, 'ttfb_ms_p50'),
      ttfb_ms_p99: of(name, subject, 'ttfb_ms_p99'),
    })),
  )
  return { rows, headline: costFigures(of) }
}

function costFigures(
  of: (load: LoadName, subject: string, figure: 'cpu_us' | 'ttfb_ms_p50' | 'ttfb_ms_p99') => number,
): Record<string, number> {
  const cpu = (load: LoadName, subject: string): number => of(load, subject, 'cpu_us')
  const added = (load: LoadName, figure: 'ttfb_ms_p50' | 'ttfb_ms_p99'): number =>
    of(load, 'picker', figure) - of(load, 'envoy_static', figure)
  return {
    picker_cpu_us_1k: cpu('1k_spaced', 'picker'),
    gateway_cpu_us_1k: cpu('1k_spaced', 'gateway'),
    cpu_ratio_vs_gateway_1k: cpu('1k_spaced', 'picker') / cpu('1k_spaced', 'gateway'),
    cpu_ratio_vs_gateway_1k_burst: cpu('1k_burst', 'picker') / cpu('1k_burst', 'gateway'),
    picker_cpu_us_220k: cpu('220k', 'picker'),
    gateway_cpu_us_220k: cpu('220k', 'gateway'),
    cpu_ratio_vs_gateway_220k: cpu('220k', 'picker') / cpu('220k', 'gateway'),
    picker_cpu_us_400k: cpu('400k', 'picker'),
    added_ms_p50: added('1k_alone', 'ttfb_ms_p50'),
    added_ms_p99: added('1k_alone', 'ttfb_ms_p99'),
    added_ms_p50_220k: added('220k', 'ttfb_ms_p50'),
    added_ms_p99_220k: added('220k', 'ttfb_ms_p99'),
  }
}
