/** Failing engines and disconnecting clients, as seen by clients, engines and the ledger, on any runtime. */
import http from 'node:http'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { FaultEngine, type Mode } from '../kit/fault-engine.ts'
import { until } from '../wait.ts'

export interface FaultGateway {
  readonly url: string
  close(): Promise<void>
}

export interface FaultTable {
  start(document: Record<string, unknown>): Promise<FaultGateway>
  readonly skip?: Readonly<Record<string, string>>
  /** `observe_share` of the pool. */
  readonly observeShare: number
}

interface Observation {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly body: string
  /** Whether the body ended as its framing requires. */
  readonly clean: boolean
}

const ADMIN = 'admin-secret-for-tests'
/** Longer than any healthy response, also on a busy machine. */
const FIRST_BYTE_MS = 1_500
/** Pools for tests of hanging engines. The limits of all others are too long to end a request. */
const HASTY = 3
const POOLS = 32

const times = async (count: number, one: () => Promise<Observation>) => {
  const all: Observation[] = []
  for (let i = 0; i < count; i++) all.push(await one())
  return all
}

const statuses = (all: readonly Observation[]) => all.map(({ status, clean }) => (clean ? status : `${status} cut`))

async function bookings(url: string): Promise<number> {
  const response = await fetch(`${url}/v1/firstlight/fleet`, { headers: { authorization: `Bearer ${ADMIN}` } })
  const { pools } = (await response.json()) as { pools: { bookings: number }[] }
  return pools.reduce((total, { bookings: open }) => total + open, 0)
}

interface EngineView {
  readonly id: string
  readonly asleep: boolean
  readonly healthy?: boolean
}

/** Ids of the matching engines of a cluster. */
async function enginesOf(url: string, cluster: string, isWanted: (engine: EngineView) => boolean): Promise<string[]> {
  const response = await fetch(`${url}/v1/firstlight/fleet`, { headers: { authorization: `Bearer ${ADMIN}` } })
  const { pools } = (await response.json()) as { pools: { cluster: string; engines: EngineView[] }[] }
  return pools
    .filter((one) => one.cluster === cluster)
    .flatMap(({ engines }) => engines.filter(isWanted).map(({ id }) => id))
}

