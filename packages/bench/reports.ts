/**
 * Cost of the TTFT report pipeline: partial reports per second by transport, memory of a live request, cost of a flush.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readPartial, type ReportPartial } from '../../src/core/reports/report-partial.ts'
import type { RequestRecord } from '../../src/core/reports/request-record.ts'
import { ReportStore } from '../../src/core/reports/report-store.ts'
import { TtftState } from '../../src/core/reports/ttft-state.ts'
import { cpuSeconds, startServed } from './proxy/processes.ts'
import type { Bench, BenchRow } from './result.ts'

const LIMITS = { maxRequests: 1_000_000, maxBytes: 4 * 2 ** 30, ttlMs: 3_600_000 }
const CONNECTIONS = 16
const BATCH = 500

/** Partial reports of request `at`, as the patched engines send them; ids have the suffix that vLLM adds. */
function partialsOf(at: number): object[] {
  const request_id = `chatcmpl-bench-${at.toString(36)}-${(at % 0xffffffff).toString(16).padStart(8, '0')}`
  return [
    { role: 'encoder', request_id, enc_queue_time_ms: 0.5 },
    { role: 'encoder', request_id, enc_compute_time_ms: 120.25 },
    { role: 'pd', request_id, prefill_queue_time_ms: 3.5 },
    { role: 'pd', request_id, emb_cache_transfer_time_ms: 2.25, prefill_compute_time_ms: 207.5 },
  ]
}

const bench: Bench = async ({ flags, note }) => {
  const seconds = Number(flags['seconds'] ?? 3)
  const rows: BenchRow[] = [inMemory()]
  const folder = mkdtempSync(join(tmpdir(), 'firstlight-reports-'))
  const file = join(folder, 'firstlight.yaml')
  writeFileSync(
    file,
    'listen: 127.0.0.1:0\nlog: { level: warn }\nttft: { enabled: true, max_requests: 200000, max_bytes: ' +
      '1073741824 }\nclusters: [{ id: bench, pools: [{ model: m, engines: [{ id: e, url: "http://127.0.0.1:9" }] ' +
      '}] }]\n',
  )
  const gateway = await startServed(file)
  try {
    for (const [name, send] of WAYS) {
      note(`${name}: ${seconds} s`)
      await send(gateway.port, 0.5)
      const cpu = cpuSeconds(gateway.pid)
      const { partials, wallS } = await send(gateway.port, seconds)
      rows.push({
        way: name,
        partials_per_s: partials / wallS,
        partials_per_core_s: partials / (cpuSeconds(gateway.pid) - cpu),
      })
    }
  } finally {
    gateway.stop()
    rmSync(folder, { recursive: true, force: true })
  }
  const bytes = liveBytes()
  const flush = flushCost()
  rows.push(
    { way: 'memory of a live request, bytes', value: bytes.measured },
    { way: 'the same as the store counts it, bytes', value: bytes.counted },
    { way: 'flush of 500 records, us a record', value: flush },
  )
  const perCore = (way: string): number => Number(rows.find((row) => row['way'] === way)!['partials_per_core_s'])
  return {
    rows,
    headline: {
      partials_per_s: perCore('batches of 500, kept alive'),
      single_partials_per_s: perCore('one a request, kept alive'),
      raw_partials_per_s: perCore('one a connection'),
      bytes_per_request: bytes.measured,
      flush_us_per_record: flush,
    },
  }
}

export default bench

function inMemory(): BenchRow {
  const store = new ReportStore(LIMITS)
  const partials = Array.from({ length: 50_000 }, (_, at) => partialsOf(at))
    .flat()
    .map((one) => readPartial(one) as ReportPartial)
  const from = process.cpuUsage()
  for (const partial of partials) store.add(partial, 0)
  const perS = partials.length / (cpuUsSince(from) / 1e6)
  return { way: 'the store alone', partials_per_core_s: perS }
}

function liveBytes(): { readonly measured: number; readonly counted: number } {
  const requests = 50_000
  const store = new ReportStore(LIMITS)
  globalThis.gc?.()
  const before = process.memoryUsage().heapUsed
  for (let at = 0; at < requests; at++)
    for (const one of partialsOf(at)) store.add(readPartial(one) as ReportPartial, 0)
  globalThis.gc?.()
  return { measured: (process.memoryUsage().heapUsed - before) / requests, counted: store.bytes / requests }
}

