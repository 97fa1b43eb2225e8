/**
 * Endpoint picker behind a real Envoy, with stub engines: equal admissions, bookings at the end, lost requests, CPU per
 * request beside the gateway's own in the same run, and the time that the picker adds to the same Envoy with a static
 * cluster. CPU figures are those of the picker's process, without Envoy.
 *
 * Flags: --envoy PROGRAM (default: envoy on PATH) · --requests 10000 (in each processing mode) · --admissions 500 ·
 * --repeats 3 · --seconds 3
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freeAddress } from '../../src/platform/node/threads/free-address.ts'
import { until } from './conformance/until.ts'
import { admissionsOf, differences, startRecorded } from './epp/admissions.ts'
import { sendBroken } from './epp/broken-messages.ts'
import { runChats } from './epp/chats.ts'
import { type EnvoyMode, findEnvoy, MODES, startEnvoy } from './epp/envoy.ts'
import { median } from './median.ts'
import { type LoadResult, runLoad, startScript, startServed, type StartedProcess } from './proxy/processes.ts'
import type { BenchOptions, BenchResult, BenchRow } from './result.ts'

const ENGINES = 4
const ADMIN = 'admin-key-of-the-bench'
const ABORT_EVERY = 50

const LOADS = [
  { name: '1k_spaced', connections: 32, bytes: 1024, pace: [20, 5] },
  { name: '1k_burst', connections: 16, bytes: 1024, pace: [0, 0] },
  { name: '220k', connections: 4, bytes: 220_000, pace: [0, 0] },
  { name: '400k', connections: 4, bytes: 400_000, pace: [0, 0] },
  { name: '1k_alone', connections: 1, bytes: 1024, pace: [0, 0] },
] as const

type LoadName = (typeof LOADS)[number]['name']

interface Site {
  readonly gateway: StartedProcess
  readonly picker: StartedProcess
  readonly pickerPort: number
  readonly engines: readonly number[]
  readonly envoyOf: (mode: EnvoyMode) => Promise<StartedProcess>
}

export default async function epp({ flags, note }: BenchOptions): Promise<BenchResult> {
  const { program, version } = findEnvoy(flags['envoy'])
  note(`Envoy ${version}`)
  const folder = mkdtempSync(join(tmpdir(), 'firstlight-epp-'))
  const started: StartedProcess[] = []
  try {
    const site = await openSite(folder, program, started)
    const admissions = await compareAdmissions(site, { program, folder }, Number(flags['admissions'] ?? 500))
    note(`admissions: ${admissions.compared} compared, ${admissions.differ} differ`)
    const modes = await runModes(site, Number(flags['requests'] ?? 10_000), note)
    const costs = await measureCosts(site, flags, note)
    const all = modes.rows.reduce((sum, { mode, sent }) => sum + (mode === 'gateway' ? 0 : Number(sent)), 0)
    const headline = {
      requests: all,
      admissions_differ: admissions.differ,
      leaked_bookings: modes.leaked,
      lost_requests: modes.rows.reduce((sum, { lost }) => sum + Number(lost), 0),
      broken_messages_hurt_others: modes.hurt,
      ...costs.headline,
    }
    return { rows: [...modes.rows, ...costs.rows], headline }
  } finally {
    for (const one of started) one.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

async function openSite(folder: string, program: string, started: StartedProcess[]): Promise<Site> {
  const keep = <One extends StartedProcess>(one: One): One => (started.push(one), one)
  const engines: number[] = []
  for (let at = 0; at < ENGINES; at++) engines.push(keep(await startScript('stub-engine.ts', ['0'])).port)
  const { port: pickerPort } = await freeAddress({ host: '127.0.0.1', port: 0 })
  const served = async (name: string, rest: object): Promise<StartedProcess> => {
    const file = join(folder, `${name}.json`)
    const pool = {
      model: 'fake',
      engines: engines.map((port, at) => ({ id: `e${at}`, url: `http://127.0.0.1:${port}` })),
    }
    const clusters = [{ id: 'bench', pools: [pool] }]
    writeFileSync(
      file,
      JSON.stringify({ admin: { secret: ADMIN }, open: true, log: { level: 'warn' }, clusters, ...rest }),
    )
    return keep(await startServed(file))
  }
  return {
    gateway: await served('gateway', {}),
    picker: await served('picker', { epp: { listen: `127.0.0.1:${pickerPort}`, tls: 'off' } }),
    pickerPort,
    engines,
    envoyOf: async (mode) => keep(await startEnvoy({ program, folder, engines, picker: pickerPort }, mode)),
  }
}

/** In full duplex and one at a time: prompt lengths are learned from responses. */
async function compareAdmissions(
  { engines }: Site,
  { program, folder }: { readonly program: string; readonly folder: string },
  count: number,
): Promise<{ readonly compared: number; readonly differ: number }> {
  const alone = await startRecorded(engines)
  const expected = await admissionsOf(alone, Number(new URL(alone.gateway.url).port), count)
  const behind = await startRecorded(engines)
  const picker = Number(behind.gateway.picker!.split(':')[1])
  const envoy = await startEnvoy({ program, folder, engines, picker }, 'full_duplex')
  try {
    const placed = await admissionsOf(behind, envoy.port, count)
    return { compared: placed.length, differ: differences(expected, placed) }
  } finally {
    envoy.stop()
    for (const { gateway } of [alone, behind]) await gateway.stop(AbortSignal.timeout(1_000))
  }
}