export function faultTable(name: string, table: FaultTable): void {
  let engines: FaultEngine[] = []
  let gateway: FaultGateway
  /** Gateway of the tests of heartbeats. */
  let beating: FaultGateway
  let pool = -1
  let hasty = 0
  let patient = HASTY
  const unknownSkips = new Set(Object.keys(table.skip ?? {}))
  const test = (title: string, body: () => Promise<void>) => {
    unknownSkips.delete(title)
    const reason = table.skip?.[title]
    if (reason === undefined) it(title, body)
    else it.skip(`${title} (${reason})`, () => {})
  }

  /** Pools of the same engines, one for each test, because learned values stay with a pool. */
  const start = (limits: Record<string, unknown> = {}) => {
    const all = Array.from({ length: POOLS }, (_, i) => ({
      model: `m${i}`,
      policy: 'round_robin',
      observe_share: table.observeShare,
      stats_interval_ms: 2_000,
      circuit: { failures: 3, open_ms: 2_000 },
      limits: { connect_ms: 60_000, first_byte_ms: i < HASTY ? FIRST_BYTE_MS : 60_000, idle_ms: 60_000 },
      engines: engines.map(({ id, url }) => ({ id, url })),
    }))
    return table.start({
      version: Date.now(),
      open: true,
      admin: { secret: ADMIN },
      log: { level: 'silent' },
      limits: { heartbeat_ms: 0, ...limits },
      clusters: all.map((one, i) => ({ id: `c${i}`, pools: [one] })),
    })
  }

  const say = (body: Record<string, unknown>) =>
    JSON.stringify({ model: `m${pool}`, messages: [{ role: 'user', content: `hello ${Math.random()}` }], ...body })

  /** Uses a new connection, so that a cut belongs to this request. `leave` gets each piece and can disconnect. */
  function ask(
    body: Record<string, unknown>,
    leave?: (got: string, gone: () => void) => void,
    url = gateway.url,
  ): Promise<Observation> {
    return new Promise((resolve) => {
      const seen = (status: number, headers: http.IncomingHttpHeaders, text: string, clean: boolean) =>
        resolve({ status, headers, body: text, clean })
      const request = http.request(
        `${url}/v1/chat/completions`,
        { method: 'POST', agent: false, headers: { 'content-type': 'application/json' } },
        (response) => {
          let text = ''
          response.setEncoding('utf8')
          response.on('data', (piece: string) => {
            text += piece
            leave?.(text, () => request.destroy())
          })
          response.on('error', () => {})
          response.on('close', () => seen(response.statusCode ?? 0, response.headers, text, response.complete))
        },
      )
      request.on('error', () => seen(0, {}, '', false))
      request.end(say(body))
    })
  }

  const stream = (leave?: (got: string, gone: () => void) => void) => ask({ stream: true }, leave)
  const set = (mode: Mode, ...which: number[]) => {
    for (const i of which) engines[i]!.mode = mode
  }

  /** Resolves when the pool's engines are healthy: a check may have failed because of an earlier test. */
  async function recovered(): Promise<void> {
    for (const { url } of [gateway, beating])
      await expect
        .poll(() => enginesOf(url, `c${pool}`, ({ healthy }) => healthy === false), { interval: 50 })
        .toEqual([])
  }

  /** Resolves when no booking is open; releases follow the responses. */
  async function quiet(url = gateway.url): Promise<void> {
    await Promise.all(engines.map((engine) => engine.idle()))
    await expect.poll(() => bookings(url), { interval: 50 }).toBe(0)
  }

  describe(`${name} in front of engines that fail`, () => {
    beforeAll(async () => {
      engines = await Promise.all(['a', 'b', 'c'].map((id) => FaultEngine.open(id)))
      gateway = await start()
      beating = await start({ heartbeat_ms: 200 })
    })
    beforeEach(async () => {
      pool = patient++
      for (const engine of engines) {
        engine.forget()
        Object.assign(engine, { mode: 'ok', ttftMs: 5, itlMs: 5, tokens: 4 })
      }
      await recovered()
    })
    afterEach(() => Promise.all(engines.map((engine) => engine.revive())))
    afterAll(async () => {
      await Promise.all([gateway.close(), beating.close()])
      await Promise.all(engines.map((engine) => engine.close()))
    })

    test('a gateway before engines that fail streams whole answers and says who gave them', async () => {
      const { status, headers, body, clean } = await stream()
      expect({ status, clean }).toEqual({ status: 200, clean: true })
      expect(body.endsWith('data: [DONE]\n\n')).toBe(true)
      expect(body).not.toContain('"choices":[]')
      expect(headers).toMatchObject({
        'x-firstlight-cluster': `c${pool}`,
        'x-firstlight-policy': 'round_robin',
        'content-type': 'text/event-stream; charset=utf-8',
      })
      expect(['a', 'b', 'c']).toContain(headers['x-firstlight-engine'])
      expect(headers['server-timing']).toMatch(/edge;dur=.*ttft;dur=/)
      expect(headers['x-request-id']).toBeTruthy()
      expect(headers['x-firstlight-decision']).toBeTruthy()
      await quiet()
    })

    for (const mode of ['500', 'busy', 'busy_inside', 'busy_inside_text', 'reset', 'garbage'] as const) {
      test(`a gateway before engines that fail shows no client that one of three engines answers ${mode}`, async () => {
        set(mode, 0)
        const seen = await times(12, stream)
        expect(statuses(seen)).toEqual(Array(12).fill(200))
        expect(seen.filter(({ body }) => body.includes('"error"'))).toEqual([])
        await quiet()
      })
    }

    test('a gateway before engines that fail shows no client that one of three engines was killed, and uses it again when it is back', async () => {
      await engines[0]!.kill()
      expect(statuses(await times(24, stream))).toEqual(Array(24).fill(200))
      await engines[0]!.revive()
      engines[0]!.forget()
      await until(async () => (await stream(), engines[0]!.requests > 0), 0)
      await quiet()
    })

    for (const mode of ['hang', 'hang_after_head'] as const) {
      test(`a gateway before engines that fail lets no client wait for an engine that does ${mode}, and soon sends nobody there`, async () => {
        pool = hasty++
        await recovered()
        set(mode, 0)
        const first = await Promise.all(Array.from({ length: 12 }, () => stream()))
        expect(statuses(first)).toEqual(Array(12).fill(200))
        // A gateway that was late itself blames no engine, so on a busy machine it may need a second round.
        await until(async () => {
          engines[0]!.forget()
          const more = await times(6, stream)
          expect(statuses(more)).toEqual(Array(6).fill(200))
          return engines[0]!.requests <= 1
        }, 0)
        await quiet()
      })
    }

    test('a gateway before engines that fail sends nothing to an engine that only /is_paused shows as paused, until it is resumed', async () => {
      const asleep = async () => {
        expect((await stream()).status).toBe(200)
        return enginesOf(gateway.url, `c${pool}`, ({ asleep: isAsleep }) => isAsleep)
      }
      pool = hasty++
      await recovered()
      set('paused', 0)
      await expect.poll(asleep, { interval: 50, timeout: 15_000 }).toEqual(['a'])
      engines[0]!.forget()
      expect(statuses(await times(6, stream))).toEqual(Array(6).fill(200))
      expect(engines[0]!.requests).toBe(0)
      set('ok', 0)
      await expect.poll(asleep, { interval: 50, timeout: 15_000 }).toEqual([])
      // Its circuit may have opened before the reason of its silence was known.
      await expect
        .poll(async () => (await stream()).status === 200 && engines[0]!.requests > 0, {
          interval: 50,
          timeout: 15_000,
        })
        .toBe(true)
      await quiet()
    })

    test('a gateway before engines that fail answers 503 at once, in JSON, with when to come back, when every engine is down', async () => {
      await Promise.all(engines.map((engine) => engine.kill()))
      for (const seen of await times(3, stream)) {
        expect(seen.status).toBe(503)
        expect(Number(seen.headers['retry-after'])).toBeGreaterThan(0)
        expect(Number(seen.headers['retry-after-ms'])).toBeGreaterThan(0)
        expect(JSON.parse(seen.body)).toMatchObject({ error: { type: 'server_error', code: 'no_engine_available' } })
        expect(seen.body).not.toContain('127.0.0.1')
      }
      await quiet()
    })

    test('a gateway before engines that fail says that engines failed, and nothing of what they said', async () => {
      set('500', 0, 1, 2)
      const seen = await stream()
      expect([502, 503]).toContain(seen.status)
      expect(seen.body).not.toContain('secret of')
      await quiet()
    })

    test('a gateway before engines that fail takes no engine out of the choice for requests that all engines fail', async () => {
      set('500_but_healthy', 0, 1, 2)
      // One more than open a circuit.
      expect(statuses(await times(4, stream))).toEqual([502, 502, 502, 502])
      await quiet()
      set('ok', 0, 1, 2)
      expect(statuses(await times(3, stream))).toEqual([200, 200, 200])
      await quiet()
    })

    test('a gateway before engines that fail says that all engines are busy, and when to come back', async () => {
      set('busy', 0, 1, 2)
      const seen = await stream()
      expect([429, 503]).toContain(seen.status)
      expect(Number(seen.headers['retry-after-ms'])).toBeGreaterThan(0)
      await quiet()
    })

    test('a gateway before engines that fail ends a stream whose engine broke with one error event and a cut, never with a clean end', async () => {
      set('reset_midstream', 0, 1, 2)
      const seen = await stream()
      expect(seen.status).toBe(200)
      expect(seen.clean).toBe(false)
      expect(seen.body).not.toContain('[DONE]')
      const events = seen.body.split('\n\n').filter((event) => event.startsWith('data: '))
      expect(JSON.parse(events.at(-1)!.slice(6))).toMatchObject({ error: { code: 'engine_stream_truncated' } })
      expect(events.filter((event) => event.includes('"error"'))).toHaveLength(1)
      await quiet()
    })

    test('a gateway before engines that fail passes an answer that is no stream whole', async () => {
      const seen = await ask({})
      expect(seen.status).toBe(200)
      expect(JSON.parse(seen.body)).toMatchObject({
        choices: [{ message: { content: 'hello' } }],
        usage: { prompt_tokens: 3 },
      })
      await quiet()
    })

    test('a gateway before engines that fail frees the engine of a client that leaves mid-stream', async () => {
      for (const engine of engines) Object.assign(engine, { tokens: 400, itlMs: 10 })
      await stream((got, gone) => {
        if (got.split('\n\n').length > 3) gone()
      })
      await quiet()
      expect(engines.reduce((total, engine) => total + engine.aborts, 0)).toBe(1)
    })

    for (const [title, body] of [
      ['before the first token', { stream: true }],
      ['before an answer that is no stream', {}],
    ] as const) {
      test(`a gateway before engines that fail frees the engine of a client that leaves ${title}`, async () => {
        for (const engine of engines) engine.ttftMs = 30_000
        const leaving = new AbortController()
        const answering = fetch(`${gateway.url}/v1/chat/completions`, {
          method: 'POST',
          body: say(body),
          signal: leaving.signal,
          headers: { 'content-type': 'application/json' },
        }).catch(() => {})
        await Promise.race(engines.map((engine) => engine.arrived(1)))
        leaving.abort()
        await answering
        await quiet()
        expect(engines.reduce((total, engine) => total + engine.aborts, 0)).toBe(1)
      })
    }

    test('a gateway before engines that fail frees the engine of a client that left before the first token, by the next heartbeat', async () => {
      for (const engine of engines) engine.ttftMs = 30_000
      const pings: string[] = []
      const leave = (got: string, gone: () => void) => {
        pings.push(got)
        gone()
      }
      const seen = await ask({ stream: true }, leave, beating.url)
      expect(seen.status).toBe(200)
      expect(pings[0]).toMatch(/^: ping/)
      await quiet(beating.url)
      expect(engines.reduce((total, engine) => total + engine.aborts, 0)).toBe(1)
    })

    test('a gateway before engines that fail keeps no booking of a storm of everything', async () => {
      const modes: Mode[] = ['ok', '500', 'busy', 'reset', 'reset_midstream', 'garbage']
      let turn = 0
      const one = (i: number) => {
        engines[i % 3]!.mode = modes[turn++ % modes.length]!
        if (i % 4 === 0) return ask({})
        return stream(i % 4 === 1 ? (_got, gone) => gone() : undefined)
      }
      for (let i = 0; i < 60; i += 10) await Promise.all(Array.from({ length: 10 }, (_, j) => one(i + j)))
      for (const engine of engines) engine.mode = 'ok'
      await quiet()
    })

    it('the titles of skipped tests are those of tests', () => {
      expect([...unknownSkips]).toEqual([])
    })
  })
}
