/** Delay of another client by uploads, for any division into pieces, and the memory they use. */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { setTimeout as sleep } from 'node:timers/promises'
import { cpuSeconds, guard } from '../proxy/processes.ts'
import { connect, documentOf, MODEL, waitFor } from './client.ts'
import { mib, type Figure } from './figure.ts'
import { Site, type Gateway } from './processes.ts'
import type { Waits } from './prober.ts'

export const STALL_GOAL_MS = 50
const MAX_TRIES = 8
/** No further attempt of an upload starts later. */
const TRIES_MS = 15_000
/** The body may be held twice; the young heap and sockets grow with any load. */
const SLACK_MIB = 64
const UPLOAD_LIMIT_MS = 25_000

interface Upload {
  readonly name: string
  /** Counts in the headline; the others have other causes than their division. */
  readonly isTruncated: boolean
  /** Bytes of the body without its framing. */
  readonly bodyBytes: number
  readonly bytes: () => Buffer
}

/** A chat with about this many characters. */
const chatOf = (content: string): string => `{"model":"${MODEL}","messages":[{"role":"user","content":"${content}"}]}`
const filler = (length: number): string => 'lorem ipsum '.repeat(Math.ceil(length / 12)).slice(0, length)
const head = (path: string, lines: string): string =>
  `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n${lines}\r\n`
const CHAT = '/v1/chat/completions'
const JSON_TYPE = 'content-type: application/json\r\n'

/** Chunks of `size` bytes. `extension` follows each size. */
function chunked(body: string, size: number, extension = ''): string {
  const parts: string[] = []
  for (let at = 0; at < body.length; at += size) {
    const piece = body.slice(at, at + size)
    parts.push(`${piece.length.toString(16)}${extension}\r\n${piece}\r\n`)
  }
  return `${parts.join('')}0\r\n\r\n`
}

const inChunks = (body: string, size: number, extension?: string): Buffer =>
  Buffer.from(head(CHAT, `${JSON_TYPE}transfer-encoding: chunked\r\n`) + chunked(body, size, extension))
const whole = (body: string): Buffer =>
  Buffer.from(head(CHAT, `${JSON_TYPE}content-length: ${Buffer.byteLength(body)}\r\n`) + body)

const part = (name: string, more: string, value: string): string =>
  `--f\r\ncontent-disposition: form-data; name="${name}"${more}\r\n\r\n${value}\r\n`

function form(bytes: number): Buffer {
  const body = `${part('model', '', MODEL)}${part('file', '; filename="a.mp3"\r\ncontent-type: audio/mpeg', filler(bytes))}--f--\r\n`
  return Buffer.from(
    head(
      '/v1/audio/transcriptions',
      'content-type: multipart/form-data; boundary=f\r\ntransfer-encoding: chunked\r\n',
    ) + chunked(body, 1),
  )
}

const UPLOADS: readonly Upload[] = [
  {
    name: '1,000,000 chunks of 1 byte',
    isTruncated: true,
    bodyBytes: 1_000_000,
    bytes: () => inChunks(chatOf(filler(1_000_000)), 1),
  },
  {
    name: '1,000,000 chunks of 1 byte with extensions',
    isTruncated: true,
    bodyBytes: 1_000_000,
    bytes: () => inChunks(chatOf(filler(1_000_000)), 1, ';x=y'),
  },
  {
    name: '1,000,000 chunks of 1 byte, blanks before a body',
    isTruncated: true,
    bodyBytes: 1_000_000,
    bytes: () => inChunks(`${' '.repeat(1_000_000)}${chatOf('hi')}`, 1),
  },
  {
    name: '5,000,000 chunks of 1 byte',
    isTruncated: true,
    bodyBytes: 5_000_000,
    bytes: () => inChunks(chatOf(filler(5_000_000)), 1),
  },
  {
    name: '300,000 chunks of 16 bytes',
    isTruncated: true,
    bodyBytes: 4_800_000,
    bytes: () => inChunks(chatOf(filler(4_800_000)), 16),
  },
  { name: '300,000 chunks of 1 byte, a form', isTruncated: true, bodyBytes: 300_000, bytes: () => form(300_000) },
  {
    name: '31 MB of text, one length',
    isTruncated: false,
    bodyBytes: 31_000_000,
    bytes: () => whole(chatOf(filler(31_000_000))),
  },
  {
    name: '31 MB of \\u escapes, one length',
    isTruncated: false,
    bodyBytes: 31_000_000,
    bytes: () => whole(chatOf('\\u0041'.repeat(5_160_000))),
  },
]

