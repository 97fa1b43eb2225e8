/**
 * Refusals over HTTP: `firstlight serve` before a stub engine, with clients that are served, and with clients of another
 * pool besides that are refused 1,000 times per second and ignore Retry-After.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import net, { type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { median } from '../median.ts'
import { guard, runLoad, type LoadResult, startScript, startServed } from '../proxy/processes.ts'
import type { BenchRow } from '../result.ts'

const PER_S = 1_000
const BYTES = 8_192
const SERVED = { connections: 8, bytes: 1_024, pace: [50, 5], warmMs: 2_000, ms: 8_000 } as const

interface RefusedLoad {
  readonly name: string
  /** null: none. */
  readonly same: boolean | null
}

const LOADS: readonly RefusedLoad[] = [
  { name: 'none', same: null },
  { name: 'the same request', same: true },
  { name: 'different requests', same: false },
]

/** Rounds of all loads, of which each figure is the median: other work on the machine disturbs some. */
const ROUNDS = 3

export async function refusalsOverHttp(note: (line: string) => void): Promise<{
  readonly rows: readonly BenchRow[]
  readonly headline: Readonly<Record<string, number>>
}> {
  const folder = mkdtempSync(join(tmpdir(), 'firstlight-refusals-'))
  const full = await silentEngine()
  const engine = await startScript('../proxy/stub-engine.ts', ['0'])
  const file = join(folder, 'firstlight.json')
  writeFileSync(file, JSON.stringify(documentOf(engine.port, full.port)))
  const gateway = await startServed(file)
  try {
    const held = holdPlace(gateway.port)
    await full.requested
    const measured = new Map<string, OverloadResult[]>(LOADS.map(({ name }) => [name, []]))
    for (let round = 1; round <= ROUNDS; round++) {
      for (const load of LOADS) {
        note(`refused clients: ${load.name}, round ${round} of ${ROUNDS} …`)
        measured.get(load.name)!.push(await measure(load, gateway))
      }
    }
    held.destroy()
    return resultOf(measured)
  } finally {
    gateway.stop()
    engine.stop()
    full.close()
    rmSync(folder, { recursive: true })
  }
}

const documentOf = (engine: number, full: number) => ({
  open: true,
  log: { level: 'error' },
  clusters: [
    {
      id: 'c',
      pools: [
        { model: 'fake', engines: [{ id: 'e', url: `http://127.0.0.1:${engine}` }] },
        { model: 'full', max_waiting: 1, engines: [{ id: 'f', url: `http://127.0.0.1:${full}` }] },
      ],
    },
  ],
})

/** An engine that is healthy, and answers no prompt. */
async function silentEngine() {
  const { promise: requested, resolve } = Promise.withResolvers<void>()
  const server = net.createServer((socket) => {
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      if (bytes.includes('POST ')) resolve()
      else socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}')
    })
  })
  await new Promise<void>((done) => void server.listen(0, '127.0.0.1', done))
  return { port: (server.address() as AddressInfo).port, requested, close: () => void server.close() }
}

/** Occupies the only place of the pool `full`. */
function holdPlace(port: number): net.Socket {
  const body = '{"model":"full","stream":true,"messages":[{"role":"user","content":"Hello"}]}'
  const socket = net.connect(port, '127.0.0.1')
  socket.write(
    'POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n' +
      `content-length: ${body.length}\r\n\r\n${body}`,
  )
  return socket
}

interface OverloadResult {
  readonly served: LoadResult
  readonly refusalsPerS: number
  readonly others: number
}

async function measure({ same }: RefusedLoad, gateway: { port: number; pid: number }): Promise<OverloadResult> {
  const plan = { port: gateway.port, ...SERVED }
  if (same === null) return { served: await runLoad(plan, gateway.pid), refusalsPerS: 0, others: 0 }
  const refused = startRefused(gateway.port, same)
  const served = await runLoad(plan, gateway.pid)
  const { statuses, ms } = await refused.end()
  const { 429: refusals = 0, ...others } = statuses
  const rest = Object.values(others).reduce((sum, count) => sum + count, 0)
  return { served, refusalsPerS: (1_000 * refusals) / ms, others: rest }
}

function startRefused(port: number, same: boolean) {
  const script = fileURLToPath(new URL('refused-clients.ts', import.meta.url))
  const plan = JSON.stringify({ port, perS: PER_S, bytes: BYTES, same })
  const child = spawn(process.execPath, [script, plan], { stdio: ['ignore', 'pipe', 'inherit'] })
  const stop = guard(child)
  let text = ''
  child.stdout.on('data', (bytes) => (text += String(bytes)))
  return {
    async end(): Promise<{ readonly statuses: Readonly<Record<string, number>>; readonly ms: number }> {
      const closed = new Promise((resolve) => child.once('close', resolve))
      stop()
      await closed
      return JSON.parse(text.trim().split('\n').at(-1)!)
    },
  }
}

const cpuPerS = ({ served }: OverloadResult): number => ((served.cpu_us ?? NaN) * served.requests) / (SERVED.ms / 1_000)

function resultOf(measured: ReadonlyMap<string, readonly OverloadResult[]>) {
  const figures = new Map(
    [...measured].map(([name, rounds]) => {
      const idle = measured.get('none')!
      return [
        name,
        {
          p50: median(rounds.map(({ served }) => served.ttfb_ms_p50)),
          p99: median(rounds.map(({ served }) => served.ttfb_ms_p99)),
          refusalsPerS: median(rounds.map(({ refusalsPerS }) => refusalsPerS)),
          others: rounds.reduce((sum, { others }) => sum + others, 0),
          cpuUs: median(rounds.map((one, at) => (cpuPerS(one) - cpuPerS(idle[at]!)) / one.refusalsPerS)),
        },
      ] as const
    }),
  )
  const alone = figures.get('none')!
  const rows = [...figures].map(([name, { p50, p99, refusalsPerS, others, cpuUs }]) => ({
    refused_clients: name,
    refusals_per_s: Math.round(refusalsPerS),
    not_refused: others,
    served_ttfb_p50_ms: round(p50),
    served_ttfb_p99_ms: round(p99),
    p50_ratio: round(p50 / alone.p50),
    cpu_per_refusal_us: name === 'none' ? null : Math.round(cpuUs),
  }))
  const beside = [...figures.values()].filter((one) => one !== alone)
  return {
    rows,
    headline: {
      served_p50_ratio_max: Math.max(...beside.map(({ p50 }) => round(p50 / alone.p50))),
      refusal_http_us_max: Math.max(...beside.map(({ cpuUs }) => Math.round(cpuUs))),
    },
  }
}

const round = (value: number): number => Number(value.toFixed(3))
