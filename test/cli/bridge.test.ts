import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { networkInterfaces, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { EventStream } from '../../src/core/kv-events/event-stream.ts'
import { parseConfig } from '../../src/config/parse.ts'
import type { BridgedEngine, EngineListener } from '../../src/cli/bridge/engine-listener.ts'
import { Members } from '../../src/cli/bridge/members.ts'
import { endpointsOf as endpointsIn, locateEvents } from '../../src/cli/bridge/event-endpoints.ts'
import { readVllmSources } from '../../src/engines/kv-event-source.ts'
import { enginesIn } from '../../src/cli/bridge/engines.ts'
import { startBridge } from '../../src/cli/bridge/bridge.ts'
import { type BridgeStatus, statusMetrics } from '../../src/cli/bridge/status.ts'
import { listenForStatus } from '../../src/cli/bridge/status-server.ts'
import { Poster } from '../../src/cli/bridge/poster.ts'
import type { OpenEventSocket } from '../../src/cli/bridge/sockets.ts'
import { main } from '../../bin/commands.ts'
import { openLog } from '../../src/platform/node/log.ts'
import { FakeEngine } from '../kit/fake-engine.ts'
import { framed, stored as storedEvent } from '../core/kv-events/events.ts'
import { parseExposition } from '../telemetry/parse-exposition.ts'
import { ownPorts } from '../own-ports.ts'
import {
  BLOCK_TOKENS,
  hasZmq,
  openBridgedGateway,
  type BridgedGateway,
  type BridgedGatewayOptions,
} from '../kit/bridged-gateway.ts'
import { firstlight } from './run-cli.ts'
import { until } from '../wait.ts'

const span = (from: number, count: number): number[] => Array.from({ length: count }, (_, at) => from + at)

const zmqIsThere = await hasZmq()
const ipv6IsThere = Object.values(networkInterfaces())
  .flat()
  .some((one) => one?.address === '::1')

describe.skipIf(!zmqIsThere)('a bridge between engines and a gateway', () => {
  let world: BridgedGateway
  const open = async (options: BridgedGatewayOptions = {}) => {
    world = await openBridgedGateway(options)
    await world.caughtUp()
  }
  afterEach(() => world.close())

  /** Interleaved conversations: each prompt extends the previous one. Every other conversation has a salt. */
  async function converse(
    conversations: number,
    turns: number,
  ): Promise<{ readonly predicted: number; readonly reported: number }[]> {
    const seen: { readonly predicted: number; readonly reported: number }[] = []
    for (let turn = 1; turn <= turns; turn++) {
      for (let one = 0; one < conversations; one++) {
        // Lengths on and off the block boundary.
        const prompt = span(one * 10_000, turn * 5 * BLOCK_TOKENS + (one % 3) * 7)
        seen.push(await world.ask(prompt, one % 2 === 0 ? {} : { cache_salt: `tenant-${one}` }))
        await world.caughtUp()
      }
    }
    return seen
  }

  it('a bridge between engines and a gateway makes the gateway predict cached tokens exactly, with caches that are too small', async () => {
    await open({ engines: 2, cacheBlocks: 90 })
    const seen = await converse(9, 4)
    expect(seen.map(({ predicted }) => predicted)).toEqual(seen.map(({ reported }) => reported))
    expect(seen.some(({ reported }) => reported > 0)).toBe(true)
    expect(world.fleet.engines.reduce((sum, { driver }) => sum + driver.model.pool.evictions, 0)).toBeGreaterThan(0)
    const metrics = parseExposition(await world.gatewayMetrics())
    expect(metrics.get('firstlight_engine_kv_events_exact')?.samples.map(({ value }) => value)).toEqual([1, 1])
  })

  it('a bridge between engines and a gateway reads the arrays and the replies without a topic of older engines', async () => {
    await open({ cacheBlocks: 60, publish: { encoding: 'arrays', topicInReplay: false, topic: 'kv@engine' } })
    world.publisher(0).drop = 1
    const seen = await converse(4, 2)
    expect(seen.map(({ predicted }) => predicted)).toEqual(seen.map(({ reported }) => reported))
  })

  it('a bridge between engines and a gateway requests lost batches again, including the last one', async () => {
    await open()
    await world.ask(span(0, 80))
    await world.caughtUp()
    world.publisher(0).drop = 3
    for (const one of [1, 2, 3, 4]) await world.ask(span(one * 1000, 80))
    await world.caughtUp()
    world.publisher(0).drop = 1
    await world.ask(span(7000, 80))
    await world.caughtUp()
    expect(world.status(0)).toMatchObject({ complete: true, losses: 0, restarts: 0 })
    for (const one of [0, 1, 2, 3, 4, 7]) {
      const { predicted, reported } = await world.ask([...span(one * 1000, 80), 1, 2])
      expect([predicted, reported]).toEqual([80, 80])
    }
  })

  it('a bridge between engines and a gateway has incomplete contents if missed batches are no longer available, and complete ones after a reset', async () => {
    await open({ publish: { bufferSteps: 2 } })
    world.publisher(0).drop = 5
    for (const one of [1, 2, 3, 4, 5, 6]) await world.ask(span(one * 1000, 80))
    await world.caughtUp()
    expect(world.status(0).complete).toBe(false)
    expect(world.status(0).losses).toBeGreaterThan(0)
    expect(await world.gatewayMetrics()).toMatch(/kv_events_exact\{[^}]*\} 0/)
    await fetch(`${world.fleet.urls[0]}/reset_prefix_cache`, { method: 'POST' })
    await world.ask(span(9000, 80))
    await world.caughtUp()
    expect(world.status(0)).toMatchObject({ complete: true, blocks: 5 })
    expect(await world.ask([...span(1000, 80), 1])).toMatchObject({ predicted: 0, reported: 0 })
  })

  it('a bridge between engines and a gateway detects a restart of the engine without new events', async () => {
    await open()
    await world.ask(span(0, 80))
    await world.caughtUp()
    world.fleet.engines[0]!.restart()
    // The count depends on how often the sockets reconnected.
    await until(() => world.status(0).restarts >= 1)
    // The bridge's last message may still be in transit.
    await until(async () => /^firstlight_engine_cached_blocks\{.*\} 0$/m.test(await world.gatewayMetrics()))
    expect(await world.ask([...span(0, 80), 1])).toMatchObject({ predicted: 0, reported: 0 })
  })

  it('a bridge between engines and a gateway sends a restarted gateway the full state', async () => {
    await open()
    await world.ask(span(0, 80))
    await world.caughtUp()
    const { resyncs } = world.bridge.status()
    await world.restartGateway()
    await until(() => world.bridge.status().resyncs > resyncs)
    await world.caughtUp()
    expect(await world.ask([...span(0, 80), 1])).toMatchObject({ predicted: 80, reported: 80 })
  })

  it('a bridge between engines and a gateway starts over with an engine that was removed and is known further to the gateway', async () => {
    await open()
    for (const one of [0, 1, 2, 3, 4, 5]) {
      await world.ask(span(one * 1000, 80))
      await world.caughtUp()
    }
    await fetch(`${world.fleet.urls[0]}/reset_prefix_cache`, { method: 'POST' })
    await world.rejoin(0)
    await world.caughtUp()
    await world.ask(span(9000, 80))
    await world.caughtUp()
    expect(await world.ask([...span(9000, 80), 1])).toMatchObject({ predicted: 80, reported: 80 })
    expect(await world.ask([...span(1000, 80), 1])).toMatchObject({ predicted: 0, reported: 0 })
  })

  it('a bridge between engines and a gateway reports prompts that are not measured in tokens, which match no engine', async () => {
    await open()
    expect(world.lines.filter((line) => line.includes('prompts_measured_in_bytes'))).toHaveLength(1)
  })

  it('a bridge between engines and a gateway ignores a pool whose block size is no multiple of the engine’s', async () => {
    world = await openBridgedGateway({ pool: { block_tokens: 24 } })
    await world.ask(span(0, 80))
    await until(() => world.lines.some((line) => line.includes('block_size_mismatch')))
    expect(world.status(0)).toMatchObject({ complete: false, engine_block_tokens: BLOCK_TOKENS })
  })

  it('a bridge between engines and a gateway shows how it is doing', async () => {
    await open()
    await world.ask(span(0, 80))
    await world.caughtUp()
    const listener = await listenForStatus({ host: '127.0.0.1', port: 0 }, () => world.bridge.status())
    try {
      const families = parseExposition(await (await fetch(`${listener.url}/metrics`)).text())
      expect(families.get('firstlight_bridge_blocks')?.samples[0]).toMatchObject({
        value: 5,
        labels: { cluster: 'one', model: 'sim', engine: 'engine-0' },
      })
      expect(await (await fetch(`${listener.url}/status`)).json()).toMatchObject({
        problem: null,
        engines: [{ reachable: true, complete: true }],
      })
      expect((await fetch(`${listener.url}/health`)).status).toBe(200)
      expect((await fetch(`${listener.url}/else`)).status).toBe(404)
    } finally {
      await listener.close()
    }
    expect(statusMetrics({ ...world.bridge.status(), engines: [] })).toContain('firstlight_bridge_posts_total')
  })
})

