/**
 * Streams that continue at another engine (docs/continuation.md): streams cut at random bytes on both runtimes, the gap
 * that the client sees, a rolling restart, and the CPU that `mid_stream: ids` costs when nothing fails.
 *
 * Flags: --cuts 10000 (streams on each runtime) · --runtime node|workers (absent: both) · --seed 1 · --gaps 60 ·
 * --restart-streams 100 (at once) · --cpu-streams 400. 0 leaves a part out.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildWorker } from '../../scripts/build-worker.ts'
import { startEdge } from '../../scripts/edge.ts'
import { ByteEngine } from '../../test/kit/byte-engine.ts'
import { continuationDocument, faultsAt, OUTPUT, randomCase, randomOf, SECRET } from './continuation/cases.ts'
import { measureCpu } from './continuation/cpu.ts'
import { measureGaps } from './continuation/gaps.ts'
import { measureRestart } from './continuation/restart.ts'
import { startServed } from './proxy/processes.ts'
import type { BenchOptions, BenchResult, BenchRow } from './result.ts'

const ENGINES = 3
const CONCURRENT = 16
/** Wrong streams that are printed. */
const PRINTED = 5

interface Gateway {
  readonly url: string
  stop(): unknown
}

export default async function continuation({ flags, note }: BenchOptions): Promise<BenchResult> {
  const streams = Number(flags['cuts'] ?? 10_000)
  const seed = Number(flags['seed'] ?? 1)
  const folder = mkdtempSync(join(tmpdir(), 'firstlight-continuation-'))
  const engines = Array.from({ length: ENGINES }, () => new ByteEngine(SECRET, OUTPUT))
  await Promise.all(engines.map((engine) => engine.open()))
  const urls = engines.map(({ url }) => url)
  try {
    const rows: BenchRow[] = []
    const document = continuationDocument(urls, { mid_stream: 'ids' })
    const runtimes = runtimesOf(flags, folder)
    for (const [runtime, open] of streams === 0 ? [] : runtimes) {
      note(`${streams} streams on ${runtime}`)
      const gateway = await open(document)
      const truncationRun = { runtime, url: gateway.url, streams, seed, engines, note }
      rows.push(await truncateStreams(truncationRun).finally(() => gateway.stop()))
    }
    const wrong = rows.reduce((sum, row) => sum + Number(row['wrong']), 0)
    const { rest, headline } = await otherParts(flags, folder, note)
    if (wrong > 0 || (headline['restart_errors'] ?? 0) > 0) process.exitCode = 1
    return {
      rows: [...rows, ...rest].map((row) => ({ ...COLUMNS, ...row })),
      headline: {
        streams: rows.length * streams,
        wrong_streams: wrong,
        continued: rows.reduce((sum, row) => sum + Number(row['continued']), 0),
        ...headline,
      },
    }
  } finally {
    for (const engine of engines) await engine.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

type Open = (document: object) => Promise<Gateway>

function runtimesOf({ runtime: only }: BenchOptions['flags'], folder: string): readonly (readonly [string, Open])[] {
  const all: readonly (readonly [string, Open])[] = [
    ['node', (document) => startNode(folder, JSON.stringify(document))],
    ['workers', (document) => startWorker(JSON.stringify(document))],
  ]
  return all.filter(([name]) => only === undefined || only === name)
}

/** Gaps, a rolling restart, and the CPU without failures. */
async function otherParts(
  flags: BenchOptions['flags'],
  folder: string,
  note: BenchOptions['note'],
): Promise<{ readonly rest: readonly BenchRow[]; readonly headline: Readonly<Record<string, number>> }> {
  const rest: BenchRow[] = []
  const headline: Record<string, number> = {}
  const streamsOf = (name: string, max: number): number => Number(flags[name] ?? max)
  if (streamsOf('gaps', 60) > 0) {
    note('gaps')
    const gaps = await measureGaps(streamsOf('gaps', 60))
    rest.push({ part: 'gaps', ...gaps })
    headline['gap_ratio_p50'] = gaps.gap_ratio_p50
  }
  if (streamsOf('restart-streams', 100) > 0) {
    headline['restart_errors'] = 0
    for (const [runtime, start] of runtimesOf(flags, folder)) {
      note(`rolling restart on ${runtime}`)
      const plan = { concurrent: streamsOf('restart-streams', 100), seed: streamsOf('seed', 1), start, note }
      const { concurrent: _concurrent, ...restart } = await measureRestart(plan)
      rest.push({ part: 'rolling restart', runtime, ...restart })
      headline['restart_errors'] += restart.wrong + restart.leaked_bookings
    }
  }
  if (streamsOf('cpu-streams', 400) > 0) {
    note('CPU without failures')
    const cpu = await measureCpu(folder, streamsOf('cpu-streams', 400))
    for (const row of cpu) rest.push({ part: 'CPU', ...row })
    headline['cpu_ratio'] = cpu[0]!.cpu_ratio
    headline['cpu_ratio_burst'] = cpu[1]!.cpu_ratio
    for (const { engine, cpu_ratio_floor: floor } of cpu) headline[`cpu_ratio_floor_${engine}`] = floor
  }
  return { rest, headline }
}

const COLUMNS: BenchRow = {
  part: null,
  runtime: 'node',
  streams: null,
  continued: null,
  wrong: null,
  leaked_bookings: null,
  gap_ms_p50: null,
  predicted_ms_p50: null,
  gap_ratio_p50: null,
  engine: null,
  cpu_ms_off: null,
  cpu_ms_ids: null,
  cpu_ms_floor: null,
  cpu_ratio: null,
  cpu_ratio_floor: null,
}

async function startNode(folder: string, document: string): Promise<Gateway> {
  const file = join(folder, 'cuts.yaml')
  writeFileSync(file, document)
  const { port, stop } = await startServed(file)
  return { url: `http://127.0.0.1:${port}`, stop }
}

async function startWorker(document: string): Promise<Gateway> {
  await buildWorker('dist/worker')
  return startEdge({ port: 0, bindings: { FIRSTLIGHT_CONFIG: document }, quiet: true })
}

interface TruncationRun {
  readonly runtime: string
  readonly url: string
  readonly streams: number
  readonly seed: number
  readonly engines: readonly ByteEngine[]
  note(line: string): void
}

async function truncateStreams({ runtime, url, streams, seed, engines, note }: TruncationRun): Promise<BenchRow> {
  const random = randomOf(seed)
  let next = 0
  let wrong = 0
  const before = continuations(engines)
  const client = async (): Promise<void> => {
    while (next < streams) {
      const one = randomCase(random, `${runtime} ${next++}`)
      const faults = await faultsAt(url, one)
      if (faults.length > 0 && ++wrong <= PRINTED) note(`${faults.join(', ')}: ${JSON.stringify(one)}`)
    }
  }
  await Promise.all(Array.from({ length: CONCURRENT }, client))
  return { part: 'cuts', runtime, streams, continued: continuations(engines) - before, wrong }
}

/** Requests by token ids: those of the gateway itself. */
const continuations = (engines: readonly ByteEngine[]): number =>
  engines.reduce((sum, { continued }) => sum + continued, 0)
