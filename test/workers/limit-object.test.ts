import { evictDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { expect, it } from 'vitest'

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
