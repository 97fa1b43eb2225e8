/** A gateway in front of simulated prefill, decode and encode engines on real ports, with queries for tests. */
import { expect, vi } from 'vitest'
import { startFleet, type RunningFleet } from '../../packages/simulator/src/node/fleet-host.ts'
import type { SimulatedEngine } from '../../packages/simulator/src/engine.ts'
import type { EngineOptions } from '../../packages/simulator/src/engine-options.ts'
import { ownPorts } from '../own-ports.ts'
import { type RunningGateway, type Runtime, startRuntime } from './gateway.ts'

/** One pool, named like its model. Every test has its own, because learned values stay with it. */
export interface SplitPool {
  readonly engines: readonly string[]
  readonly split?: Readonly<Record<string, unknown>>
  readonly limits?: Readonly<Record<string, number>>
  readonly more?: Readonly<Record<string, unknown>>
}

export interface Answered {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

export type Body = Readonly<Record<string, unknown>>

export const ADMIN = 'admin-secret-for-tests'
const roles: Readonly<Record<string, NonNullable<EngineOptions['role']>>> = {
  p: 'prefill',
  d: 'decode',
  e: 'encode',
  a: 'any',
}
export const receiverOf = (id: string) => ({ host: `${id}.kv`, init_ports: [8300, 8301], alloc_ports: [8400, 8401] })

export class SplitBench {
  readonly fleet: RunningFleet
  readonly gateway: RunningGateway

  constructor(fleet: RunningFleet, gateway: RunningGateway) {
    this.fleet = fleet
    this.gateway = gateway
  }

  /** Engines are named by role: p0, p1, d0 … and a0. `w` is in no pool; its whole responses are the reference. */
  static async open(
    runtime: Runtime,
    connector: 'nixl' | 'response' | 'lmcache',
    pools: Readonly<Record<string, SplitPool>>,
    heartbeatMs = 0,
  ): Promise<SplitBench> {
    const ids = [...new Set(Object.values(pools).flatMap(({ engines }) => engines))].sort()
    const options = ids.map((id): EngineOptions => {
      const { host, init_ports: initPorts, alloc_ports: allocPorts } = receiverOf(id)
      return {
        id,
        role: roles[id[0]!]!,
        connector: id.startsWith('e') ? null : connector,
        ...(connector === 'lmcache' && id.startsWith('d') ? { receiver: { host, initPorts, allocPorts } } : {}),
      }
    })
    const shared = {
      model: 'base',
      adapters: Object.keys(pools),
      profile: 'test',
      keepRequests: 64,
      connectLimitMs: 500,
    }
    const fleet = await startFleet({
      ...shared,
      engines: [...options, { id: 'w' }],
      port: ownPorts(options.length + 2),
    })
    const urlOf = (id: string) => fleet.urls[fleet.engines.findIndex(({ settings }) => settings.id === id)]!
    const clusters = Object.entries(pools).map(([model, { engines, split, limits, more }]) => ({
      id: `c-${model}`,
      pools: [
        {
          model,
          policy: 'round_robin',
          stats_interval_ms: 60_000,
          observe_share: 1,
          retry: { share: 1, min_per_s: 1000 },
          circuit: { failures: 1000, open_ms: 1000 },
          limits: { connect_ms: 5000, ...limits },
          split: {
            connector,
            ...(connector === 'lmcache'
              ? {
                  lmcache: {
                    decoders: Object.fromEntries(
                      engines.filter((id) => id.startsWith('d')).map((id) => [id, receiverOf(id)]),
                    ),
                  },
                }
              : {}),
            ...split,
          },
          engines: engines.map((id) => ({ id, role: roles[id[0]!]!, url: urlOf(id) })),
          ...more,
        },
      ],
    }))
    const gateway = await startRuntime(runtime, {
      version: 1,
      open: true,
      admin: { secret: ADMIN },
      log: { level: 'silent' },
      limits: { heartbeat_ms: heartbeatMs },
      clusters,
    })
    if (runtime === 'node') await probed(gateway.url)
    return new SplitBench(fleet, gateway)
  }

  async close(): Promise<void> {
    await this.gateway.close()
    await this.fleet.close()
  }

  engine(id: string): SimulatedEngine {
    return this.fleet.engine(id)
  }

  heal(): void {
    for (const engine of this.fleet.engines) engine.setFault(null)
  }

  ask(path: string, body: Body | string, init: RequestInit = {}): Promise<Answered> {
    return send(`${this.gateway.url}${path}`, body, init)
  }

