/** Load of one streamed request in views and costs, from the client's request to the last byte, on any runtime. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { HeldEngine } from '../kit/held-engine.ts'
import { DONE, sseEvent } from '../kit/sse.ts'
import { until } from '../wait.ts'
import { type RunningGateway, runtimeNames, startRuntime, type Runtime } from '../kit/gateway.ts'

const KEY = 'admin-key-of-the-load-suite'
const BLOCK_TOKENS = 16
/** Model of the pool whose streams are not read on Workers. */
const UNREAD = 'unread'
/** Long enough that its estimated prefill time has not passed when it is read. */
const PROMPT_BLOCKS = 6_000
/** Tokens in the partial block of the prompt. */
const PARTIAL_TOKENS = 5
const EVENT = sseEvent({ id: 'c', object: 'text_completion', choices: [{ index: 0, text: 'a' }] })
const FINISH = sseEvent({
  id: 'c',
  object: 'text_completion',
  choices: [{ index: 0, text: '', finish_reason: 'stop' }],
})

/** On Workers, progress updates follow the response. */
const PATIENT = { timeout: 15_000 }

interface FleetEngine {
  readonly active_blocks: number
  readonly queued_prefill_tokens: number
  readonly queued_prefill_s: number
  readonly requests_total: number
}

/** The record of usage, if any, and the end. */
const endOf = (completionTokens = 0): string => {
  const usage = { prompt_tokens: 10, completion_tokens: completionTokens, total_tokens: 10 + completionTokens }
  const record = sseEvent({ id: 'c', object: 'text_completion', choices: [], usage })
  return `${FINISH}${completionTokens > 0 ? record : ''}${DONE}`
}