describe('firstlight bridge', () => {
  it('firstlight bridge listens to no engine behind another gateway, which has a bridge of its own', () => {
    const clusters = [
      { id: 'paris', gateway: { url: 'http://paris', models: [{ model: 'm' }] } },
      { id: 'own', pools: [{ model: 'm', engines: [{ id: 'a', url: 'http://a' }] }] },
    ]
    expect(
      enginesIn(parseConfig({ clusters }, {}, { defaultVersion: 1, defaultObserveShare: 1, listens: true })).map(
        ({ cluster, id }) => [cluster, id],
      ),
    ).toEqual([['own', 'a']])
  })

  it('firstlight bridge names the missing flags of an engine', async () => {
    const { code, err } = await firstlight('bridge', '--events', 'tcp://127.0.0.1:5557', '--engine', 'a')
    expect([code, err]).toEqual([2, expect.stringContaining('--events also needs --block-tokens')])
  })

  it.skipIf(!zmqIsThere || !ipv6IsThere)(
    'firstlight bridge receives the events of one engine of a fleet, named by its address, also where that is of IPv6',
    async () => {
      const { Publisher } = await import('zeromq')
      const events = new Publisher({ linger: 0, ipv6: true })
      await events.bind('tcp://[::1]:*')
      const folder = mkdtempSync(join(tmpdir(), 'firstlight-bridge-'))
      const file = join(folder, 'firstlight.yaml')
      const { port } = new URL(events.lastEndpoint!.replace('tcp:', 'http:'))
      writeFileSync(
        file,
        JSON.stringify({
          clusters: [
            {
              id: 'c',
              pools: [
                {
                  model: 'm',
                  engines: [
                    {
                      id: 'v',
                      url: 'http://fleet.example:8000',
                      discover: 'dns',
                      kv_events: { endpoint: `tcp://fleet.example:${port}` },
                    },
                  ],
                },
              ],
            },
          ],
        }),
      )
      const at = ownPorts(1)
      const over = new AbortController()
      const ended = main(
        ['bridge', '--config', file, '--engine', 'v-::1', '--listen', `127.0.0.1:${at}`, '--log-level', 'silent'],
        {
          out: () => undefined,
          err: () => undefined,
          env: {},
          stop: over.signal,
          stopNow: over.signal,
          lookup: async () => ['::1', '::2'],
        },
      )
      const listening = () =>
        fetch(`http://127.0.0.1:${at}/status`).then(
          async (answer) =>
            ((await answer.json()) as BridgeStatus).engines.map(({ engine, reachable: is }) => [engine, is]),
          () => null,
        )
      await expect.poll(listening).toEqual([['v---1', true]])
      over.abort()
      expect(await ended).toBe(0)
      events.close()
      rmSync(folder, { recursive: true })
    },
  )

  it('firstlight bridge finds event sockets in vLLM’s answer, as seen from outside', () => {
    const endpointsOf = (json: unknown, at: Parameters<typeof endpointsIn>[1]) =>
      endpointsIn(readVllmSources(json) ?? [], at)
    const status = {
      enable_kv_cache_events: true,
      publisher: 'zmq',
      endpoint: 'tcp://*:5557',
      replay_endpoint: 'tcp://*:5558',
      buffer_steps: 10_000,
      topic: '',
    }
    const first = { host: '10.0.0.1', rank: '0' }
    const one = { host: 'gpu', rank: null }
    expect(
      endpointsOf({ 0: status, 1: { ...status, endpoint: 'tcp://*:5559' } }, { ...first, rank: '1' }),
    ).toMatchObject({
      endpoint: 'tcp://10.0.0.1:5559',
    })
    expect(endpointsOf({ 0: status }, first)).toEqual({
      endpoint: 'tcp://10.0.0.1:5557',
      replayEndpoint: 'tcp://10.0.0.1:5558',
      topic: '',
    })
    expect(endpointsOf({ 0: { ...status, replay_endpoint: null, topic: 'kv' } }, { ...first, host: 'gpu' })).toEqual({
      endpoint: 'tcp://gpu:5557',
      replayEndpoint: null,
      topic: 'kv',
    })
    // One of several servers reports only its own rank. One server of several ranks has a cache for each.
    expect(endpointsOf({ 3: status }, one)).toMatchObject({ endpoint: 'tcp://gpu:5557' })
    expect(endpointsOf({ 0: status, 1: status }, one)).toBe('ranks')
    for (const nothing of [
      {},
      null,
      { 0: { ...status, enable_kv_cache_events: false } },
      { 0: { ...status, publisher: 'null' } },
    ])
      expect([endpointsOf(nothing, first), endpointsOf(nothing, one)]).toEqual(['none', 'none'])
  })
})

