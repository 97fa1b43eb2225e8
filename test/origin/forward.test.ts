import { speech } from '../../src/protocols/speech.ts'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Failure } from '../../src/failure.ts'
import { forward } from '../../src/origin/forward.ts'
import { OriginError } from '../../src/ports/origin.ts'
import { ScriptedForwarder, type Meeting } from '../kit/scripted-forwarder.ts'
import { turns } from '../wait.ts'

async function failureOf(work: Promise<unknown>): Promise<Failure> {
  const thrown = await work.then(
    () => null,
    (error: unknown) => error,
  )
  if (thrown instanceof Failure) return thrown
  throw new Error(`expected a Failure, got ${String(thrown)}`)
}

const dead: Meeting = { fails: 'connect' }

describe('a request that successive engines fail', () => {
  it('a request that successive engines fail goes to the next engine, and names and releases every engine it left', async () => {
    const world = new ScriptedForwarder({
      'c-a': [dead],
      'c-b': [{ fails: 'reset', when: 'first_byte' }],
      'c-d': [{ status: 200 }],
    })
    const suspects: string[] = []
    const response = await forward(
      world.exchange([world.route('c', ['c-a', 'c-b', 'c-d'])]),
      world.ports,
      world.digests,
      { probeSoon: (_route, { id }) => void suspects.push(id) },
    )
    expect(response.headers.get('x-firstlight-engine')).toBe('c-d')
    await world.settled()
    expect(
      world.bookings.map(({ engine, admission: { attempt, avoid }, outcomes }) => ({
        engine,
        attempt,
        avoid,
        outcomes: outcomes.map(({ result, failure }) => [result, failure]),
      })),
    ).toEqual([
      { engine: 'c-a', attempt: 0, avoid: [], outcomes: [['engine_failed', 'connect']] },
      { engine: 'c-b', attempt: 1, avoid: ['c-a'], outcomes: [['engine_failed', 'reset']] },
      { engine: 'c-d', attempt: 2, avoid: ['c-a', 'c-b'], outcomes: [['complete', null]] },
    ])
    expect(suspects).toEqual(['c-a', 'c-b'])
  })

  it('a request that successive engines fail blames no engine for the gateway’s own limits, and draws on no retry budget for them', async () => {
    const own: Meeting = { fails: 'gateway_limit' }
    const world = new ScriptedForwarder({ 'c-a': [own], 'c-b': [{ status: 200 }] })
    const suspects: string[] = []
    const response = await forward(world.exchange([world.route('c', ['c-a', 'c-b'])]), world.ports, world.digests, {
      probeSoon: (_route, { id }) => void suspects.push(id),
    })
    expect(response.status).toBe(200)
    await world.settled()
    expect(
      world.bookings.map(({ admission, outcomes }) => [admission.moved, outcomes[0]!.result, outcomes[0]!.failure]),
    ).toEqual([
      [undefined, 'abandoned', null],
      [true, 'complete', null],
    ])
    expect(suspects).toEqual([])
  })

  it('a request that successive engines fail reports the gateway’s own limit if no engine could be reached', async () => {
    const own: Meeting = { fails: 'gateway_limit' }
    const world = new ScriptedForwarder({ 'c-a': [own], 'c-b': [dead] })
    const failure = await failureOf(
      forward(world.exchange([world.route('c', ['c-a', 'c-b'])]), world.ports, world.digests),
    )
    expect(failure.shape).toMatchObject({ status: 503, code: 'gateway_limit_reached', retry: true })
  })

  const meetings: readonly [string, Meeting, string, string][] = [
    ['connect', dead, 'connect', 'no_engine'],
    ['connect_timeout', { fails: 'connect_timeout' }, 'connect_timeout', 'no_engine'],
    ['reset', { fails: 'reset' }, 'reset', 'no_engine'],
    ['first_byte_timeout', { fails: 'first_byte_timeout' }, 'first_byte_timeout', 'engine_timeout'],
    ['malformed', { fails: 'malformed' }, 'malformed', 'engine_unreachable'],
    ['a 500', { status: 500 }, 'status_5xx', 'engine_unreachable'],
    [
      'a 503 of a dying engine',
      { status: 503, body: '{"error":"EngineDeadError"}' },
      'status_5xx',
      'engine_unreachable',
    ],
    [
      'an engine that does not take the gateway’s key',
      { status: 401, body: '{"error":"Unauthorized"}' },
      'malformed',
      'engine_unreachable',
    ],
    ['a proxy before it that does not', { status: 407 }, 'malformed', 'engine_unreachable'],
    ['a redirect', { status: 307 }, 'malformed', 'engine_unreachable'],
    [
      'the engine’s own busy',
      { status: 503, body: '{"error":{"message":"The engine is currently busy and cannot accept new requests."}}' },
      'busy',
      'engines_full',
    ],
  ]
  for (const [what, meeting, failure, reason] of meetings) {
    it(`a request that successive engines fail ends as ${reason} if every engine has ${what}`, async () => {
      const world = new ScriptedForwarder({ 'c-a': [meeting], 'c-b': [meeting] })
      const thrown = await failureOf(
        forward(world.exchange([world.route('c', ['c-a', 'c-b'])]), world.ports, world.digests),
      )
      expect(thrown.reason).toBe(reason)
      expect(thrown.retryAfterMs).toBeGreaterThan(0)
      expect(thrown.message).not.toMatch(/10\.0|http/)
      await world.settled()
      expect(world.bookings.map(({ outcomes }) => outcomes.map((outcome) => outcome.failure))).toEqual([
        [failure],
        [failure],
      ])
      // "Busy" is not logged: a full fleet returns it to each request.
      const warnings = world.warnings.filter((fields) => (fields as { engine?: string }).engine !== undefined)
      const status =
        meeting !== 'hangs' && 'status' in meeting
          ? { status: meeting.status }
          : { error: expect.any(OriginError) as unknown }
      expect(warnings).toMatchObject(
        failure === 'busy'
          ? []
          : ['c-a', 'c-b'].map((engine) => ({ id: 'id-1', cluster: 'c', engine, failure, ...status })),
      )
      expect(world.logged.filter((event) => event === 'attempt_failed')).toHaveLength(warnings.length)
    })
  }

  it('a request that successive engines fail names the setting if an engine rejects the gateway’s key', async () => {
    const world = new ScriptedForwarder({ 'c-a': [{ status: 401 }], 'c-b': [{ status: 200 }] })
    await forward(world.exchange([world.route('c', ['c-a', 'c-b'])]), world.ports, world.digests)
    expect(world.warnings).toMatchObject([
      { engine: 'c-a', status: 401, next: expect.stringMatching(/`key`/) as unknown },
    ])
  })

  for (const status of [400, 404, 422, 501]) {
    it(`ends with the engine’s own ${status}, as the engine sent it`, async () => {
      const world = new ScriptedForwarder({
        'c-a': [{ status, body: '{"error":{"message":"no"}}', headers: ['x-kept', '1', 'server', 'uvicorn'] }],
        'c-b': [],
      })
      const response = await forward(world.exchange([world.route('c', ['c-a', 'c-b'])]), world.ports, world.digests)
      expect(response.status).toBe(status)
      expect(await response.text()).toBe('{"error":{"message":"no"}}')
      expect(response.headers.get('x-kept')).toBe('1')
      expect(response.headers.get('server')).toBeNull()
      await world.settled()
      expect(world.bookings.map(({ outcomes }) => outcomes)).toMatchObject([
        [{ result: 'engine_refused', status, failure: null }],
      ])
    })
  }

  it('a request that successive engines fail is aborted after its first byte on one engine only', async () => {
    const world = new ScriptedForwarder({ 'c-a': [{ status: 200, end: 'engine_truncated' }], 'c-b': [] })
    await forward(world.exchange([world.route('c', ['c-a', 'c-b'])]), world.ports, world.digests)
    await world.settled()
    expect(world.sent).toHaveLength(1)
    expect(world.bookings.map(({ outcomes }) => outcomes)).toMatchObject([
      [{ result: 'engine_failed', failure: 'reset', outputEvents: 4 }],
    ])
    const event = (path: string) =>
      new TextDecoder().decode(world.relays[0]!.truncationEvent!('reset', null)).includes(path)
    expect(event('engine_stream_truncated')).toBe(true)
  })
})