export function outputLoadContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  describe(`load of a stream on ${name}`, () => {
    let engine: HeldEngine
    let unreadEngine: HeldEngine
    let gateway: RunningGateway

    beforeAll(async () => {
      engine = await HeldEngine.open({ opening: '' })
      unreadEngine = await HeldEngine.open({ opening: '' })
      gateway = await startRuntime(runtime, {
        open: true,
        admin: { secret: KEY },
        log: { level: 'silent' },
        clusters: [
          {
            id: 'c',
            pools: [
              {
                model: 'm',
                policy: 'active_blocks',
                block_tokens: BLOCK_TOKENS,
                observe_share: 1,
                engines: [{ id: 'e', url: engine.url }],
              },
              {
                model: UNREAD,
                block_tokens: BLOCK_TOKENS,
                observe_share: 0,
                engines: [{ id: 'e-unread', url: unreadEngine.url }],
              },
            ],
          },
        ],
      })
    })
    afterAll(async () => {
      await gateway.close()
      await engine.close()
      await unreadEngine.close()
    })

    const arrived = (): Promise<unknown> => until(() => engine.held.length === 1)
    const admin = (init: RequestInit = {}): RequestInit => ({
      ...init,
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    })
    const load = async (pool = 0): Promise<FleetEngine> => {
      const fleet = (await (await fetch(`${gateway.url}/v1/firstlight/fleet`, admin())).json()) as {
        pools: readonly { engines: readonly FleetEngine[] }[]
      }
      return fleet.pools[pool]!.engines[0]!
    }
    const activeBlocks = async (): Promise<number> => (await load()).active_blocks
    /** Cost of another prompt of one block on the engine. */
    const priced = async (): Promise<number> => {
      const prompt = Array.from({ length: BLOCK_TOKENS }, (_, at) => 900 + at)
      const response = await fetch(
        `${gateway.url}/v1/firstlight/route?endpoint=/v1/completions`,
        admin({ method: 'POST', body: JSON.stringify({ model: 'm', prompt }) }),
      )
      const { decision } = (await response.json()) as {
        decision: { candidates: readonly { terms: Readonly<Record<string, number>> }[] }
      }
      return decision.candidates[0]!.terms['potential_blocks']!
    }
    const metric = async (metricName: string): Promise<number> => {
      const text = await (await fetch(`${gateway.url}/metrics`, admin())).text()
      return Number(new RegExp(`^firstlight_engine_${metricName}\\{.*\\} (\\S+)$`, 'm').exec(text)?.[1])
    }

    const ask = (prompt: readonly number[], changes: object = {}): Promise<Response> => {
      const answer = fetch(`${gateway.url}/v1/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'm', prompt, stream: true, ...changes }),
      })
      answer.catch(() => {})
      return answer
    }

    it('a stream counts its prompt as pending until its first token, then its output in blocks, then zero', async () => {
      const prompt = Array.from({ length: (PROMPT_BLOCKS - 1) * BLOCK_TOKENS + PARTIAL_TOKENS }, (_, at) => at)
      const answer = ask(prompt)
      await arrived()
      expect(await load()).toMatchObject({ active_blocks: PROMPT_BLOCKS, queued_prefill_tokens: prompt.length })
      expect((await load()).queued_prefill_s).toBeGreaterThan(0)
      expect(await metric('uncomputed_prefix_tokens')).toBe(prompt.length)
      expect(await metric('pending_prefill_seconds')).toBeGreaterThan(0)
      expect(await metric('prefill_todo_workload')).toBe((prompt.length * (prompt.length + 1)) / 2)

      engine.held[0]!.write(EVENT.repeat(2 * BLOCK_TOKENS - PARTIAL_TOKENS))
      const reader = (await answer).body!.getReader()
      await reader.read()
      await expect.poll(activeBlocks, PATIENT).toBe(PROMPT_BLOCKS + 1)
      engine.held[0]!.write(EVENT.repeat(1))
      await reader.read()
      await expect.poll(activeBlocks, PATIENT).toBe(PROMPT_BLOCKS + 2)
      expect(await load()).toMatchObject({ queued_prefill_tokens: 0, queued_prefill_s: 0 })
      expect(await metric('uncomputed_prefix_tokens')).toBe(0)
      expect(await metric('pending_prefill_seconds')).toBe(0)
      expect(await metric('prefill_todo_workload')).toBe(0)

      engine.held[0]!.write(EVENT.repeat(3 * BLOCK_TOKENS))
      await expect.poll(activeBlocks, PATIENT).toBe(PROMPT_BLOCKS + 5)
      expect(await metric('active_blocks')).toBe(PROMPT_BLOCKS + 5)
      expect(await priced()).toBe(PROMPT_BLOCKS + 5 + 1)

      engine.finish(endOf())
      while (!(await reader.read()).done);
      await expect.poll(activeBlocks, PATIENT).toBe(0)
      expect(await priced()).toBe(1)
    })

    it('a stream of n answers counts the last block of its prompt and the output of each of them', async () => {
      const prompt = Array.from({ length: BLOCK_TOKENS + PARTIAL_TOKENS }, (_, at) => 300 + at)
      const answer = ask(prompt, { n: 3 })
      await arrived()
      expect(await activeBlocks()).toBe(2)
      engine.held[0]!.write(EVENT.repeat(3))
      const reader = (await answer).body!.getReader()
      await reader.read()
      // Each answer copies the partial block; one of the three is that of the prompt.
      await expect.poll(activeBlocks, PATIENT).toBe(4)
      engine.finish(endOf())
      while (!(await reader.read()).done);
      await expect.poll(activeBlocks, PATIENT).toBe(0)
    })

    it('a stream that the gateway does not read counts as pending until its first token, then its prompt, then zero', async () => {
      const unread = () => load(1)
      const before = (await unread()).requests_total
      const prompt = Array.from({ length: PROMPT_BLOCKS * BLOCK_TOKENS }, (_, at) => 7_000 + at)
      const answer = ask(prompt, { model: UNREAD })
      await until(() => unreadEngine.held.length === 1)
      expect(await unread()).toMatchObject({ active_blocks: PROMPT_BLOCKS, queued_prefill_tokens: prompt.length })
      unreadEngine.held[0]!.write(EVENT)
      const reader = (await answer).body!.getReader()
      await reader.read()
      await expect.poll(async () => (await unread()).queued_prefill_tokens, PATIENT).toBe(0)
      expect((await unread()).active_blocks).toBeGreaterThanOrEqual(PROMPT_BLOCKS)
      unreadEngine.finish(endOf())
      while (!(await reader.read()).done);
      await expect.poll(async () => (await unread()).active_blocks, PATIENT).toBe(0)
      expect((await unread()).requests_total).toBe(before + 1)
    })

    it('the load of a stream counts tokens and not events, once a stream has shown how many tokens an event has', async () => {
      const prompt = Array.from({ length: BLOCK_TOKENS }, (_, at) => 500 + at)
      const [events, tokensPerEvent] = [200, 4]
      const drafting = async (): Promise<ReadableStreamDefaultReader<Uint8Array>> => {
        const answer = ask(prompt)
        await arrived()
        engine.held[0]!.write(EVENT.repeat(events))
        return (await answer).body!.getReader()
      }
      const first = await drafting()
      await first.read()
      engine.finish(endOf(events * tokensPerEvent))
      while (!(await first.read()).done);
      await expect.poll(activeBlocks, PATIENT).toBe(0)

      const second = await drafting()
      const tokensOfEvents = (events * tokensPerEvent) / BLOCK_TOKENS
      await expect.poll(activeBlocks, PATIENT).toBeGreaterThan(1 + 0.9 * tokensOfEvents)
      expect(await activeBlocks()).toBeLessThanOrEqual(1 + tokensOfEvents)
      engine.finish(endOf())
      while (!(await second.read()).done);
      await expect.poll(activeBlocks, PATIENT).toBe(0)
    })
  })
}
