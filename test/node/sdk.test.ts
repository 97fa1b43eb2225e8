import { NotFoundError, OpenAI } from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { demoConfig, startDemoFleet } from '../../src/platform/node/demo.ts'
import { openLog } from '../../src/platform/node/log.ts'
import type { RunningFleet } from '../../src/platform/node/simulator-host.ts'
import { startGateway, type RunningGateway } from '../../src/platform/node/start-gateway.ts'

let fleet: RunningFleet
let gateway: RunningGateway
let client: OpenAI

beforeAll(async () => {
  fleet = await startDemoFleet(2)
  gateway = await startGateway(demoConfig(fleet, { host: '127.0.0.1', port: 0 }), openLog('silent'))
  client = new OpenAI({ apiKey: 'none', baseURL: `${gateway.url}/v1` })
})

afterAll(async () => {
  await gateway.stop(AbortSignal.abort())
  await fleet.close()
})

const hello = { model: 'sim', max_tokens: 8, messages: [{ role: 'user' as const, content: 'Good morning' }] }

async function all<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const list: Item[] = []
  for await (const item of items) list.push(item)
  return list
}

interface FleetView {
  readonly pools: readonly { readonly bookings: number; readonly engines: readonly { readonly id: string; readonly requests: number; readonly requests_total: number }[] }[]
}

const view = async (): Promise<FleetView> => (await (await fetch(`${gateway.url}/v1/firstlight/fleet`)).json()) as FleetView

/** Until no request is booked: releases follow the last byte. */
async function idle(): Promise<FleetView> {
  for (;;) {
    const seen = await view()
    if (seen.pools.every(({ bookings }) => bookings === 0)) return seen
  }
}

describe('the openai client, a gateway on Node and a simulated fleet', () => {
  it('talk without a stream, with the engine’s usage', async () => {
    const answer = await client.chat.completions.create(hello)
    expect(answer.choices[0]?.message.content).not.toBe('')
    expect(answer.usage?.completion_tokens).toBe(8)
  })

  it('stream, and nobody sees the usage record the gateway asked for', async () => {
    const chunks = await all(await client.chat.completions.create({ ...hello, stream: true }))
    expect(chunks.filter(({ choices }) => choices.length === 0)).toEqual([])
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe('length')
  })

  it('stream with usage for a client that asks for it', async () => {
    const chunks = await all(await client.chat.completions.create({ ...hello, stream: true, stream_options: { include_usage: true } }))
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 8 } })
  })

  it('use every engine, and leave no booking behind', async () => {
    await Promise.all(Array.from({ length: 8 }, () => client.chat.completions.create(hello)))
    const { pools } = await idle()
    for (const engine of pools[0]!.engines) {
      expect(engine.requests).toBe(0)
      expect(engine.requests_total).toBeGreaterThan(0)
    }
  })

  it('leave no booking behind when the client goes in the middle of a stream', async () => {
    const stream = await client.chat.completions.create({ ...hello, max_tokens: 4000, stream: true })
    await stream[Symbol.asyncIterator]().next()
    stream.controller.abort()
    const { pools } = await idle()
    expect(pools[0]!.engines.map(({ requests }) => requests)).toEqual([0, 0])
  })

  it('agree on what does not exist', async () => {
    await expect(client.chat.completions.create({ ...hello, model: 'nobody' })).rejects.toThrow(NotFoundError)
    await expect(client.models.retrieve('nobody')).rejects.toThrow(NotFoundError)
    expect((await client.models.retrieve('sim')).owned_by).toBe('firstlight')
  })
})

describe('transfer parameters of a client', () => {
  it('reach no engine, in whatever spelling', async () => {
    const text = '{"model":"sim", "seed":12345678901234567890,"\\u006bv_transfer_params":{"do_remote_prefill":true}, "prompt":"x","vllm_xargs":{"ec_transfer_params":"x"}}'
    const response = await fetch(`${gateway.url}/v1/completions`, { method: 'POST', headers: { 'content-type': 'application/json', 'x-request-id': 'spelled' }, body: text })
    await response.arrayBuffer()
    const seen = fleet.engines.flatMap(({ log }) => log.recent).find(({ headers }) => headers['x-request-id'] === 'spelled')
    expect(seen?.body).toBe('{"model":"sim", "seed":12345678901234567890,"prompt":"x","vllm_xargs":{}}')
  })
})
