/** Requests that a second engine gets because the first byte is late, on any runtime. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { FakeAnswer } from '../kit/fake-answer.ts'
import type { EngineRequest } from '../kit/engine-request.ts'
import { FakeEngine } from '../kit/fake-engine.ts'
import { HeldAnswer } from '../kit/held-engine.ts'
import { completion, DONE, sseEvent, sseAnswer } from '../kit/sse.ts'
import { until } from '../wait.ts'
import { ADMIN } from '../kit/split-gateway.ts'
import { leavesBy, type RunningGateway, runtimeNames, startRuntime, type Runtime } from '../kit/gateway.ts'
import { postAndLeave } from '../kit/leaving-client.ts'

type Json = Readonly<Record<string, unknown>>

const MODEL = 'base'
const HEDGE_MS = 40
const HELLO = { model: MODEL, messages: [{ role: 'user', content: 'hello' }], max_tokens: 4 }

/** A request that an engine has got and has not answered. */
class HeldRequest {
  readonly engine: string
  readonly #answer: HeldAnswer

  constructor(engine: string, answer: HeldAnswer) {
    this.engine = engine
    this.#answer = answer
  }

  get isAborted(): boolean {
    return this.#answer.isAborted
  }

  answer(): void {
    this.#answer.send(answerOf(this.engine, this.#answer.request))
  }

  refuse(status: number, message = 'no'): void {
    this.#answer.send({ status, body: { error: { message, type: 'x', code: status } } })
  }

  break(): void {
    this.#answer.reset()
  }
}

/** An engine that answers a request when the test says so, or at once. */
class PacedEngine {
  readonly id: string
  readonly held: HeldRequest[] = []
  /** Time before it answers; null: when the test says so. */
  delayMs: number | null = null
  /** Further requests are answered with this status. */
  status: number | null = null
  engine!: FakeEngine

  constructor(id: string) {
    this.id = id
  }

  async open(): Promise<void> {
    this.engine = await FakeEngine.open({ 'POST *': (request) => this.#serve(request), '*': { body: '' } })
  }

  get url(): string {
    return this.engine.url
  }

  #serve(request: EngineRequest): FakeAnswer | Promise<FakeAnswer> {
    // A busy machine makes requests overdue, so that the gateway tries the engine itself.
    if (request.isTrial) return answerOf(this.id, request)
    const answer = new HeldAnswer(request)
    const held = new HeldRequest(this.id, answer)
    if (this.status !== null) held.refuse(this.status)
    else if (this.delayMs === null) this.held.push(held)
    else setTimeout(() => held.answer(), this.delayMs)
    return answer.answer
  }
}

function answerOf(text: string, { json }: EngineRequest): FakeAnswer {
  const usage = { prompt_tokens: 7, completion_tokens: 1, total_tokens: 8 }
  const message = { id: 'chatcmpl-1', created: 1, model: MODEL }
  if (json['stream'] !== true) return { body: { ...completion(text, usage), ...message } }
  const chunk = (more: Json): string => sseEvent({ ...message, object: 'chat.completion.chunk', ...more })
  const first = chunk({ choices: [{ index: 0, delta: { content: text }, finish_reason: 'stop' }] })
  return sseAnswer([first, chunk({ choices: [], usage }) + DONE])
}

interface Answered {
  readonly status: number
  readonly engine: string | null
  readonly decision: string
  readonly timing: string
  readonly text: string
}

class Site {
  readonly engines: readonly PacedEngine[]
  readonly #runtime: Runtime
  readonly #gateway: RunningGateway
  #sent = 0
  /** Label of the last request. */
  #label = ''

  constructor(runtime: Runtime, engines: readonly PacedEngine[], gateway: RunningGateway) {
    this.#runtime = runtime
    this.engines = engines
    this.#gateway = gateway
  }

