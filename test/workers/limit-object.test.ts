import { evictDurableObject, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { expect, it } from 'vitest'
import type { LimitObject } from '../../durable/limit-object.ts'

const limits = { requestsPerMin: null, tokensPerMin: null, tokensPerDay: 100, concurrent: null }

it('the tokens of a day survive an eviction of the object', async () => {
  const stub = () => env.LIMIT.getByName('limit:team')
  const first = await stub().reserve({ key: 'team', id: 'a', limits, tokens: 80 })
  expect(first.exceeded).toBeNull()
  await stub().settle({ key: 'team', id: 'a', tokens: 60 })
  await evictDurableObject(stub())
  const second = await stub().reserve({ key: 'team', id: 'b', limits, tokens: 50 })
  expect(second.exceeded).toBe('tokens_per_day')
  expect((await stub().reserve({ key: 'team', id: 'c', limits, tokens: 40 })).exceeded).toBeNull()
})

it('keys are counted by objects of their own', async () => {
  const one = { ...limits, tokensPerDay: null, concurrent: 1 }
  for (const key of ['x', 'y'])
    expect(
      (await env.LIMIT.getByName(`limit:${key}`).reserve({ key, id: '1', limits: one, tokens: 1 })).exceeded,
    ).toBeNull()
  const again = await env.LIMIT.getByName('limit:x').reserve({ key: 'x', id: '2', limits: one, tokens: 1 })
  expect(again.exceeded).toBe('concurrent')
})

it('a request of an isolate that has ended frees its place after the lease, and one that is renewed keeps it', async () => {
  const one = { ...limits, tokensPerDay: null, concurrent: 1 }
  let now = 1_000_000
  const open = async <Value>(use: (object: LimitObject) => Promise<Value>): Promise<Value> =>
    runInDurableObject(env.LIMIT.getByName('limit:lease'), (object: LimitObject) => {
      Object.defineProperty(object, 'now', { value: () => now, configurable: true })
      return use(object)
    })
  const reserve = (id: string) =>
    open((object) => object.reserve({ key: 'lease', id, limits: one, tokens: 1, leaseMs: 30_000 }))
  expect((await reserve('ended')).exceeded).toBeNull()
  now += 20_000
  await open((object) => object.renew({ key: 'lease', id: 'ended' }))
  now += 29_999
  expect((await reserve('next')).exceeded).toBe('concurrent')
  now += 1
  expect((await reserve('next')).exceeded).toBeNull()
})