describe('a request in a routing loop', () => {
  const round: Meeting = { status: 508, body: '{"error":{"code":"loop_detected"}}' }
  const ended = (world: ScriptedForwarder) =>
    world.bookings.map(({ engine, outcomes }) => [
      engine,
      ...outcomes.map(({ result, failure }) => `${result} ${failure}`),
    ])
  const came = { headers: ['via', '1.1 firstlight-00000001, 1.1 firstlight-00000002'] }

  it('a request in a loop goes to another engine; the loop is logged with its address and counted by the circuit', async () => {
    const world = new ScriptedForwarder({ 'c-a': [round], 'c-b': [] })
    const response = await forward(
      world.exchange([world.route('c', ['c-a', 'c-b'])], { headers: ['via', '1.1 google, 1.1 firstlight-00000001'] }),
      world.ports,
      world.digests,
    )
    expect(response.headers.get('x-firstlight-engine')).toBe('c-b')
    await world.settled()
    expect(ended(world)).toEqual([
      ['c-a', 'engine_failed loop'],
      ['c-b', 'complete null'],
    ])
    expect(world.logged).toEqual(['loop_detected'])
    expect(world.warnings).toMatchObject([{ id: 'id-1', cluster: 'c', engine: 'c-a', url: 'http://c-a' }])
  })

  it('a request in a loop does not count against an engine if it has passed another gateway before, or its client says so', async () => {
    const world = new ScriptedForwarder({ 'c-a': [round], 'c-b': [] })
    const response = await forward(world.exchange([world.route('c', ['c-a', 'c-b'])], came), world.ports, world.digests)
    expect(response.headers.get('x-firstlight-engine')).toBe('c-b')
    await world.settled()
    expect(ended(world)).toEqual([
      ['c-a', 'abandoned null'],
      ['c-b', 'complete null'],
    ])
    expect(world.signals).toEqual([])
  })

  it('a request in a loop ends as a loop if every engine leads back, because a retry cannot help', async () => {
    for (const changes of [{}, came]) {
      const world = new ScriptedForwarder({ 'c1-a': [round], 'c1-b': [round], 'c2-a': [round] })
      const thrown = await failureOf(
        forward(
          world.exchange([world.route('c1', ['c1-a', 'c1-b']), world.route('c2', ['c2-a'])], changes),
          world.ports,
          world.digests,
        ),
      )
      expect([thrown.reason, thrown.shape.status, thrown.shape.retry]).toEqual(['loop', 508, false])
      expect(thrown.message).not.toMatch(/c1|http/)
      await world.settled()
      expect(world.open).toBe(0)
      // A routing loop is not counted as a fault of requests, however many agree.
      expect(world.signals).toEqual([])
      expect(world.logged).toEqual(['loop_detected', 'loop_detected', 'loop_detected'])
    }
  })

  it('ends like a request without that engine if others are full, away or broken', async () => {
    const full = new ScriptedForwarder({ 'c1-a': [round] })
    full.refusals.set('c2', 'engines_full')
    expect(
      (
        await failureOf(
          forward(
            full.exchange([full.route('c1', ['c1-a']), full.route('c2', ['c2-a'])], came),
            full.ports,
            full.digests,
          ),
        )
      ).reason,
    ).toBe('engines_full')
    const away = new ScriptedForwarder({ 'c-a': [round] })
    expect(
      (await failureOf(forward(away.exchange([away.route('c', ['c-a', 'c-b'])]), away.ports, away.digests))).reason,
    ).toBe('no_engine')
    for (const [other, reason] of [
      [dead, 'no_engine'],
      [{ status: 500 }, 'engine_unreachable'],
      [{ fails: 'first_byte_timeout' }, 'engine_timeout'],
    ] as const) {
      for (const order of [
        [round, other],
        [other, round],
      ]) {
        const world = new ScriptedForwarder({ 'c-a': [order[0]!], 'c-b': [order[1]!] })
        expect(
          (await failureOf(forward(world.exchange([world.route('c', ['c-a', 'c-b'])]), world.ports, world.digests)))
            .reason,
        ).toBe(reason)
      }
    }
  })

  it('a request in a loop ends after so many attempts, however many engines lead back', async () => {
    const ids = Array.from({ length: 40 }, (_, at) => `c-${at}`)
    const world = new ScriptedForwarder(Object.fromEntries(ids.map((id) => [id, [round]])))
    expect((await failureOf(forward(world.exchange([world.route('c', ids)]), world.ports, world.digests))).reason).toBe(
      'loop',
    )
    expect(world.sent).toHaveLength(16)
  })
})