  /** The same request to one engine alone, with the same request id. */
  whole(path: string, body: Body, requestId: string): Promise<Answered> {
    return send(`${this.fleet.urls.at(-1)!}${path}`, body, { headers: { 'x-request-id': requestId } })
  }

  /** Bodies of requests for this model that reached an engine, oldest first. */
  bodies(id: string, model: string): Body[] {
    return this.engine(id)
      .log.recent.map(({ body }) => JSON.parse(body) as Body)
      .filter((body) => body['model'] === model)
  }

  async decision(
    answered: Answered,
  ): Promise<{ placement: Body; split?: { taken: boolean; why: string }; attempt: number; actual: Body | null }> {
    const id = answered.headers.get('x-firstlight-decision')!.split(';')[0]!
    const response = await this.#admin(`/v1/firstlight/decisions/${id}`)
    return (await response.json()) as Awaited<ReturnType<SplitBench['decision']>>
  }

  /** Resolves when no booking is open and no request runs. Releases follow the responses. */
  async quiet(): Promise<void> {
    const state = async () => {
      const { pools } = (await (await this.#admin('/v1/firstlight/fleet')).json()) as {
        pools: { bookings: number; engines: { requests: number; active_blocks: number; queued_prefill_s: number }[] }[]
      }
      const held = pools.flatMap(({ engines }) =>
        engines.map((one) => one.requests + one.active_blocks + one.queued_prefill_s),
      )
      return {
        bookings: pools.reduce((sum, one) => sum + one.bookings, 0),
        held: held.reduce((sum, one) => sum + one, 0),
        running: this.fleet.engines.reduce((sum, { log }) => sum + log.running, 0),
      }
    }
    await expect.poll(state, { interval: 50 }).toEqual({ bookings: 0, held: 0, running: 0 })
  }

  #admin(path: string): Promise<Response> {
    return fetch(`${this.gateway.url}${path}`, { headers: { authorization: `Bearer ${ADMIN}` } })
  }
}

async function send(url: string, body: Body | string, init: RequestInit): Promise<Answered> {
  const headers = { 'content-type': 'application/json', ...(init.headers as Record<string, string> | undefined) }
  const response = await fetch(url, {
    method: 'POST',
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...init,
    headers,
  })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

/** Text that the client reads in a response, streamed or not. */
export function wordsOf({ text }: Answered): string {
  if (!text.startsWith('data:') && !text.startsWith('event:')) return textOf(JSON.parse(text) as Body)
  const payloads = text
    .split('\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice(6)) as Body)
  return payloads.map(deltaOf).join('')
}

function deltaOf(payload: Body): string {
  if (payload['type'] === 'response.output_text.delta') return String(payload['delta'])
  if (payload['type'] === 'content_block_delta') return String((payload['delta'] as { text: string }).text)
  return payload['type'] === undefined ? textOf(payload) : ''
}

function textOf(payload: Body): string {
  const output = payload['output'] as { content?: { text: string }[] }[] | undefined
  if (output !== undefined) return output.flatMap(({ content }) => (content ?? []).map(({ text }) => text)).join('')
  if (payload['type'] === 'message') return (payload['content'] as { text: string }[]).map(({ text }) => text).join('')
  const choices = (payload['choices'] ?? []) as {
    text?: string
    message?: { content: string }
    delta?: { content?: string }
  }[]
  return choices.map((choice) => choice.text ?? choice.message?.content ?? choice.delta?.content ?? '').join('')
}

/** A response without parts that differ from run to run. */
export function comparable(text: string): string {
  return text
    .replaceAll(/"(created|created_at)":\d+/g, '"$1":0')
    .replaceAll(/"(resp|msg)_[0-9a-f]+"/g, '"$1"')
    .replaceAll(/,"metrics":\{[^}]*\}/g, '')
    .replaceAll(/,"prompt_tokens_details":\{[^}]*\}/g, '')
    .replaceAll(/,"input_tokens_details":\{[^}]*\}/g, '')
}

/** Resolves after the first round of probes, which would otherwise see the faults of a later test. */
async function probed(url: string): Promise<void> {
  await vi.waitFor(
    async () => {
      const response = await fetch(`${url}/v1/firstlight/fleet`, { headers: { authorization: `Bearer ${ADMIN}` } })
      const { pools } = (await response.json()) as { pools: { engines: { stats: unknown }[] }[] }
      expect(pools.flatMap(({ engines }) => engines).filter(({ stats }) => stats === null)).toEqual([])
    },
    { timeout: 30_000, interval: 100 },
  )
}