  static async open(runtime: Runtime, retry: Json, ids: readonly string[] = ['a', 'b']): Promise<Site> {
    const engines = ids.map((id) => new PacedEngine(id))
    await Promise.all(engines.map((engine) => engine.open()))
    const gateway = await startRuntime(runtime, {
      open: true,
      admin: { secret: ADMIN },
      log: { level: 'silent' },
      limits: { heartbeat_ms: 0 },
      ttft: { enabled: true },
      clusters: [
        {
          id: 'c',
          pools: [
            {
              model: MODEL,
              observe_share: 1,
              retry: { share: 1, min_per_s: 1000, hedge_ms: HEDGE_MS, ...retry },
              circuit: { failures: 1 },
              engines: engines.map(({ id, url }) => ({ id, url })),
            },
          ],
        },
      ],
    })
    return new Site(runtime, engines, gateway)
  }

  async close(): Promise<void> {
    await this.#gateway.close()
    for (const { engine } of this.engines) await engine.close()
  }

  /** Engines answer when the test says so. */
  reset(): void {
    for (const engine of this.engines) {
      engine.held.length = 0
      engine.delayMs = null
      engine.status = null
    }
  }

  set(change: Partial<Pick<PacedEngine, 'delayMs' | 'status'>>): void {
    for (const engine of this.engines) Object.assign(engine, change)
  }

  /** Requests at engines. */
  async held(count: number): Promise<readonly HeldRequest[]> {
    return until(() => {
      const all = this.engines.flatMap(({ held }) => held)
      return all.length >= count ? all : null
    })
  }

  /** The engine that has the request, and the one that is asked when it is late. */
  async both(): Promise<{ readonly first: HeldRequest; readonly second: HeldRequest }> {
    const all = await this.held(2)
    // The order in which they came says nothing: each may have waited for its connection.
    const hedge = await until(async () => {
      const { decision } = (await this.admin(`/v1/firstlight/requests/${this.#label}`)) as { decision?: Json | null }
      return decision?.['hedge'] === true ? (decision['placement'] as { readonly engine: string }) : null
    })
    return {
      first: all.find(({ engine }) => engine !== hedge.engine)!,
      second: all.find(({ engine }) => engine === hedge.engine)!,
    }
  }

