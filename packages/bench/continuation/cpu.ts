/**
 * CPU of the gateway for a stream that does not fail: with `mid_stream: ids`, without, and with the least that a relay of
 * web streams can do (floor-gateway.ts).
 */
import { writeFileSync } from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { setTimeout as sleep } from 'node:timers/promises'
import { median } from '../median.ts'
import { cpuSeconds, startServed } from '../proxy/processes.ts'
import { continuationDocument, MODEL, SECRET } from './cases.ts'

const ROUNDS = 5
const CONCURRENT = 16
const TOKENS = 100

export interface Cpu {
  readonly engine: string
  readonly streams: number
  readonly cpu_ms_off: number
  readonly cpu_ms_ids: number
  readonly cpu_ms_floor: number
  readonly cpu_ratio: number
  readonly cpu_ratio_floor: number
}

/** An engine that sends one token in each event, as vLLM writes it. Its prompt and output are always the same. */
class PlainEngine {
  readonly #everyMs: number
  readonly #server = http.createServer((request, response) => void this.#serve(request, response))
  url = ''

  /** @param everyMs time between two tokens; 0: all at once */
  constructor(everyMs: number) {
    this.#everyMs = everyMs
  }

  async open(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  close(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }

  async #serve(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    let text = ''
    for await (const chunk of request) text += String(chunk)
    if (request.method !== 'POST') return void response.end('{}')
    const { return_token_ids: returnsIds } = JSON.parse(text) as { return_token_ids?: boolean }
    const ids = (list: readonly number[]): readonly number[] | null => (returnsIds === true ? list : null)
    const write = (delta: object, rest: object, more: object = {}): void => {
      const choices = [{ index: 0, delta, logprobs: null, finish_reason: null, ...rest }]
      response.write(`data: ${JSON.stringify({ ...HEAD, choices, ...more })}\n\n`)
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    write({ role: 'assistant', content: '' }, {}, { prompt_token_ids: ids(PROMPT_IDS), prompt_text: null })
    for (let at = 1; at <= TOKENS; at++) {
      if (this.#everyMs > 0) await sleep(this.#everyMs)
      const finish = at === TOKENS ? { finish_reason: 'stop' } : {}
      write({ content: ' instruction' }, { ...finish, token_ids: ids([5000 + at]) })
    }
    response.end('data: [DONE]\n\n')
  }
}

const HEAD = { id: 'chatcmpl-bf9e0a1b2c3d4e5f', object: 'chat.completion.chunk', created: 1_795_403_495, model: MODEL }
const PROMPT_IDS = Array.from({ length: 64 }, (_, at) => 2000 + at)

/** Engines that send a token each 5 ms, as engines do, and engines that send all at once. */
export async function measureCpu(folder: string, streams: number): Promise<readonly Cpu[]> {
  const rows: Cpu[] = []
  for (const everyMs of [5, 0]) {
    const engine = new PlainEngine(everyMs)
    await engine.open()
    const name = everyMs > 0 ? 'paced' : 'burst'
    rows.push({ engine: name, ...(await compare(folder, engine.url, streams).finally(() => engine.close())) })
  }
  return rows
}

const MODES = ['off', 'ids', 'floor'] as const
type Mode = (typeof MODES)[number]
const FLOOR = fileURLToPath(new URL('floor-gateway.ts', import.meta.url))

/** Alternates between the gateways, so that load of the machine affects all. */
async function compare(folder: string, url: string, streams: number): Promise<Omit<Cpu, 'engine'>> {
  const gateways = await Promise.all(
    MODES.map((mode) => {
      const file = join(folder, `${mode}.yaml`)
      writeFileSync(file, JSON.stringify(continuationDocument([url], { mid_stream: mode === 'ids' ? 'ids' : 'off' })))
      return startServed(file, mode === 'floor' ? { script: FLOOR } : {})
    }),
  )
  const each: Record<Mode, number[]> = { off: [], ids: [], floor: [] }
  try {
    for (const [at, { port }] of gateways.entries()) await load(port, streams, MODES[at]!)
    for (let round = 0; round < ROUNDS; round++)
      for (const [at, mode] of MODES.entries()) {
        const { pid, port } = gateways[at]!
        const from = cpuSeconds(pid)
        await load(port, streams, mode)
        each[mode].push(((cpuSeconds(pid) - from) * 1000) / streams)
      }
  } finally {
    for (const gateway of gateways) gateway.stop()
  }
  const { off, ids, floor } = { off: median(each.off), ids: median(each.ids), floor: median(each.floor) }
  return {
    streams: ROUNDS * streams,
    cpu_ms_off: rounded(off),
    cpu_ms_ids: rounded(ids),
    cpu_ms_floor: rounded(floor),
    cpu_ratio: rounded(ids / off),
    cpu_ratio_floor: rounded(floor / off),
  }
}

const rounded = (value: number): number => Math.round(value * 100) / 100

async function load(port: number, streams: number, mode: Mode): Promise<void> {
  let next = 0
  const body = JSON.stringify({
    model: MODEL,
    messages: [{ role: 'user', content: SECRET }],
    stream: true,
    // The floor requests no ids itself.
    ...(mode === 'floor' ? { return_token_ids: true } : {}),
  })
  const client = async (): Promise<void> => {
    while (next++ < streams) {
      const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body,
      })
      await response.arrayBuffer()
    }
  }
  await Promise.all(Array.from({ length: CONCURRENT }, client))
}