describe('the end of a stream', () => {
  const outcomesOf = async (
    changes: Parameters<ScriptedForwarder['exchange']>[1],
    meeting: Meeting = { status: 200 },
    observeShare = 0.1,
  ) => {
    const world = new ScriptedForwarder({ 'c-a': [meeting] })
    const { pool, ...route } = world.route('c', ['c-a'])
    await forward(world.exchange([{ ...route, pool: { ...pool, observeShare } }], changes), world.ports, world.digests)
    await world.settled()
    return world.bookings[0]!.outcomes.map(({ result, endUnseen }) => [result, endUnseen])
  }

  it('the end of a stream is recorded as unobserved if it was not read and others are', async () => {
    expect(await outcomesOf({ observe: false })).toEqual([['complete', true]])
    expect(await outcomesOf({ observe: true })).toEqual([['complete', undefined]])
    expect(await outcomesOf({ observe: false }, { status: 200, end: 'engine_truncated' })).toEqual([
      ['engine_failed', undefined],
    ])
  })

  it('the end of a stream is recorded by its status if no stream is read, or nothing is to be read', async () => {
    expect(await outcomesOf({ observe: false }, { status: 200 }, 0)).toEqual([['complete', undefined]])
    expect(await outcomesOf({ observe: false, protocol: speech })).toEqual([['complete', undefined]])
    expect(await outcomesOf({ observe: true, stream: false }, { status: 200, sse: false })).toEqual([
      ['complete', undefined],
    ])
    expect(await outcomesOf({ observe: false }, { status: 400, sse: false })).toEqual([['engine_refused', undefined]])
  })
})

