import { createExecutionContext, reset, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import type { LimitObject } from '../../durable/limit-object.ts'
import { ConfigSource } from '../../src/platform/workers/config-source.ts'
import { IsolateGateway } from '../../src/platform/workers/isolate-gateway.ts'
import { keyLimitsContract } from '../contracts/key-limits.ts'
import { limiterContract } from '../contracts/limiter.ts'

keyLimitsContract('a gateway on Workers', async (document) => {
  // Tests wait for the work behind a response, which includes the next sync.
  const live = new IsolateGateway(new ConfigSource(), { syncMs: 0 })
  const bindings = { ...env, FIRSTLIGHT_CONFIG: JSON.stringify({ ...document, log: { level: 'silent' } }) }
  return { send: (request) => live.fetch(request, bindings, createExecutionContext()), close: () => reset() }
})

limiterContract(
  'a Durable Object',
  () => {
    const at = <Value>(key: string, now: number, use: (object: LimitObject) => Promise<Value>): Promise<Value> =>
      runInDurableObject(env.LIMIT.getByName(`contract:${key}`), (object: LimitObject) => {
        Object.defineProperty(object, 'now', { value: () => now, configurable: true })
        return use(object)
      })
    return {
      reserve: (request, now) => at(request.key, now, (object) => object.reserve(request)),
      settle: (settlement, now) => at(settlement.key, now, (object) => object.settle(settlement)),
    }
  },
  10,
)
