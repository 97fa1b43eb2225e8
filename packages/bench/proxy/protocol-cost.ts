/**
 * CPU of streams of Messages and Responses, against chats with the same tokens: of the gateway, and of a pipe that reads
 * nothing. A stream of Responses has nearly twice the bytes of a chat's, and the pipe shows what they cost by themselves.
 */
import { median } from '../median.ts'
import type { BenchRow } from '../result.ts'
import { runLoad, startScript, startServed, type StartedProcess } from './processes.ts'

const CHAT = '/v1/chat/completions'
const OTHERS = [
  ['messages', '/v1/messages'],
  ['responses', '/v1/responses'],
] as const
const BURST = { connections: 64, bytes: 1024, pace: [0, 0] } as const
const REQUESTS = 4_000
const WARM_REQUESTS = 20_000

interface ProtocolSite {
  readonly configFile: string
  /** Engines of the pipe. */
  readonly urls: readonly string[]
  readonly pairs: number
  readonly note: (line: string) => void
}

interface ProtocolCost {
  readonly rows: readonly BenchRow[]
  readonly headline: Readonly<Record<string, number>>
}

/** Measures slices of load in turns on one gateway and one pipe that are warm in all protocols. */
export async function measureProtocolCost({ configFile, urls, pairs, note }: ProtocolSite): Promise<ProtocolCost> {
  const gateway = await startServed(configFile)
  try {
    const pipe = await startScript('http-pipe.ts', urls)
    try {
      const subjects = { firstlight: gateway, pipe }
      for (const subject of Object.values(subjects))
        for (const path of [CHAT, ...OTHERS.map(([, other]) => other)]) await cpuOf(subject, path, WARM_REQUESTS)
      const rows = []
      for (const [name, path] of OTHERS)
        for (const [subject, started] of Object.entries(subjects)) {
          note(`${subject}: ${pairs} pairs of ${name} and chat`)
          rows.push({ subject, name, ...(await compare(started, path, pairs)) })
        }
      return {
        rows: rows.map(({ subject, name, us, ratio }) => ({
          scenario: '1k burst c64',
          subject: `${subject}, ${name}`,
          cpu_us: us,
          cpu_ratio_vs_chat: ratio,
        })),
        headline: Object.fromEntries(
          rows.map(({ subject, name, ratio }) => [`cpu_${name}_vs_chat${subject === 'pipe' ? '_pipe' : ''}`, ratio]),
        ),
      }
    } finally {
      pipe.stop()
    }
  } finally {
    gateway.stop()
  }
}

/** Medians of the CPU of a path, and of its ratio to chats before or after it. */
async function compare(subject: StartedProcess, path: string, pairs: number): Promise<{ us: number; ratio: number }> {
  const us: number[] = []
  const ratios: number[] = []
  for (let pair = 0; pair < pairs; pair++) {
    const before = pair % 2 === 0 ? await cpuOf(subject, path, REQUESTS) : null
    const chat = await cpuOf(subject, CHAT, REQUESTS)
    us.push(before ?? (await cpuOf(subject, path, REQUESTS)))
    ratios.push(us.at(-1)! / chat)
  }
  return { us: median(us), ratio: median(ratios) }
}

async function cpuOf({ port, pid }: StartedProcess, path: string, requests: number): Promise<number> {
  const load = { ...BURST, path, port, requests, warmRequests: BURST.connections }
  return (await runLoad(load, pid)).cpu_us!
}
