/** Adapters that only some engines of a pool have loaded, on any runtime. */
import { afterEach, describe, expect, it } from 'vitest'
import { FakeEngine } from '../kit/fake-engine.ts'
import { MODEL, openGateway, type Runtime, runtimeNames } from '../kit/gateway.ts'
import { completion } from '../kit/sse.ts'
import { until } from '../wait.ts'

const CHAT = '/v1/chat/completions'

const listOf = (...adapters: string[]) => ({
  body: {
    object: 'list',
    data: [
      { id: MODEL, object: 'model', parent: null },
      ...adapters.map((id) => ({ id, object: 'model', parent: MODEL, root: `/adapters/${id}` })),
    ],
  },
})

export function adaptersContract(runtime: Runtime): void {
  describe(`adapters of engines behind a gateway on ${runtimeNames[runtime]}`, () => {
    const opened: { close(): Promise<unknown> }[] = []

    afterEach(async () => {
      for (const one of opened.splice(0).reverse()) await one.close()
    })

    async function site(type: string, lists: readonly (readonly string[])[]) {
      const engines = await Promise.all(
        lists.map((adapters) =>
          FakeEngine.open({ 'POST *': { body: completion() }, 'GET /v1/models': listOf(...adapters) }),
        ),
      )
      const gateway = await openGateway({
        runtime,
        engines: engines.map(({ url }, at) => ({ id: `e${at}`, url, type })),
        pool: { adapters: ['sql', 'poet'], policy: 'round_robin', stats_interval_ms: 100 },
      })
      opened.push(...engines, gateway)
      /** Engines of several requests, one after the other. */
      const used = async (model: string): Promise<string> => {
        const names = new Set<string | null>()
        for (let sent = 0; sent < 4; sent++) {
          const answer = await gateway.chat({ model })
          expect(answer.status).toBe(200)
          names.add(answer.headers.get('x-firstlight-engine'))
        }
        return [...names].toSorted().join()
      }
      return { engines, used }
    }

    it.each(['vllm', 'sglang'])(
      'adapters of engines behind a gateway are requested where they are loaded (%s)',
      async (type) => {
        const { engines, used } = await site(type, [[], ['sql']])
        await until(async () => (await used('sql')) === 'e1')
        const before = engines[0]!.posts.filter(({ path }) => path === CHAT).length
        expect(await used('sql')).toBe('e1')
        expect(engines[0]!.posts.filter(({ path }) => path === CHAT)).toHaveLength(before)
        expect(await used(MODEL)).toBe('e0,e1')
      },
    )

    it('adapters of engines behind a gateway are requested anywhere if no engine has loaded them: one may load them itself', async () => {
      const { used } = await site('vllm', [[], ['sql']])
      await until(async () => (await used('sql')) === 'e1')
      expect(await used('poet')).toBe('e0,e1')
    })
  })
}