const recordOf = (at: number): RequestRecord => ({
  id: `bench-${at.toString(36)}`,
  requestId: `bench-${at.toString(36)}`,
  receivedAt: 1.8e12,
  durationMs: 900,
  path: '/v1/chat/completions',
  model: 'm',
  cluster: 'c',
  engine: `e${at % 64}`,
  prefillEngine: null,
  placement: 'whole',
  policy: 'predicted',
  notes: [],
  stream: true,
  status: 200,
  result: 'complete',
  failedAttempts: [],
  stages: { edge: 0.1, tokens: 0.4, admit: 0.1, connect: 1, first_byte: 80, ttft: 82 },
  predictedTtftMs: 75,
  usage: { promptTokens: 900, completionTokens: 80, cachedTokens: 512 },
  textOnly: false,
})

/** Flush into a state that already holds reports. */
function flushCost(): number {
  const state = new TtftState({ store: LIMITS })
  const batches = Array.from({ length: 60 }, (_, seq) => ({
    source: 's',
    epoch: 1,
    seq: seq + 1,
    records: Array.from({ length: BATCH }, (__, at) => recordOf(seq * BATCH + at)),
  }))
  for (const batch of batches.slice(0, 10)) state.flush(batch, 0)
  const from = process.cpuUsage()
  for (const batch of batches.slice(10)) state.flush(batch, 0)
  return cpuUsSince(from) / (50 * BATCH)
}

/** CPU time of this process, so that other work on the machine does not count. */
function cpuUsSince(from: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(from)
  return user + system
}

interface SendResult {
  readonly partials: number
  readonly wallS: number
}

type Way = (port: number, seconds: number) => Promise<SendResult>

let next = 0

const post = (body: string, more = ''): string =>
  'POST /ttft_report HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: ' +
  `${Buffer.byteLength(body)}\r\n${more}\r\n${body}`

/** On each connection the next request follows the previous response. */
function keptAlive(make: () => { readonly text: string; readonly partials: number }): Way {
  return async (port, seconds) => {
    const from = performance.now()
    let partials = 0
    const lane = () =>
      new Promise<void>((resolve, reject) => {
        const socket = connect({ host: '127.0.0.1', port, noDelay: true })
        let waiting = 0
        const send = (): void => {
          if ((performance.now() - from) / 1000 > seconds) return void socket.end(() => resolve())
          const { text, partials: count } = make()
          waiting = count
          socket.write(text)
        }
        socket.on('connect', send)
        socket.on('error', reject)
        socket.on('data', (data: Buffer) => {
          if (!data.includes('HTTP/1.1 200')) return
          partials += waiting
          send()
        })
      })
    await Promise.all(Array.from({ length: CONNECTIONS }, lane))
    return { partials, wallS: (performance.now() - from) / 1000 }
  }
}

/** One connection each, as the patched engines do; the response is only awaited as an acknowledgement. */
const oneEach: Way = async (port, seconds) => {
  const from = performance.now()
  let partials = 0
  const lane = async (): Promise<void> => {
    while ((performance.now() - from) / 1000 < seconds) {
      const [body] = partialsOf(next++)
      await new Promise<void>((resolve) => {
        const socket = connect({ host: '127.0.0.1', port })
        socket.on('connect', () => socket.write(post(JSON.stringify(body), 'Connection: close\r\n')))
        socket.on('data', () => partials++)
        socket.on('error', () => resolve())
        socket.on('close', () => resolve())
      })
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, lane))
  return { partials, wallS: (performance.now() - from) / 1000 }
}

const single = keptAlive(() => ({ text: post(JSON.stringify(partialsOf(next++)[0])), partials: 1 }))
const batches = keptAlive(() => {
  const all = Array.from({ length: BATCH / 4 }, () => partialsOf(next++)).flat()
  return { text: post(JSON.stringify(all)), partials: all.length }
})

const WAYS: readonly (readonly [string, Way])[] = [
  ['batches of 500, kept alive', batches],
  ['one a request, kept alive', single],
  ['one a connection', oneEach],
]