describe('a request that no engine can answer', () => {
  const broken: Meeting = { status: 500 }
  const signalsOf = async (
    world: ScriptedForwarder,
    routes: ReturnType<ScriptedForwarder['route']>[],
    changes = {},
  ) => {
    await forward(world.exchange(routes, changes), world.ports, world.digests).catch(() => {})
    await world.settled()
    return world.signals.map((signal) => [
      signal.cluster,
      signal.kind,
      signal.engine,
      signal.kind === 'excused' ? signal.booking : null,
    ])
  }

  it('a request that no engine can answer is blamed if two engines returned 5xx, in any cluster', async () => {
    const two = new ScriptedForwarder({ 'c-a': [broken], 'c-b': [dead], 'c-d': [{ status: 502 }] })
    expect(await signalsOf(two, [two.route('c', ['c-a', 'c-b', 'c-d'])])).toEqual([
      ['c', 'excused', 'c-a', 'id-1#0'],
      ['c', 'excused', 'c-d', 'id-1#2'],
    ])
    expect(two.logged).toContain('poison_request')
    const apart = new ScriptedForwarder({ 'c1-a': [broken], 'c2-a': [broken] })
    expect(await signalsOf(apart, [apart.route('c1', ['c1-a']), apart.route('c2', ['c2-a'])])).toEqual([
      ['c1', 'excused', 'c1-a', 'id-1#0'],
      ['c2', 'excused', 'c2-a', 'id-1#1'],
    ])
  })

  it('a request that no engine can answer is blamed if its stream begins with the error', async () => {
    const inside: Meeting = { status: 200, body: 'data: {"error":{"message":"parser","code":500}}\n\n' }
    const world = new ScriptedForwarder({ 'c-a': [inside], 'c-b': [inside] })
    expect(await signalsOf(world, [world.route('c', ['c-a', 'c-b'])])).toHaveLength(2)
  })

  const blamed: readonly [string, readonly Meeting[], object?][] = [
    ['another engine answers it', [broken, broken, { status: 200 }]],
    ['another engine refuses it', [broken, broken, { status: 400 }]],
    ['one engine alone is there', [broken]],
    [
      'one engine answered and others broke the connection',
      [broken, dead, { fails: 'reset' }, { fails: 'first_byte_timeout' }],
    ],
    ['one engine answered and another is busy', [broken, { status: 503, body: 'currently busy' }]],
    [
      'every engine broke the connection',
      [{ fails: 'reset' }, { fails: 'reset' }, { fails: 'reset', when: 'first_byte' }],
    ],
    ['it is bound to one engine', [broken, broken], { pinned: { cluster: 'c', engine: 'c-0' } }],
  ]
  for (const [when, meetings, changes] of blamed) {
    it(`a request that no engine can answer is not blamed if ${when}`, async () => {
      const ids = meetings.map((_, at) => `c-${at}`)
      const world = new ScriptedForwarder(Object.fromEntries(meetings.map((one, at) => [ids[at]!, [one]])))
      expect(await signalsOf(world, [world.route('c', ids)], changes)).toEqual([])
    })
  }

  it('a request that no engine can answer is not blamed if the retry budget allowed no second engine', async () => {
    const world = new ScriptedForwarder({ 'c1-a': [broken] })
    world.refusals.set('c2', 'retry_budget')
    const routes = [world.route('c1', ['c1-a']), world.route('c2', ['c2-a'])]
    expect(await signalsOf(world, routes)).toEqual([['c1', 'excused', 'c1-a', 'id-1#0']])
    expect(world.signals).toMatchObject([{ doubtful: true }])
    expect(world.logged).not.toContain('poison_request')
  })

  it('a request that no engine can answer is not blamed without retries, because nothing else would open a circuit', async () => {
    const world = new ScriptedForwarder({ 'c1-a': [broken] })
    world.refusals.set('c2', 'retry_budget')
    const { cluster, pool, targets } = world.route('c1', ['c1-a'])
    expect(
      await signalsOf(world, [
        { cluster, pool: { ...pool, retry: { ...pool.retry, share: 0, minPerS: 0 } }, targets },
        world.route('c2', ['c2-a']),
      ]),
    ).toEqual([])
  })

  it('a request that no engine can answer is not blamed if its client disconnected before the last response', async () => {
    const world = new ScriptedForwarder({ 'c-a': [broken], 'c-b': [broken], 'c-d': ['hangs'] })
    const work = signalsOf(world, [world.route('c', ['c-a', 'c-b', 'c-d'])])
    while (world.sent.length < 3) await new Promise((turn) => setTimeout(turn, 0))
    world.client.abort('client left')
    expect(await work).toEqual([])
  })
})