interface ModesResult {
  readonly rows: readonly BenchRow[]
  readonly leaked: number
  readonly hurt: number
}

/** Chats in each mode, some of them aborted, while a broken proxy sends to the same picker. */
async function runModes(site: Site, requests: number, note: BenchOptions['note']): Promise<ModesResult> {
  // As many as the picker serves in one mode, so that its code is as warm.
  const alone = await runChats({ port: site.gateway.port, requests, connections: 16, abortEvery: ABORT_EVERY })
  const rows: BenchRow[] = [{ mode: 'gateway', ...alone, broken_calls: 0 }]
  let hurt = 0
  for (const mode of Object.keys(MODES) as EnvoyMode[]) {
    if (mode === 'static') continue
    const envoy = await site.envoyOf(mode)
    const ends = new AbortController()
    const broken = sendBroken(site.pickerPort, ends.signal)
    const counts = await runChats({ port: envoy.port, requests, connections: 16, abortEvery: ABORT_EVERY })
    ends.abort()
    rows.push({ mode, ...counts, broken_calls: await broken })
    hurt += counts.lost
    note(`${mode}: ${counts.complete} complete, ${counts.aborted} aborted, ${counts.lost} lost`)
    envoy.stop()
  }
  return { rows, leaked: await bookingsLeft(site.picker.port), hurt }
}

/** Bookings of the picker once releases have had their time. */
async function bookingsLeft(port: number): Promise<number> {
  let left = 0
  const areNone = async (): Promise<boolean> => {
    const answer = await fetch(`http://127.0.0.1:${port}/v1/firstlight/fleet`, {
      headers: { authorization: `Bearer ${ADMIN}` },
    })
    const { pools } = (await answer.json()) as { readonly pools: readonly { readonly bookings: number }[] }
    left = pools.reduce((sum, { bookings }) => sum + bookings, 0)
    return left === 0
  }
  await until(areNone, 'the bookings to end', { limitMs: 5_000 }).catch(() => undefined)
  return left
}

interface Costs {
  readonly rows: readonly BenchRow[]
  readonly headline: Readonly<Record<string, number>>
}

/** Interleaves the gateway, the picker and the static Envoy in each repeat. */
async function measureCosts(site: Site, flags: BenchOptions['flags'], note: BenchOptions['note']): Promise<Costs> {
  const ms = Number(flags['seconds'] ?? 3) * 1000
  const subjects = [
    ['envoy_static', await site.envoyOf('static'), null],
    ['gateway', site.gateway, site.gateway.pid],
    ['picker', await site.envoyOf('full_duplex'), site.picker.pid],
    ['picker_heads', await site.envoyOf('heads'), site.picker.pid],
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