interface SentFeed {
  readonly engine: string
  readonly seq: number
  readonly reset: boolean
  readonly complete: boolean
  readonly stored: string
}

/** A gateway with scripted responses, and a bridge's poster with one engine. */
async function posterBefore(answers: ((feed: SentFeed) => { readonly status?: number; readonly body: string })[]) {
  const sent: SentFeed[] = []
  const lines: { readonly event: string; readonly fields: Readonly<Record<string, unknown>> }[] = []
  const server = await FakeEngine.open({
    '*': ({ json }) => {
      const feed = (json as unknown as { pools: { feeds: SentFeed[] }[] }).pools[0]!.feeds[0]!
      sent.push(feed)
      return answers[Math.min(sent.length, answers.length) - 1]!(feed)
    },
  })
  const stream = new EventStream({
    pool: { model: 'm', blockTokens: 16 },
    limits: { stepBlocks: 10, pendingBlocks: 10 },
    replays: true,
  })
  const listener = {
    engine: { cluster: 'c', pool: { model: 'm', blockTokens: 16 }, id: 'a' },
    stream,
    isReachable: true,
  } as unknown as EngineListener
  const keep = (event: string, fields: Readonly<Record<string, unknown>> = {}) => void lines.push({ event, fields })
  const clock = { now: 0 }
  const gateway = server.url
  const poster = new Poster([listener], {
    gateway,
    key: 'k',
    log: { debug: keep, info: keep, warn: keep, error: keep },
    now: () => clock.now,
    epoch: 1,
    flushMs: 0,
    heartbeatMs: 1000,
  })
  return { poster, stream, sent, lines, clock, listener, close: () => server.close() }
}

