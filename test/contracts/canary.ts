/** Semantic canary: an engine whose answers are wrong is found, on any runtime. */
import { afterEach, describe, expect, it } from 'vitest'
import type { EngineRequest } from '../kit/engine-request.ts'
import type { FakeAnswer } from '../kit/fake-answer.ts'
import { FakeEngine } from '../kit/fake-engine.ts'
import { until } from '../wait.ts'
import { MODEL, openGateway, runtimeNames, type Runtime } from '../kit/gateway.ts'

interface EngineView {
  readonly id: string
  readonly available: boolean
  readonly compared?: {
    readonly total: number
    readonly disagreed: number
    readonly stands_out_since: number | null
  }
}

/** An answer with log probabilities, as vLLM sends it. */
const answerOf = (text: string, { json }: EngineRequest): FakeAnswer => ({
  body: {
    id: 'x',
    object: 'chat.completion',
    created: 1,
    model: MODEL,
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: text },
        finish_reason: 'stop',
        logprobs: json['logprobs'] === true ? { content: [{ token: text, logprob: text.length * -1 }] } : null,
      },
    ],
    usage: { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 },
  },
})

const isRepeated = ({ json }: EngineRequest): boolean => json['logprobs'] === true

export function canaryContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  describe(`the semantic canary of a gateway on ${name}`, () => {
    const open: (() => Promise<void>)[] = []
    afterEach(async () => {
      for (const close of open.splice(0).reverse()) await close()
    })

    const site = async (canary?: object) => {
      const texts: Record<string, string> = { a: 'Paris', b: 'Paris', c: 'Paris' }
      const engines: Record<string, FakeEngine> = {}
      for (const id of Object.keys(texts)) {
        const serve = (request: EngineRequest): FakeAnswer => answerOf(texts[id]!, request)
        engines[id] = await FakeEngine.open({ 'POST *': serve, '*': { body: '' } })
        open.push(() => engines[id]!.close())
      }
      const gateway = await openGateway({
        runtime,
        engines: Object.entries(engines).map(([id, { url }]) => ({ id, url })),
        pool: { policy: 'round_robin', ...(canary === undefined ? {} : { canary }) },
      })
      open.push(() => gateway.close())
      const ask = async (more: object = { temperature: 0 }): Promise<string | null> => {
        const messages = [{ role: 'user', content: 'Capital?' }]
        const response = await gateway.chat({ messages, max_tokens: 99, ...more })
        expect(response.status).toBe(200)
        await response.text()
        return response.headers.get('x-firstlight-engine')
      }
      const fleet = () => gateway.engines<EngineView>()
      const posts = (): EngineRequest[] => Object.values(engines).flatMap((engine) => engine.posts)
      return { texts, ask, fleet, posts }
    }

    it('the semantic canary of a gateway finds the engine whose answers are wrong, ejects it, and uses it again once it is right', async () => {
      const { texts, ask, fleet, posts } = await site({ share: 1, eject: true })
      texts['b'] = 'Some other text'
      /** Has no limit but that of the test: it takes dozens of comparisons, one at a time. */
      const askUntil = async (isDone: () => Promise<boolean>): Promise<void> => {
        do for (let at = 0; at < 8; at++) await ask()
        while (!(await isDone()))
      }
      await askUntil(async () => (await fleet())['b']!.compared?.stands_out_since != null)
      // A health check of a busy machine may be late.
      await until(async () => {
        const { a, b, c } = await fleet()
        return a!.available && !b!.available && c!.available
      })
      for (const request of posts().filter(isRepeated))
        expect(request.json).toMatchObject({ temperature: 0, stream: false, max_tokens: 32 })
      for (let at = 0; at < 6; at++) expect(await ask()).not.toBe('b')
      texts['b'] = 'Paris'
      await askUntil(async () => (await fleet())['b']!.available)
    }, 240_000)

    it('the semantic canary of a gateway repeats only greedy requests with one answer', async () => {
      const { ask, posts } = await site({ share: 1 })
      for (const more of [{}, { temperature: 0.7 }, { temperature: 0, n: 2 }])
        for (let at = 0; at < 4; at++) await ask(more)
      expect(posts().filter(isRepeated)).toEqual([])
      await until(async () => {
        await ask()
        return posts().some(isRepeated)
      })
    })

    it('the semantic canary of a gateway repeats nothing unless it is configured', async () => {
      const { ask, fleet, posts } = await site()
      for (let at = 0; at < 8; at++) await ask()
      expect(posts().filter(isRepeated)).toEqual([])
      for (const engine of Object.values(await fleet())) expect(engine).not.toHaveProperty('compared')
    })
  })
}
