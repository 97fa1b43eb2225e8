/** Alerts of engines at the operator's webhook, on any runtime. */
import { afterEach, describe, expect, it } from 'vitest'
import type { Alert } from '../../src/ports/alerts.ts'
import { FakeEngine } from '../kit/fake-engine.ts'
import { completion } from '../kit/sse.ts'
import { until } from '../wait.ts'
import { runtimeNames, startRuntime, type Runtime } from '../kit/gateway.ts'

const MODEL = 'base'
const CLIENT_KEY = 'client-key-of-no-use-elsewhere'
const ENGINE_KEY = 'engine-key-of-no-use-elsewhere'

export function webhookContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  describe(`the webhook of a gateway on ${name}`, () => {
    const open: (() => Promise<void>)[] = []
    afterEach(async () => {
      for (const close of open.splice(0).reverse()) await close()
    })

    const opened = async (routes: Parameters<typeof FakeEngine.open>[0]): Promise<FakeEngine> => {
      const engine = await FakeEngine.open(routes)
      open.push(() => engine.close())
      return engine
    }

    const site = async () => {
      const hook = await opened({ 'POST *': { status: 204 } })
      const sick = await opened({ 'POST *': { status: 500 }, '*': { body: '' } })
      const well = await opened({ 'POST *': { body: completion('hello') }, '*': { body: '' } })
      const gateway = await startRuntime(runtime, {
        keys: [{ name: 'team', secret: CLIENT_KEY }],
        log: { level: 'silent' },
        alerts: { webhook: { url: `${hook.url}/alerts?source=firstlight`, secret: 'hook-token' } },
        clusters: [
          {
            id: 'c',
            pools: [
              {
                model: MODEL,
                policy: 'round_robin',
                circuit: { failures: 1, open_ms: 600_000 },
                engines: [
                  { id: 'sick', url: sick.url, key: ENGINE_KEY },
                  { id: 'well', url: well.url, key: ENGINE_KEY },
                ],
              },
            ],
          },
        ],
      })
      open.push(() => gateway.close())
      const ask = async (): Promise<number> => {
        const response = await fetch(`${gateway.url}/v1/chat/completions`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', authorization: `Bearer ${CLIENT_KEY}` },
          body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'a secret question' }] }),
        })
        await response.text()
        return response.status
      }
      return { hook, sick, ask }
    }

    it('the webhook of a gateway gets one alert of an engine that fails, without secrets and texts', async () => {
      const { hook, sick, ask } = await site()
      await until(async () => {
        expect(await ask()).toBe(200)
        return sick.posts.length > 0 && hook.posts.length > 0
      })
      const [post] = hook.posts
      expect(post).toMatchObject({ method: 'POST', headers: { authorization: 'Bearer hook-token' } })
      const { alerts } = post!.json as unknown as { alerts: Alert[] }
      expect(alerts).toMatchObject([
        { event: 'engine_down', cluster: 'c', pool: MODEL, engine: 'sick', state: 'faulty', next: expect.any(String) },
      ])
      expect(Date.now() - Date.parse(alerts[0]!.since)).toBeLessThan(600_000)
      for (const secret of [CLIENT_KEY, ENGINE_KEY, 'secret question', sick.url])
        expect(JSON.stringify(post!.json)).not.toContain(secret)
      for (let at = 0; at < 4; at++) expect(await ask()).toBe(200)
      expect(hook.posts).toHaveLength(1)
    })
  })
}