const state =
  (one: string, exact = true) =>
  () => ({ body: JSON.stringify({ pools: [{ states: [one], exact_tokens: exact }] }) })

describe('a gateway’s answer to the bridge', () => {
  it('a gateway’s answer to the bridge is reported if it is a refusal, and all changes remain queued', async () => {
    const { poster, stream, close } = await posterBefore([
      () => ({
        status: 401,
        body: '{"error":{"message":"Invalid admin key. Check it, or ask the operator of this gateway for it."}}',
      }),
    ])
    await poster.round()
    close()
    expect(poster.problem).toContain('401')
    expect(poster.problem).toContain('Invalid admin key')
    expect(stream.log.isDue).toBe(true)
  })

  it('a gateway’s answer to the bridge is awaited with the same step, and accepted when it comes', async () => {
    const { poster, stream, sent, close } = await posterBefore([
      state('ok'),
      () => ({ status: 503, body: 'busy' }),
      state('ok'),
    ])
    await poster.round()
    stream.log.hold(1, 2)
    await poster.round()
    stream.log.hold(3, 4)
    await poster.round()
    await poster.round()
    close()
    expect(sent.map(({ seq, reset }) => [seq, reset])).toEqual([
      [1, true],
      [2, false],
      [2, false],
      [3, false],
    ])
    expect(sent[2]!.stored).toBe(sent[1]!.stored)
    expect(poster.problem).toBeNull()
  })

  it('a gateway’s answer to the bridge may request a resync, which sends the full state', async () => {
    const { poster, stream, sent, close } = await posterBefore([state('ok'), state('resync'), state('ok')])
    stream.log.hold(1, 2)
    await poster.round()
    stream.log.hold(3, 4)
    await poster.round()
    await poster.round()
    close()
    expect(sent.map(({ reset }) => reset)).toEqual([true, false, true])
    expect(Buffer.from(sent[2]!.stored, 'base64')).toHaveLength(16)
    expect(poster.counts).toMatchObject({ resyncs: 1, steps: 2 })
  })

  it('a gateway’s answer to the bridge may name another bridge, which is logged once and retried later', async () => {
    const { poster, sent, lines, clock, listener, close } = await posterBefore([state('stale')])
    await poster.round()
    await poster.round()
    expect(sent).toHaveLength(1)
    clock.now = 20_000
    await poster.round()
    close()
    expect(sent).toHaveLength(2)
    expect(poster.stateOf(listener)).toBe('stale')
    expect(lines.filter(({ event }) => event === 'feed_refused').map(({ fields }) => fields['next'])).toEqual([
      expect.stringContaining('another bridge'),
    ])
  })

  it('a gateway’s answer to the bridge is not requested for an engine that restarted with other blocks, except for the end of its feed', async () => {
    const { poster, stream, sent, clock, close } = await posterBefore([state('ok')])
    stream.replayed([framed(0, [storedEvent({ prompt: span(0, 32), blockTokens: 16 })], 1000)], 0)
    await poster.round()
    await poster.round()
    stream.replayed([framed(0, [storedEvent({ prompt: span(0, 48), blockTokens: 24 })], 2000)], 0)
    await poster.round()
    clock.now = 5000
    await poster.round()
    close()
    expect(sent.map(({ reset, complete, stored: blocks }) => [reset, complete, blocks.length > 0])).toEqual([
      [true, true, false],
      [false, true, true],
      [true, false, false],
    ])
  })

  it('a gateway’s answer to the bridge is requested by a heartbeat if nothing changes', async () => {
    const { poster, sent, clock, close } = await posterBefore([state('ok')])
    await poster.round()
    clock.now = 900
    await poster.round()
    clock.now = 1000
    await poster.round()
    close()
    expect(sent.map(({ seq, stored }) => [seq, stored])).toEqual([
      [1, ''],
      [2, ''],
    ])
  })
})

