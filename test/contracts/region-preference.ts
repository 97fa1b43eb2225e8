/** The order of preference between regions, on any runtime: which one is tried first, and what follows if it is full. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../wait.ts'
import type { FakeAnswer } from '../kit/fake-answer.ts'
import { FakeEngine } from '../kit/fake-engine.ts'
import { ADMIN_KEY, MODEL, openGateway, type Runtime, runtimeNames, type TestGateway } from '../kit/gateway.ts'
import { HeldEngine } from '../kit/held-engine.ts'
import { completion, DONE, token } from '../kit/sse.ts'

const KEYS = [
  { name: 'plain', secret: 'secret-of-plain' },
  { name: 'east', secret: 'secret-of-east', region_order: ['us', 'eu'] },
]

const ANSWER: FakeAnswer = { body: completion() }

/** Model of regions behind gateways. */
const BEHIND = 'behind'

export function regionPreferenceContract(runtime: Runtime): void {
  describe.each(['next', 'refuse'] as const)(
    `an order of preference between regions with \`when_full: %s\` on ${runtimeNames[runtime]}`,
    (whenFull) => {
      const open: { close(): Promise<unknown> | void }[] = []
      let busy: HeldEngine
      let other: FakeEngine
      let regions: readonly FakeEngine[]
      let gateway: TestGateway
      /** Answer of the preferred region behind a gateway. */
      let answer = ANSWER

      const engine = async (answered: () => FakeAnswer, status = 200): Promise<FakeEngine> => {
        const one = await FakeEngine.open({ 'GET *': { status, body: {} }, 'POST *': answered })
        open.push(one)
        return one
      }

      beforeAll(async () => {
        busy = await HeldEngine.open({ opening: token('hi') })
        open.push(busy)
        other = await engine(() => ANSWER)
        // Their digests are refused: they are chosen nevertheless.
        regions = [await engine(() => answer, 403), await engine(() => ANSWER, 403)]
        const pools = (id: string, url: string, more: object = {}) => [
          { model: MODEL, engines: [{ id, url, ...more }] },
        ]
        const behind = ({ url }: FakeEngine) => ({ url, key: 'k', models: [{ model: BEHIND }] })
        gateway = await openGateway({
          runtime,
          config: {
            open: false,
            admin: { secret: ADMIN_KEY },
            keys: KEYS,
            region_preference: { order: ['eu', 'us'], when_full: whenFull },
            clusters: [
              { id: 'asia-1', region: 'asia', pools: pools('asia0', `${other.url}/asia`) },
              { id: 'us-1', region: 'us', pools: pools('us0', other.url) },
              { id: 'eu-1', region: 'eu', pools: pools('eu0', busy.url, { max_in_flight: 1 }) },
              { id: 'us-2', region: 'us', gateway: behind(regions[1]!) },
              { id: 'eu-2', region: 'eu', gateway: behind(regions[0]!) },
            ],
          },
        })
        open.push(gateway)
      })
      afterAll(async () => {
        for (const one of open.splice(0).reverse()) await one.close()
      })

      const as = (key: string): RequestInit => ({ headers: { authorization: `Bearer secret-of-${key}` } })

      /** Status and cluster. */
      const chat = async (changes: object, key = 'plain'): Promise<string> => {
        const response = await gateway.chat(changes, as(key))
        await response.text()
        return `${response.status} ${response.headers.get('x-firstlight-cluster')}`
      }

      it('an order of regions decides for every session, and a key may have its own', async () => {
        for (const user of ['a', 'b', 'c', 'd']) {
          expect(await chat({ model: BEHIND, user })).toBe('200 eu-2')
          expect(await chat({ user }, 'east')).toBe('200 us-1')
        }
        const routed = await gateway.post(
          '/v1/firstlight/route',
          { model: MODEL, messages: [{ role: 'user', content: 'hi' }] },
          { headers: { authorization: `Bearer ${ADMIN_KEY}` } },
        )
        expect(await routed.json()).toMatchObject({ decision: { cluster: 'eu-1' } })
      })

      it('an order of regions decides about clusters whose engines are full', async () => {
        const running = await gateway.chat({ stream: true }, as('plain'))
        expect([running.status, running.headers.get('x-firstlight-cluster')]).toEqual([200, 'eu-1'])
        const before = other.posts.length
        const second = await gateway.chat({}, as('plain'))
        const body: unknown = await second.json()
        expect(second.status).toBe(whenFull === 'next' ? 200 : 429)
        expect(second.headers.get('x-firstlight-cluster')).toBe(whenFull === 'next' ? 'us-1' : null)
        if (whenFull === 'refuse') expect(body).toMatchObject({ error: { code: 'engines_full' } })
        expect(other.posts.length - before).toBe(whenFull === 'next' ? 1 : 0)
        expect(await chat({}, 'east')).toBe('200 us-1')
        for (const one of busy.held) one.end(DONE)
        await running.text()
        await gateway.idle()
      })

      it('an order of regions decides about a gateway that answers 429, and leaves one that answers 503', async () => {
        answer = { status: 429, headers: { 'retry-after': '1' }, body: {} }
        expect(await chat({ model: BEHIND })).toBe(whenFull === 'next' ? '200 us-2' : '429 null')
        answer = { status: 503, body: {} }
        expect(await chat({ model: BEHIND })).toBe('200 us-2')
      })

      it('an order of regions leaves a region without available engines for the next one in the order, and regions outside it are last', async () => {
        const drain = (id: string) =>
          gateway.post(`/v1/firstlight/engines/${id}/drain`, {}, { headers: { authorization: `Bearer ${ADMIN_KEY}` } })
        expect((await drain('eu0')).status).toBe(200)
        await until(async () => (await chat({})) === '200 us-1')
        expect((await drain('us0')).status).toBe(200)
        await until(async () => (await chat({})) === '200 asia-1')
      })
    },
  )
}