export async function stall(note: (line: string) => void): Promise<Figure[]> {
  const site = new Site()
  try {
    const engines = await site.engines(1)
    const control = await site.engines(1)
    const figures: Figure[] = []
    const baseline = await withGateway(site, engines.urls, control.urls, async (_gateway, prober) => {
      prober.send('begin')
      await sleep(3_000)
      return endOf(prober)
    })
    figures.push({
      attack: 'uploads',
      figure: 'baseline_stall_ms',
      value: round(baseline.maxMs),
      note: `no attack; ${shown(baseline)}`,
    })
    for (const upload of UPLOADS) {
      note(`uploads: ${upload.name}`)
      figures.push(...(await measured(site, upload, [engines.urls, control.urls])))
    }
    return figures
  } finally {
    await site.stop()
  }
}

/**
 * A delay that the gateway causes appears in every attempt, one of the machine does not: the least of at most eight
 * attempts counts. All are noted.
 */
async function measured(
  site: Site,
  upload: Upload,
  [engines, control]: readonly [readonly string[], readonly string[]],
): Promise<Figure[]> {
  const tries: StallResult[] = []
  const bytes = upload.bytes()
  const began = performance.now()
  while (tries.length < MAX_TRIES && performance.now() - began < TRIES_MS) {
    tries.push(await withGateway(site, engines, control, (gateway, prober) => attack(gateway, prober, bytes)))
    if (tries.at(-1)!.waits.maxMs <= STALL_GOAL_MS) break
    // Otherwise the machine may have doubled the CPU time of a process.
    if ((tries.at(-1)!.waits.cpuMaxMs ?? 0) > 2 * STALL_GOAL_MS) break
  }
  const best = tries.toSorted((one, other) => one.waits.maxMs - other.waits.maxMs)[0]!
  const all = tries.map(({ waits }) => `${round(waits.maxMs)} (${shown(waits)})`).join(', ')
  const sent = `${(bytes.length / 1e6).toFixed(1)} MB sent, ${best.cpuS.toFixed(2)} s of CPU, answered ${best.status}`
  return [
    {
      attack: `upload: ${upload.name}`,
      figure: upload.isTruncated ? 'stall_ms_max' : 'stall_ms_large_body',
      value: round(best.waits.maxMs),
      goal: STALL_GOAL_MS,
      note: `tries: ${all}`,
    },
    {
      attack: `upload: ${upload.name}`,
      figure: 'rss_growth_mib',
      value: mib(best.rssGrowth),
      goal: Math.round((2 * upload.bodyBytes) / 2 ** 20) + SLACK_MIB,
      note: sent,
    },
  ]
}

interface StallResult {
  readonly waits: Waits
  readonly rssGrowth: number | null
  readonly cpuS: number
  readonly status: string
}

async function attack(gateway: Gateway, prober: ChildProcess, bytes: Buffer): Promise<StallResult> {
  gateway.resetPeak()
  const before = gateway.rssBytes
  const cpuBefore = cpuSeconds(gateway.pid)
  const client = await connect(gateway.port)
  prober.send('begin')
  client.socket.write(bytes)
  const answered = await waitFor(
    () => client.text().includes('\r\n') || client.closed() || !gateway.alive,
    UPLOAD_LIMIT_MS,
    5,
  )
  // Memory that is freed late is freed by a collection, which delays others too.
  await sleep(200)
  const waits = await endOf(prober)
  const peak = gateway.peakBytes
  const cpuS = cpuSeconds(gateway.pid) - cpuBefore
  client.socket.destroy()
  return {
    waits,
    rssGrowth: peak === null || before === null ? null : peak - before,
    cpuS,
    status: answered ? client.text().slice(9, 12) || 'closed' : `nothing within ${UPLOAD_LIMIT_MS / 1000} s`,
  }
}

/** Each attempt has its own gateway: the heap after one upload must not affect the next. */
async function withGateway<T>(
  site: Site,
  engines: readonly string[],
  control: readonly string[],
  use: (gateway: Gateway, prober: ChildProcess) => Promise<T>,
): Promise<T> {
  const gateway = await site.gateway(documentOf(engines))
  const prober = fork(fileURLToPath(new URL('prober.ts', import.meta.url)), [
    String(gateway.port),
    new URL(control[0]!).port,
    String(gateway.pid),
  ])
  guard(prober)
  try {
    // Its first requests are slower than all others.
    await sleep(700)
    return await use(gateway, prober)
  } finally {
    prober.kill('SIGKILL')
    await gateway.kill()
  }
}

async function endOf(prober: ChildProcess): Promise<Waits> {
  const answered = once(prober, 'message')
  prober.send('end')
  return ((await answered) as [Waits])[0]
}

/** Maximum waits of the control process and CPU time of the gateway. */
const shown = ({ controlMaxMs, cpuMaxMs }: Waits): string =>
  `control ${round(controlMaxMs)}${cpuMaxMs === null ? '' : `, own CPU ${round(cpuMaxMs)}`}`

const round = (ms: number): number => Math.round(ms * 10) / 10