  async ask(stream = true, { label = `r${++this.#sent}` }: Ask = {}): Promise<Answered> {
    this.#label = label
    const response = await fetch(`${this.#gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-request-id': label },
      body: JSON.stringify({ ...HELLO, stream }),
    })
    return {
      status: response.status,
      engine: response.headers.get('x-firstlight-engine'),
      decision: response.headers.get('x-firstlight-decision') ?? '',
      timing: response.headers.get('server-timing') ?? '',
      text: await response.text(),
    }
  }

  /** A stream whose client leaves when `signal` is aborted. */
  leave(signal: AbortSignal): Promise<void> {
    this.#label = `r${++this.#sent}`
    const url = `${this.#gateway.url}/v1/chat/completions`
    const headers = { 'x-request-id': this.#label }
    return postAndLeave({ url, body: { ...HELLO, stream: true }, headers, by: leavesBy(this.#runtime) }, signal)
  }

  async admin(path: string, method = 'GET'): Promise<Json> {
    const headers = { authorization: `Bearer ${ADMIN}` }
    return (await (await fetch(this.#gateway.url + path, { method, headers })).json()) as Json
  }

  /** `hedge` in the record of a request that has ended, and the decision that answered. */
  async hedge(label: string): Promise<{ readonly hedge: unknown; readonly decision: Json }> {
    const found = await until(async () => {
      const known = (await this.admin(`/v1/firstlight/requests/${label}`)) as { record?: Json | null; decision?: Json }
      if (known.record == null || known.decision == null) return null
      // The release of the attempt that lost may come later.
      const { engine, result } = known.record
      const { placement, actual } = known.decision as { placement: Json; actual: Json | null }
      return result === 'refused' || (engine === placement['engine'] && actual !== null) ? known : null
    })
    return { hedge: found.record!['hedge'], decision: found.decision! }
  }

  /** No booking and no queued prefill is left. */
  async isQuiet(): Promise<void> {
    interface View {
      readonly requests: number
      readonly queued_prefill_s?: number
      readonly circuit: unknown
    }
    const engines = await until(async () => {
      const { pools } = (await this.admin('/v1/firstlight/fleet')) as { pools: { engines: View[] }[] }
      const all = pools.flatMap((pool) => pool.engines)
      return all.every(({ requests }) => requests === 0) ? all : null
    })
    expect(engines.map(({ queued_prefill_s: queued = 0 }) => queued)).toEqual(engines.map(() => 0))
  }

  async metric(result: string): Promise<number> {
    const headers = { authorization: `Bearer ${ADMIN}` }
    const text = await (await fetch(`${this.#gateway.url}/metrics`, { headers })).text()
    return [...text.matchAll(/^firstlight_hedges_total\{(.*)\} (\d+)$/gm)]
      .filter(([, labels]) => labels!.includes(`result="${result}"`))
      .reduce((sum, [, , count]) => sum + Number(count), 0)
  }
}

interface Ask {
  readonly label?: string
}

/** Milliseconds of a stage in `Server-Timing`. */
const stageMs = (timing: string, stage: string): number =>
  Number(new RegExp(`(?:^|, )${stage};dur=([\\d.]+)`).exec(timing)?.[1] ?? NaN)

export function hedgeContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  describe(`a request whose first byte is late on ${name}`, () => {
    let site: Site
    beforeAll(async () => {
      site = await Site.open(runtime, {})
    }, 60_000)
    afterAll(() => site.close())
    afterEach(async () => {
      await site.isQuiet()
      site.reset()
    })

    it.each([
      ['streams', true],
      ['does not stream', false],
    ])(
      'a request whose first byte is late gets the response of a second engine, and the first is aborted, if it %s',
      async (what, stream) => {
        const before = await site.metric('won')
        const asking = site.ask(stream, { label: `won ${what}`.replaceAll(' ', '-') })
        const { first, second } = await site.both()
        expect(second.engine).not.toBe(first.engine)
        second.answer()
        const answered = await asking
        expect(answered).toMatchObject({ status: 200, engine: second.engine })
        expect(answered.text).toContain(`"content":"${second.engine}"`)
        expect(answered.decision).toMatch(/; hedge=won$/)
        await until(() => first.isAborted)
        const { hedge, decision } = await site.hedge(`won-${what.replaceAll(' ', '-')}`)
        expect(hedge).toBe('won')
        expect(decision).toMatchObject({ attempt: 1, hedge: true, actual: { result: 'complete' } })
        expect(await until(() => site.metric('won'))).toBe(before + 1)
      },
    )

    it('a hedged request reports the times of the engine that answered', async () => {
      const asking = site.ask()
      const { second } = await site.both()
      second.answer()
      const { timing } = await asking
      expect(timing.match(/ttft;/g)).toHaveLength(1)
      expect(stageMs(timing, 'ttft')).toBeGreaterThanOrEqual(HEDGE_MS - 1)
      expect(stageMs(timing, 'first_byte')).toBeLessThanOrEqual(stageMs(timing, 'ttft') - HEDGE_MS + 2)
      expect(stageMs(timing, 'connect')).toBeLessThanOrEqual(stageMs(timing, 'first_byte'))
    })

    it.each([true, false])(
      'a hedged request gets the first engine’s response if that comes first after all (stream: %s)',
      async (stream) => {
        const asking = site.ask(stream, { label: `lost-${stream}` })
        const { first, second } = await site.both()
        first.answer()
        const answered = await asking
        expect(answered).toMatchObject({ status: 200, engine: first.engine })
        expect(answered.decision).not.toContain('hedge')
        await until(() => second.isAborted)
        const { hedge, decision } = await site.hedge(`lost-${stream}`)
        expect(hedge).toBe('lost')
        // The decision that answered, not that of the hedge.
        expect(decision).toMatchObject({ attempt: 0, placement: { engine: first.engine } })
        expect(decision['hedge']).toBeUndefined()
      },
    )

    it('a hedged request gets the first engine’s response if the second refuses it', async () => {
      for (const [status, message] of [
        [404, 'no such model'],
        [503, 'The engine is currently busy and cannot accept new requests.'],
      ] as const) {
        const asking = site.ask()
        const { first, second } = await site.both()
        second.refuse(status, message)
        await turn(site)
        first.answer()
        expect(await asking).toMatchObject({ status: 200, engine: first.engine })
        site.reset()
      }
    })

    it('a hedged request gets the second engine’s response if the first fails meanwhile', async () => {
      const asking = site.ask(true, { label: 'first-fails' })
      const { first, second } = await site.both()
      first.refuse(503, 'The engine is currently busy and cannot accept new requests.')
      await turn(site)
      second.answer()
      expect(await asking).toMatchObject({ status: 200, engine: second.engine })
      expect((await site.hedge('first-fails')).hedge).toBe('won')
    })

    it('a hedged request has one error if both engines fail', async () => {
      const busy = 'The engine is currently busy and cannot accept new requests.'
      const asking = site.ask(true, { label: 'both-fail' })
      const { first, second } = await site.both()
      site.set({ status: 503 })
      second.refuse(503, busy)
      first.refuse(503, busy)
      const { status, text } = await asking
      expect(status).toBe(429)
      expect(JSON.parse(text)).toMatchObject({ error: { code: 'engines_full' } })
      expect((await site.hedge('both-fail')).hedge).toBe('failed')
    })

    it('a hedged request is aborted at both engines if its client leaves', async () => {
      const gone = new AbortController()
      const left = site.leave(gone.signal)
      const { first, second } = await site.both()
      gone.abort()
      await left
      await until(() => first.isAborted && second.isAborted)
    })

    it('a late request is not sent to an engine that drains', async () => {
      await site.admin('/v1/firstlight/engines/b/drain', 'POST')
      site.set({ delayMs: 6 * HEDGE_MS })
      const hedge = await until(async () => {
        const label = `drained-${performance.now()}`
        expect((await site.ask(true, { label })).engine).toBe('a')
        return (await site.hedge(label)).hedge
      })
      expect(hedge).toBe('engines_unavailable')
      await site.admin('/v1/firstlight/engines/b/undrain', 'POST')
    })

    it('a hedge opens no circuit', async () => {
      const { pools } = (await site.admin('/v1/firstlight/fleet')) as { pools: { engines: { circuit: unknown }[] }[] }
      expect(pools.flatMap(({ engines }) => engines.map(({ circuit }) => circuit))).toEqual(['closed', 'closed'])
    })
  })

  describe(`a late request on ${name}`, () => {
    it('a late request is not hedged if the retry budget is spent', async () => {
      const site = await Site.open(runtime, { share: 0, min_per_s: 0 })
      try {
        site.set({ delayMs: 6 * HEDGE_MS })
        const hedge = await until(async () => {
          const label = `spent-${performance.now()}`
          expect((await site.ask(true, { label })).status).toBe(200)
          return (await site.hedge(label)).hedge
        })
        expect(hedge).toBe('retry_budget')
        await site.isQuiet()
      } finally {
        await site.close()
      }
    }, 60_000)

    it('with `auto`, a late stream is hedged after predictions have come true often enough', async () => {
      const site = await Site.open(runtime, { hedge_ms: 'auto' })
      try {
        site.set({ delayMs: 5 })
        for (let at = 0; at < 96; at++) await site.ask()
        site.set({ delayMs: null })
        const asking = site.ask()
        const { first, second } = await site.both()
        second.answer()
        expect(await asking).toMatchObject({ status: 200, engine: second.engine })
        await until(() => first.isAborted)
        await site.isQuiet()
      } finally {
        await site.close()
      }
    }, 60_000)
  })
}

/** What was sent to the gateway before has arrived there. */
const turn = (site: Site): Promise<unknown> => site.admin('/v1/firstlight/fleet')
