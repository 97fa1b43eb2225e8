/** CPU of streams of Messages and Responses, against chats with the same tokens. */
import { median } from '../median.ts'
import type { BenchRow } from '../result.ts'
import { runLoad, startServed } from './processes.ts'

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
  readonly pairs: number
  readonly note: (line: string) => void
}

interface ProtocolCost {
  readonly rows: readonly BenchRow[]
  readonly headline: Readonly<Record<string, number>>
}

/** Measures slices of load in turns on one gateway that is warm in all protocols. */
export async function measureProtocolCost({ configFile, pairs, note }: ProtocolSite): Promise<ProtocolCost> {
  const gateway = await startServed(configFile)
  const cpuOf = async (path: string, requests: number): Promise<number> => {
    const load = { ...BURST, path, port: gateway.port, requests, warmRequests: BURST.connections }
    return (await runLoad(load, gateway.pid)).cpu_us!
  }
  try {
    for (const path of [CHAT, ...OTHERS.map(([, other]) => other)]) await cpuOf(path, WARM_REQUESTS)
    const rows = []
    for (const [name, path] of OTHERS) {
      const us: number[] = []
      const ratios: number[] = []
      for (let pair = 0; pair < pairs; pair++) {
        note(`${pair + 1}/${pairs} ${name} and chat`)
        const isFirst = pair % 2 === 0
        const before = isFirst ? await cpuOf(path, REQUESTS) : null
        const chat = await cpuOf(CHAT, REQUESTS)
        const own = before ?? (await cpuOf(path, REQUESTS))
        us.push(own)
        ratios.push(own / chat)
      }
      rows.push({
        scenario: '1k burst c64',
        subject: `firstlight, ${name}`,
        cpu_us: median(us),
        cpu_ratio_vs_chat: median(ratios),
      })
    }
    const figures = rows.map(({ cpu_ratio_vs_chat: ratio }, at) => [`cpu_${OTHERS[at]![0]}_vs_chat`, ratio])
    return { rows, headline: Object.fromEntries(figures) as Record<string, number> }
  } finally {
    gateway.stop()
  }
}