describe('an answer', () => {
  it('an answer names its engine, its decision and its stages', async () => {
    const world = new ScriptedForwarder({
      'c-a': [{ status: 200, headers: ['x-request-id', 'engine’s', 'x-firstlight-engine', 'forged'] }],
    })
    const { headers } = await forward(world.exchange([world.route('c', ['c-a'])]), world.ports, world.digests)
    expect(Object.fromEntries(headers)).toEqual({
      'content-type': 'text/event-stream',
      'x-request-id': 'label',
      'x-accel-buffering': 'no',
      'x-firstlight-engine': 'c-a',
      'x-firstlight-cluster': 'c',
      'x-firstlight-policy': 'first',
      'x-firstlight-decision': 'id-1',
      'server-timing': 'edge;dur=1.5, admit;dur=0, connect;dur=0, first_byte;dur=0, ttft;dur=100',
    })
    await world.settled()
    expect(world.bookings[0]!.firstTokens).toMatchObject([{ ttft: 100 }])
  })

  it('an answer has no first token if it does not stream', async () => {
    const world = new ScriptedForwarder({ 'c-a': [{ status: 200, sse: false, body: '{}' }] })
    await forward(world.exchange([world.route('c', ['c-a'])], { stream: false }), world.ports, world.digests)
    await world.settled()
    expect(world.bookings[0]!.firstTokens).toEqual([])
    expect(world.bookings[0]!.outcomes[0]!.stages.ttft).toBeUndefined()
    expect(world.relays[0]!.observe).toBe(true)
  })

  it.each([
    [200, [['resp_1', { tenant: 't', cluster: 'c', pool: 'm', engine: 'c-a', model: 'named' }]]],
    [400, []],
  ])('an answer with status %i records the engine that has the response: %j', async (status, expected) => {
    const held: unknown[] = []
    const world = new ScriptedForwarder({ 'c-a': [{ status }] })
    const storage = { responses: { keep: (...args: unknown[]) => void held.push(args) }, tenant: 't', model: 'named' }
    await forward(world.exchange([world.route('c', ['c-a'])], { storage }), world.ports, world.digests)
    await world.settled()
    expect(held).toEqual(expected)
  })
})

describe('an answer that does not stream', () => {
  it('an answer that does not stream has a limit of its own, and is not retried when it expires', async () => {
    const world = new ScriptedForwarder({ 'c-a': [{ fails: 'first_byte_timeout' }], 'c-b': [{ status: 200 }] })
    const suspects: string[] = []
    const failure = await failureOf(
      forward(world.exchange([world.route('c', ['c-a', 'c-b'])], { stream: false }), world.ports, world.digests, {
        probeSoon: (_route, { id }) => void suspects.push(id),
      }),
    )
    expect([failure.reason, failure.shape.status, failure.shape.retry]).toEqual(['answer_timeout', 504, false])
    await world.settled()
    expect(world.bookings.map(({ engine, outcomes }) => [engine, outcomes.map((one) => one.failure)])).toEqual([
      ['c-a', ['answer_timeout']],
    ])
    expect(suspects).toEqual([])
  })

  it.each([
    [true, 2],
    [false, 5],
  ])(
    'an answer that does not stream stream %s: the engine gets the limit of its kind of answer',
    async (stream, limitMs) => {
      const world = new ScriptedForwarder({ 'c-a': [{ status: 200 }] })
      await forward(world.exchange([world.route('c', ['c-a'])], { stream }), world.ports, world.digests)
      expect(world.sent.map(({ firstByteMs }) => firstByteMs)).toEqual([limitMs])
    },
  )
})

