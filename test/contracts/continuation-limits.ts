/** What bounds and counts continuations of streams, on any runtime: attempts, retry budget, circuits, bookings. */
import { afterEach, describe, expect, it, vi } from 'vitest'
import { ByteEngine } from '../kit/byte-engine.ts'
import { read, type Streamed } from './continuation.ts'
import { ADMIN } from '../kit/split-gateway.ts'
import { runtimeNames, startRuntime, type RunningGateway, type Runtime } from '../kit/gateway.ts'

type Json = Readonly<Record<string, unknown>>

const MODEL = 'base'
const PROMPT = 'A ship, a port and a long way to go: tell me all about it.'
const OUTPUT = 'She sails at dawn, and nobody knows where to.'
const TOKENS = new TextEncoder().encode(OUTPUT).length
const PATIENT = { timeout: 10_000, interval: 50 }

class Site {
  readonly engines: readonly ByteEngine[]
  readonly gateway: RunningGateway
  session = ''

  static async open(runtime: Runtime, pool: Json): Promise<Site> {
    const engines = [0, 1, 2].map(() => new ByteEngine(PROMPT, OUTPUT))
    await Promise.all(engines.map((engine) => engine.open()))
    const gateway = await startRuntime(runtime, {
      open: true,
      admin: { secret: ADMIN },
      ttft: { enabled: true },
      log: { level: 'silent' },
      limits: { heartbeat_ms: 0 },
      clusters: [
        {
          id: 'c',
          pools: [
            {
              model: MODEL,
              policy: 'session',
              engines: engines.map(({ url }, at) => ({ id: `e${at}`, url })),
              ...pool,
            },
          ],
        },
      ],
    })
    const site = new Site(engines, gateway)
    for (let at = 0; site.session === ''; at++) {
      const response = await site.send({}, `s${at}`)
      await response.arrayBuffer()
      if (response.headers.get('x-firstlight-engine') === 'e0') site.session = `s${at}`
    }
    return site
  }

  private constructor(engines: readonly ByteEngine[], gateway: RunningGateway) {
    this.engines = engines
    this.gateway = gateway
  }

  send(more: Json = {}, session = this.session): Promise<Response> {
    return fetch(`${this.gateway.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-session-id': session },
      body: JSON.stringify({ model: MODEL, prompt: PROMPT, stream: true, max_tokens: 500, ...more }),
    })
  }

  /** A stream that its first engine resets after `after` tokens. */
  async truncate(after: number, more: Json = {}): Promise<Streamed & { readonly id: string }> {
    this.engines[0]!.next({ fault: 'reset', after })
    const response = await this.send(more)
    const id = response.headers.get('x-firstlight-decision')!.split(';', 1)[0]!
    return { ...(await read(response)), id }
  }

  async admin(path: string): Promise<string> {
    const response = await fetch(this.gateway.url + path, { headers: { authorization: `Bearer ${ADMIN}` } })
    return response.text()
  }

  async circuits(): Promise<Json> {
    const { pools } = JSON.parse(await this.admin('/v1/firstlight/fleet')) as {
      pools: { engines: { id: string; circuit: unknown }[] }[]
    }
    return Object.fromEntries(pools.flatMap(({ engines }) => engines.map(({ id, circuit }) => [id, circuit])))
  }

  async close(): Promise<void> {
    await this.gateway.close()
    for (const engine of this.engines) await engine.close()
  }
}

const message = (reason: string): object => ({
  code: 'engine_stream_truncated',
  message: expect.stringContaining(`(${reason})`),
})

export function continuationLimitsContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  describe(`the continuation of a stream on ${name}`, () => {
    let site: Site | null = null
    afterEach(async () => {
      await site?.close()
      site = null
    })
    const retry = { share: 1, min_per_s: 1000, mid_stream: 'ids' }
    const open = async (pool: Json): Promise<Site> => (site = await Site.open(runtime, pool))

    it('a stream is continued at most mid_stream_max times', async () => {
      const { engines, truncate } = bound(
        await open({ retry: { ...retry, mid_stream_max: 1 }, circuit: { failures: 1000 } }),
      )
      for (const engine of engines.slice(1)) engine.next({ fault: 'end', after: 4 })
      const { error, text } = await truncate(9)
      expect({ error, text }).toEqual({
        error: expect.objectContaining(message('attempts')),
        text: OUTPUT.slice(0, 13),
      })
    }, 60_000)

    it('a stream is not continued if the retry budget is spent', async () => {
      const { truncate } = bound(
        await open({ retry: { ...retry, share: 0, min_per_s: 0.1 }, circuit: { failures: 1000 } }),
      )
      expect(await truncate(9)).toMatchObject({ text: OUTPUT, error: null })
      expect(await truncate(9)).toMatchObject({ text: OUTPUT.slice(0, 9), error: message('retry_budget') })
    }, 60_000)

    it('the circuit, the records and the metrics count the failure of a stream that was continued', async () => {
      const { truncate, circuits, admin } = bound(await open({ retry, circuit: { failures: 3, open_ms: 600_000 } }))
      for (let count = 0; count < 3; count++) expect(await truncate(9)).toMatchObject({ text: OUTPUT, error: null })
      await vi.waitFor(async () => expect(await circuits()).toMatchObject({ e0: 'open', e1: 'closed' }), PATIENT)
      await vi.waitFor(async () => {
        const lines = (await admin('/metrics')).split('\n')
        const counted = lines.filter((line) => /^firstlight_stream_continuations_total\{.*"continued"/.test(line))
        expect(counted.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)).toBe(3)
      }, PATIENT)
    }, 60_000)

    it('the continuation of a stream is booked with its prompt and its output so far', async () => {
      const { truncate, admin } = bound(await open({ retry, circuit: { failures: 1000 } }))
      const uncut = await read(await site!.send())
      expect(uncut.text).toBe(OUTPUT)
      const { id } = await truncate(21)
      const decision = JSON.parse(await admin(`/v1/firstlight/decisions/${id}`)) as Json
      expect(decision).toMatchObject({ attempt: 1, prompt_tokens: PROMPT.length + 21 })
    }, 60_000)

    it('a request whose output took longer than mid_stream_replay_ms is not repeated', async () => {
      const replay = { ...retry, mid_stream: 'replay', mid_stream_replay_ms: 1 }
      const { truncate } = bound(await open({ retry: replay, circuit: { failures: 1000 } }))
      const { error, text } = await truncate(TOKENS - 4, { response_format: { type: 'json_object' }, temperature: 0 })
      expect({ error, text }).toEqual({
        error: expect.objectContaining(message('replay_too_long')),
        text: OUTPUT.slice(0, TOKENS - 4),
      })
    }, 60_000)
  })
}

const bound = (site: Site) => ({
  engines: site.engines,
  truncate: site.truncate.bind(site),
  circuits: site.circuits.bind(site),
  admin: site.admin.bind(site),
})