it('the bridge listens to the engines that answer while others do not', async () => {
  const reported: string[] = []
  const server = await FakeEngine.open({
    '*': ({ json }) => {
      const { pools } = json as unknown as { pools: { feeds: { engine: string }[] }[] }
      reported.push(...pools.flatMap(({ feeds }) => feeds.map(({ engine }) => engine)))
      return { body: { pools: pools.map(({ feeds }) => ({ states: feeds.map(() => 'ok'), exact_tokens: true })) } }
    },
  })
  const open: OpenEventSocket = (_, touched) => {
    queueMicrotask(() => touched(true))
    return { async *batches() {}, replay: () => Promise.resolve([]), close() {} }
  }
  const engine = (id: string) => ({
    id,
    cluster: 'c',
    pool: { model: 'm', blockTokens: 16 },
    events: { endpoint: `tcp://${id}`, replayEndpoint: null, topic: '' },
  })
  let answer: (found: ReturnType<typeof engine>[]) => void = () => {}
  const slow = new Promise<ReturnType<typeof engine>[]>((resolve) => (answer = resolve))
  const log = openLog('silent')
  const gateway = server.url
  const bridge = startBridge({ engines: [], open, log, gateway, key: null, flushMs: 0, heartbeatMs: 100 })
  bridge.join(Promise.resolve([engine('a')]))
  const leave = bridge.join(slow)
  const status = await listenForStatus({ host: '127.0.0.1', port: 0 }, () => bridge.status())
  const health = async () => (await fetch(`${status.url}/health`)).status
  // Sent and acknowledged.
  await until(() => reported.includes('a') && bridge.status().engines[0]?.gateway === 'ok')
  expect(bridge.status()).toMatchObject({ awaited: 1, engines: [{ engine: 'a', gateway: 'ok' }] })
  expect(await health()).toBe(503)
  answer([engine('b')])
  await until(() => reported.includes('b'))
  await until(() => bridge.status().engines.every(({ gateway: taken }) => taken === 'ok'))
  expect(bridge.status().awaited).toBe(0)
  expect(await health()).toBe(200)
  await leave()
  expect(bridge.status().engines.map(({ engine: id }) => id)).toEqual(['a'])
  const tellsOfA = async () => {
    reported.length = 0
    await until(() => reported.filter((id) => id === 'a').length > 1)
  }
  // Messages in transit at that time have arrived.
  await tellsOfA()
  await tellsOfA()
  expect(reported).not.toContain('b')
  await status.close()
  await bridge.close()
  await server.close()
})