describe('clusters', () => {
  it('clusters are tried in order, and the header names those that refused', async () => {
    const world = new ScriptedForwarder({ 'c1-a': [], 'c2-a': [] })
    world.refusals.set('c1', 'engines_full')
    const { headers } = await forward(
      world.exchange([world.route('c1', ['c1-a']), world.route('c2', ['c2-a'])]),
      world.ports,
      world.digests,
    )
    expect(headers.get('x-firstlight-cluster')).toBe('c2')
    expect(headers.get('x-firstlight-decision')).toBe('id-1; failover=c1:engines_full')
  })

  it('clusters are tried again for engines with open circuits only after all have refused', async () => {
    const world = new ScriptedForwarder({ 'c1-a': [], 'c2-a': [] })
    const routes = [world.route('c1', ['c1-a']), world.route('c2', ['c2-a'])]
    world.refusals.set('c1', 'engines_unavailable')
    world.panicking.add('c1')
    const served = async () =>
      (await forward(world.exchange(routes), world.ports, world.digests)).headers.get('x-firstlight-cluster')
    expect(await served()).toBe('c2')
    world.refusals.set('c2', 'engines_full')
    expect(await served()).toBe('c1')
    expect(world.bookings.map(({ admission }) => admission.isLastResort)).toEqual([undefined, true])
    expect(world.logged).toContain('panic_mode')
  })

  it('clusters that are alone are the last resort from the start', async () => {
    const world = new ScriptedForwarder({ 'c1-a': [] })
    await forward(world.exchange([world.route('c1', ['c1-a'])]), world.ports, world.digests)
    expect(world.bookings.map(({ admission }) => admission.isLastResort)).toEqual([true])
  })

  it('clusters with failed engines only are followed by the next one', async () => {
    const world = new ScriptedForwarder({ 'c1-a': [dead], 'c2-a': [] })
    const { headers } = await forward(
      world.exchange([world.route('c1', ['c1-a']), world.route('c2', ['c2-a'])]),
      world.ports,
      world.digests,
    )
    expect(headers.get('x-firstlight-engine')).toBe('c2-a')
  })

  it('clusters that all refuse are summed up by the best of the bad news', async () => {
    for (const [first, second, reason] of [
      ['no_engine', 'engines_full', 'engines_full'],
      ['role_empty', 'no_engine', 'role_empty'],
      ['retry_budget', 'unconfigured', 'retry_budget'],
    ] as const) {
      const world = new ScriptedForwarder({ 'c1-a': [], 'c2-a': [] })
      world.refusals.set('c1', first).set('c2', second)
      const thrown = await failureOf(
        forward(world.exchange([world.route('c1', ['c1-a']), world.route('c2', ['c2-a'])]), world.ports, world.digests),
      )
      expect(thrown.reason).toBe(reason)
      expect(thrown.retryAfterMs).toBe(500)
    }
  })

  it.each<[Meeting, string]>([
    [dead, 'engines_full'],
    [{ status: 503, body: 'currently busy' }, 'engines_full'],
    [{ status: 500 }, 'engine_unreachable'],
  ])('clusters that are full are the reason if the other engines cannot be reached: %j', async (meeting, reason) => {
    const world = new ScriptedForwarder({ 'c1-a': [meeting], 'c2-a': [] })
    world.refusals.set('c2', 'engines_full')
    const thrown = await failureOf(
      forward(world.exchange([world.route('c1', ['c1-a']), world.route('c2', ['c2-a'])]), world.ports, world.digests),
    )
    expect(thrown.reason).toBe(reason)
    expect(thrown.retryAfterMs).toBeGreaterThan(0)
  })

  it.each<[Meeting, string, RegExp]>([
    [dead, 'retry_budget', /^The engine could not be reached, and .*retry budget is exhausted/],
    [
      { status: 503, body: 'currently busy' },
      'engines_full',
      /^The engine had no room for the request, and .*retry budget is exhausted/,
    ],
    [{ status: 500 }, 'engine_unreachable', /\(last status 500\), and .*retry budget is exhausted/],
    [{ fails: 'first_byte_timeout' }, 'engine_timeout', /in time, and .*retry budget is exhausted/],
  ])(
    'clusters that refuse a retry for its budget are named as the reason, in the text, the record and the cause: %j',
    async (meeting, reason, text) => {
      const world = new ScriptedForwarder({ 'c1-a': [meeting], 'c2-a': [] })
      world.refusals.set('c2', 'retry_budget')
      let ends = 0
      const exchange = world.exchange([world.route('c1', ['c1-a']), world.route('c2', ['c2-a'])], {
        observer: { gatewayAnswered: () => {}, bookingReleased: () => {}, ended: () => void ends++ },
      })
      const thrown = await failureOf(forward(exchange, world.ports, world.digests))
      expect([thrown.reason, thrown.message, thrown.cause]).toEqual([
        reason,
        expect.stringMatching(text),
        expect.stringContaining('the retry budget is spent'),
      ])
      expect(ends).toBe(1)
      expect(exchange.record).toMatchObject({ notes: ['refused=retry_budget'], result: 'refused' })
    },
  )

  it('clusters that do not answer are skipped, and the decision reports it', async () => {
    const world = new ScriptedForwarder({ 'c-a': [dead], 'c-b': [] })
    world.refusals.set('c', 'throws')
    const { headers } = await forward(world.exchange([world.route('c', ['c-a', 'c-b'])]), world.ports, world.digests)
    expect(headers.get('x-firstlight-engine')).toBe('c-b')
    expect(headers.get('x-firstlight-policy')).toBe('rendezvous')
    expect(headers.get('x-firstlight-decision')).toBe('id-1; fallback=object_unreachable')
    await world.settled()
    expect(world.bookings).toEqual([])
  })

  it('clusters that are slower than usual do not delay the request: it is booked afterwards, and none is refused', async () => {
    const world = new ScriptedForwarder({ 'c-a': [], 'c-b': [] })
    const late = Promise.withResolvers<void>()
    const rings: (() => void)[] = []
    const timers = {
      set(delayMs: number, ring: () => void) {
        if (delayMs === 70) rings.push(ring)
        return { cancel: () => {} }
      },
    }
    const ports = {
      ...world.ports,
      timers,
      pool: (...names: Parameters<typeof world.ports.pool>) => {
        const pool = world.ports.pool(...names)
        const admit: typeof pool.admit = async (...args) => {
          await late.promise
          return pool.admit(...args)
        }
        return { ...pool, admit, remote: { admitLimitMs: () => 70 } }
      },
    }
    const answer = forward(world.exchange([world.route('c', ['c-a', 'c-b'])]), ports, world.digests)
    await expect.poll(() => rings.length).toBe(1)
    rings[0]!()
    expect((await answer).headers.get('x-firstlight-decision')).toBe('id-1; fallback=object_late')
    await expect.poll(() => world.bookings.map(({ admission }) => admission.id)).toEqual(['id-1~'])
    late.resolve()
    await world.settled()
    await expect.poll(() => world.open).toBe(0)
    const results = world.bookings.map(({ admission, outcomes }) => [admission.id, outcomes[0]?.result])
    expect(results.sort()).toEqual([
      ['id-1', 'abandoned'],
      ['id-1~', 'complete'],
    ])
    expect(world.logged).not.toContain('pool_unreachable')
  })

  it('clusters that answer too late are skipped, and their bookings are released', async () => {
    const world = new ScriptedForwarder({ 'c-a': [] })
    const waits: { readonly delayMs: number; ring(): void }[] = []
    const timers = {
      set(delayMs: number, ring: () => void) {
        waits.push({ delayMs, ring })
        return { cancel: () => {} }
      },
    }
    const late = Promise.withResolvers<void>()
    const ports = {
      ...world.ports,
      timers,
      pool: (...names: Parameters<typeof world.ports.pool>) => {
        const pool = world.ports.pool(...names)
        const admit: typeof pool.admit = async (...args) => {
          await late.promise
          return pool.admit(...args)
        }
        return { ...pool, admit }
      },
    }
    const answer = forward(world.exchange([world.route('c', ['c-a'])]), ports, world.digests)
    await expect.poll(() => waits.map(({ delayMs }) => delayMs)).toContain(2_000)
    waits.find(({ delayMs }) => delayMs === 2_000)!.ring()
    expect((await answer).headers.get('x-firstlight-decision')).toBe('id-1; fallback=object_unreachable')
    expect(world.bookings).toEqual([])
    // On Workers, an answer that comes after the end of the work in the background is lost.
    const settled = world.settled()
    await turns()
    late.resolve()
    await settled
    expect(world.bookings.map(({ outcomes }) => outcomes.map(({ result }) => result))).toEqual([['abandoned']])
  })

  it('clusters with a newer configuration return an engine that this edge knows too', async () => {
    const world = new ScriptedForwarder({ 'c-new': [], 'c-newer': [], 'c-old': [] })
    const { headers } = await forward(world.exchange([world.route('c', ['c-old'])]), world.ports, world.digests)
    expect(headers.get('x-firstlight-engine')).toBe('c-old')
    expect(headers.get('x-firstlight-decision')).toBe('id-1')
    await world.settled()
    expect(world.bookings.map(({ engine, outcomes }) => [engine, outcomes.map(({ result }) => result)])).toEqual([
      ['c-new', ['abandoned']],
      ['c-old', ['complete']],
    ])
    expect(world.sent).toHaveLength(1)
  })

  it('clusters without an engine that this edge knows are followed by the next one', async () => {
    const world = new ScriptedForwarder({
      ...Object.fromEntries(Array.from({ length: 70 }, (_, at) => [`c1-${at}`, []])),
      'c2-a': [],
    })
    const { headers } = await forward(
      world.exchange([world.route('c1', []), world.route('c2', ['c2-a'])]),
      world.ports,
      world.digests,
    )
    expect(headers.get('x-firstlight-engine')).toBe('c2-a')
    await world.settled()
    expect(world.bookings.every(({ outcomes }) => outcomes.length === 1)).toBe(true)
  })

  it('clusters do not move a request that is bound to one engine', async () => {
    const world = new ScriptedForwarder({ 'c-a': [], 'c-b': [] })
    const exchange = world.exchange([world.route('c', ['c-a', 'c-b'])], { pinned: { cluster: 'c', engine: 'c-b' } })
    const { headers } = await forward(exchange, world.ports, world.digests)
    expect(headers.get('x-firstlight-engine')).toBe('c-b')
    const dying = new ScriptedForwarder({ 'c-a': [], 'c-b': [dead] })
    const again = dying.exchange([dying.route('c', ['c-a', 'c-b'])], { pinned: { cluster: 'c', engine: 'c-b' } })
    expect((await failureOf(forward(again, dying.ports, dying.digests))).reason).toBe('no_engine')
    expect(dying.sent.map(({ target }) => target.id)).toEqual(['c-b'])
  })
})

