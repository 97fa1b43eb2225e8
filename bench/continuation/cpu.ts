/** CPU of the gateway for a stream that does not fail, with `mid_stream: ids` and without. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { median } from '../median.ts'
import { cpuSeconds, startServed } from '../proxy/processes.ts'
import { cutDocument, MODEL, SECRET } from './cases.ts'

const ROUNDS = 5
const CONCURRENT = 8

export interface Cpu {
  readonly streams: number
  readonly cpu_ms_off: number
  readonly cpu_ms_ids: number
  readonly cpu_ratio: number
}

/** Alternates between two gateways, so that load of the machine affects both. */
export async function measureCpu(folder: string, urls: readonly string[], streams: number): Promise<Cpu> {
  const modes = ['off', 'ids'] as const
  const gateways = await Promise.all(
    modes.map((mode) => {
      const file = join(folder, `${mode}.yaml`)
      writeFileSync(file, JSON.stringify(cutDocument(urls, { mid_stream: mode })))
      return startServed(file)
    }),
  )
  const each: Record<(typeof modes)[number], number[]> = { off: [], ids: [] }
  try {
    for (const { port } of gateways) await load(port, streams)
    for (let round = 0; round < ROUNDS; round++)
      for (const [at, mode] of modes.entries()) {
        const { pid, port } = gateways[at]!
        const from = cpuSeconds(pid)
        await load(port, streams)
        each[mode].push(((cpuSeconds(pid) - from) * 1000) / streams)
      }
  } finally {
    for (const gateway of gateways) gateway.stop()
  }
  const [off, ids] = [median(each.off), median(each.ids)]
  return {
    streams: ROUNDS * streams,
    cpu_ms_off: Math.round(off * 100) / 100,
    cpu_ms_ids: Math.round(ids * 100) / 100,
    cpu_ratio: Math.round((ids / off) * 100) / 100,
  }
}

async function load(port: number, streams: number): Promise<void> {
  let next = 0
  const client = async (): Promise<void> => {
    while (next++ < streams) {
      const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: SECRET }], stream: true }),
      })
      await response.arrayBuffer()
    }
  }
  await Promise.all(Array.from({ length: CONCURRENT }, client))
}