it('a bridge follows engines that come and go, and queries each once', async () => {
  const left: string[] = []
  const bridge = {
    join: (sockets: Promise<readonly BridgedEngine[]>) => async () =>
      void left.push(...(await sockets).map(({ id }) => id)),
  }
  const stop = new AbortController()
  const members = new Members(bridge, openLog('silent'), stop.signal)
  const wanted = (...ids: string[]) =>
    enginesIn(
      parseConfig(
        {
          clusters: [
            {
              id: 'c',
              pools: [
                {
                  model: 'm',
                  engines: ids.map((id) => ({ id, url: `http://${id}`, kv_events: { endpoint: `tcp://${id}:1` } })),
                },
              ],
            },
          ],
        },
        {},
        { defaultVersion: 1, defaultObserveShare: 1, listens: true },
      ),
    )
  expect((await members.update(wanted('a', 'b'))).map(({ id }) => id)).toEqual(['a', 'b'])
  expect((await members.update(wanted('b', 'd'))).map(({ id }) => id)).toEqual(['d'])
  await until(() => left.length > 0)
  expect(left).toEqual(['a'])
  expect((await members.update(wanted('a'))).map(({ id }) => id)).toEqual(['a'])
  await until(() => left.length === 3)
  expect(left).toEqual(['a', 'b', 'd'])
  stop.abort()
})

describe('the ranks of a server', () => {
  const server = (engine: object) =>
    enginesIn(
      parseConfig(
        { clusters: [{ id: 'c', pools: [{ model: 'm', engines: [{ id: 'a', ...engine }] }] }] },
        {},
        { defaultVersion: 1, defaultObserveShare: 1, listens: true },
      ),
    )[0]!
  const located = async (engine: object) =>
    (await locateEvents(server(engine), openLog('silent'), new AbortController().signal)).map(
      ({ id, rank, events: { endpoint, replayEndpoint } }) => [id, rank, endpoint, replayEndpoint],
    )
  const source = (port: number) => ({
    enable_kv_cache_events: true,
    publisher: 'zmq',
    endpoint: `tcp://*:${port}`,
    replay_endpoint: `tcp://*:${port + 100}`,
    topic: '',
  })

  it('the ranks of a server publish on consecutive ports, by their numbers in the deployment', async () => {
    const kvEvents = { endpoint: 'tcp://gpu:5557', replay_endpoint: 'tcp://gpu:5657' }
    const engine = { url: 'http://gpu:1', data_parallel: { ranks: 2, first: 4 }, kv_events: kvEvents }
    expect(await located(engine)).toEqual([
      ['a/4', 4, 'tcp://gpu:5561', 'tcp://gpu:5661'],
      ['a/5', 5, 'tcp://gpu:5562', 'tcp://gpu:5662'],
    ])
  })

  it.each([
    ['two, as configured', { ranks: 2, first: 4 }, ['a/4', 'a/5']],
    ['two, as found', 'auto', ['a/0', 'a/1']],
  ])('the ranks of a server are those that the server lists: %s', async (_, dataParallel, ids) => {
    await using engine = await FakeEngine.open({
      'GET /kv_event_sources': { body: { 5: source(5562), 4: source(5561) } },
    })
    const found = await located({ url: engine.url, data_parallel: dataParallel })
    expect(found).toEqual([
      [ids[0], 4, 'tcp://127.0.0.1:5561', 'tcp://127.0.0.1:5661'],
      [ids[1], 5, 'tcp://127.0.0.1:5562', 'tcp://127.0.0.1:5662'],
    ])
    expect(engine.calls.filter((call) => call === 'GET /kv_event_sources')).toHaveLength(1)
  })

  it('the ranks of a server are one engine if the server has one', async () => {
    await using engine = await FakeEngine.open({ 'GET /kv_event_sources': { body: { 0: source(5557) } } })
    expect(await located({ url: engine.url, data_parallel: 'auto' })).toMatchObject([
      ['a', undefined, 'tcp://127.0.0.1:5557', 'tcp://127.0.0.1:5657'],
    ])
  })
})