describe('a client that leaves', () => {
  it('a client that leaves frees its booking and is not retried', async () => {
    const world = new ScriptedForwarder({ 'c-a': ['hangs'], 'c-b': [] })
    const work = failureOf(forward(world.exchange([world.route('c', ['c-a', 'c-b'])]), world.ports, world.digests))
    await new Promise((turn) => setTimeout(turn, 0))
    world.client.abort('client left')
    expect((await work).reason).toBe('client_gone')
    await world.settled()
    expect(world.sent).toHaveLength(1)
    expect(world.bookings[0]!.outcomes).toMatchObject([{ result: 'client_gone', failure: null }])
  })
})

describe('whatever happens', () => {
  const meeting = fc.oneof(
    fc.constantFrom<Meeting>(
      dead,
      { fails: 'reset', when: 'first_byte' },
      { fails: 'first_byte_timeout' },
      { status: 500 },
      { status: 503, body: 'currently busy' },
      { status: 404 },
      { status: 302 },
      { status: 200 },
      { status: 200, sse: false },
    ),
    fc.constantFrom<Meeting>({ status: 200, end: 'engine_truncated' }, { status: 200, end: 'client_gone' }),
  )
  it('every booking is released exactly once', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(meeting, { minLength: 1, maxLength: 6 }),
        fc.constantFrom(null, 'engines_full', 'throws'),
        async (script, first) => {
          const engines = script.map((_, i) => `c2-${i}`)
          const world = new ScriptedForwarder(Object.fromEntries(script.map((one, i) => [`c2-${i}`, [one]])))
          if (first !== null) world.refusals.set('c1', first)
          const exchange = world.exchange([world.route('c1', []), world.route('c2', engines)])
          await forward(exchange, world.ports, world.digests).catch(() => {})
          await new Promise((turn) => setTimeout(turn, 0))
          await world.settled()
          expect(world.bookings.every(({ outcomes }) => outcomes.length === 1)).toBe(true)
          expect(new Set(world.sent.map(({ target }) => target.id)).size).toBe(world.sent.length)
        },
      ),
      { numRuns: 200 },
    )
  })
})
