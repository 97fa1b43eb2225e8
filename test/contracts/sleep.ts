/** Engines that sleep until a request needs them, on any runtime. */
import { afterEach, describe, expect, it } from 'vitest'
import { FakeEngine } from '../kit/fake-engine.ts'
import { openGateway, type Runtime, runtimeNames, type TestGateway } from '../kit/gateway.ts'
import { completion, DONE, sseAnswer, token } from '../kit/sse.ts'
import { until } from '../wait.ts'

const AWAY = {
  status: 503,
  body: { error: { message: 'Generation is paused. Please retry after it resumes.', code: 503 } },
}

const metricsOf = (isAsleep: boolean): string =>
  [
    'vllm:num_requests_running{engine="0"} 0.0',
    'vllm:num_requests_waiting{engine="0"} 0.0',
    `vllm:engine_sleep_state{engine="0",sleep_state="awake"} ${isAsleep ? 0 : 1}.0`,
    '',
  ].join('\n')

/** A vLLM server in development mode. */
class SleepingEngine {
  asleep = false
  paused = false
  /** It wakes up after this. */
  gate: Promise<void> = Promise.resolve()
  engine!: FakeEngine

  static async open(): Promise<SleepingEngine> {
    const one = new SleepingEngine()
    one.engine = await FakeEngine.open({
      'POST /v1/chat/completions': ({ json }) => {
        if (one.asleep || one.paused) return AWAY
        return json['stream'] === true ? sseAnswer([token('hello'), DONE]) : { body: completion('hello') }
      },
      'GET /metrics': () => ({ body: metricsOf(one.asleep) }),
      'GET /is_sleeping': () => ({ body: { is_sleeping: one.asleep } }),
      'GET /is_paused': () => ({ body: { is_paused: one.paused } }),
      'POST /wake_up': async () => {
        await one.gate
        one.asleep = false
        return { body: {} }
      },
      'POST /sleep': () => {
        one.asleep = true
        return { body: {} }
      },
    })
    return one
  }

  calls(path: string): number {
    return this.engine.calls.filter((call) => call === `POST ${path}`).length
  }
}

export function sleepContract(runtime: Runtime): void {
  describe(`engines that sleep, behind a gateway on ${runtimeNames[runtime]}`, () => {
    const opened: { close(): Promise<unknown> }[] = []

    afterEach(async () => {
      for (const one of opened.splice(0).reverse()) await one.close()
    })

    async function site(
      count: number,
      pool: Readonly<Record<string, unknown>> = { wake: 'on_demand' },
      config: Readonly<Record<string, unknown>> = {},
    ) {
      const engines = await Promise.all(Array.from({ length: count }, () => SleepingEngine.open()))
      const gateway = await openGateway({
        runtime,
        engines: engines.map(({ engine: { url } }, at) => ({ id: `e${at}`, url, type: 'vllm' })),
        pool: { queue: { no_engine_wait_ms: 120_000 }, stats_interval_ms: 100, policy: 'round_robin', ...pool },
        config,
      })
      opened.push(...engines.map(({ engine }) => engine), gateway)
      return { engines, gateway }
    }

    const queued = async (gateway: TestGateway): Promise<number> => {
      const { pools } = await gateway.fleet()
      return (pools[0] as unknown as { queue: { requests: number } }).queue.requests
    }

    it('wake for a request that waits, one engine for all of them', async () => {
      const { engines, gateway } = await site(2)
      for (const one of engines) one.asleep = true
      const answers = await Promise.all([gateway.chat(), gateway.chat(), gateway.chat()])
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
      expect(engines.map((one) => one.calls('/wake_up')).toSorted()).toEqual([0, 1])
    })

    it('a stream that waits for a sleeping engine gets heartbeats until it is awake, and then its answer', async () => {
      const { engines, gateway } = await site(1, { wake: 'on_demand' }, { limits: { heartbeat_ms: 50 } })
      const gate = Promise.withResolvers<void>()
      engines[0]!.asleep = true
      engines[0]!.gate = gate.promise
      const answer = await gateway.chat({ stream: true })
      expect(answer.status).toBe(200)
      const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader()
      for (let beats = 0; beats < 3; beats++) expect((await reader.read()).value).toMatch(/^(?:: ping\n)+$/)
      await until(() => engines[0]!.calls('/wake_up') === 1)
      gate.resolve()
      let text = ''
      for (let piece = await reader.read(); !piece.done; piece = await reader.read()) text += piece.value
      expect(text.replaceAll(': ping\n', '')).toBe(token('hello') + DONE)
      await gateway.idle()
    })

    it('stay asleep if the operator does not let requests wake them', async () => {
      const { engines, gateway } = await site(1, {})
      engines[0]!.asleep = true
      const waiting = gateway.chat()
      await until(async () => (await queued(gateway)) === 1)
      engines[0]!.asleep = false
      expect((await waiting).status).toBe(200)
      expect(engines[0]!.calls('/wake_up')).toBe(0)
    })

    it('sleeping engines are not woken if they are only paused, by somebody who updates their weights', async () => {
      const { engines, gateway } = await site(1)
      engines[0]!.paused = true
      const waiting = gateway.chat()
      await until(async () => (await queued(gateway)) === 1)
      await until(() => engines[0]!.engine.calls.filter((call) => call === 'GET /is_sleeping').length > 0)
      engines[0]!.paused = false
      expect((await waiting).status).toBe(200)
      expect(engines[0]!.calls('/wake_up')).toBe(0)
    })

    it('engines that slept have lost their cache when they are back', async () => {
      const { engines, gateway } = await site(1)
      const messages = [{ role: 'user', content: 'a long prompt '.repeat(200) }]
      expect((await gateway.chat({ messages })).status).toBe(200)
      await until(async () => Number((await gateway.engines())['e0']!['cached_blocks']) > 0)
      const before = (await gateway.engines())['e0']!['cached_blocks']
      engines[0]!.asleep = true
      expect((await gateway.chat()).status).toBe(200)
      expect((await gateway.engines())['e0']!['cached_blocks']).toBeLessThan(Number(before))
    })

    it.runIf(runtime === 'node')('go to sleep when nobody needs them, but for those that must stay awake', async () => {
      const { engines, gateway } = await site(3, { wake: 'on_demand', sleep: { idle_s: 1 } })
      expect((await gateway.chat()).status).toBe(200)
      await until(() => engines.filter(({ asleep }) => asleep).length === 2)
      expect((await gateway.chat()).status).toBe(200)
      expect(engines.map((one) => one.calls('/sleep')).toSorted()).toEqual([0, 1, 1])
    })
  })
}
