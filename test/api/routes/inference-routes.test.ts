import { expect, it } from 'vitest'
import { Authenticator } from '../../../src/api/auth/authenticator.ts'
import { parseConfig } from '../../../src/config/parse.ts'
import { gatewayState } from '../../../src/gateway-state.ts'
import { endpointOf } from '../../../src/protocols/protocols.ts'
import { inferenceChain, type InferenceParts } from '../../../src/api/routes/inference-routes.ts'
import { onePool, openRecordingPorts } from '../../kit/recording-ports.ts'

const CHAT = '/v1/chat/completions'

/** Number of middleware of a chat request. */
function middlewareOf(document: object): number {
  const config = parseConfig(
    { clusters: [onePool], ...document },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens: true },
  )
  const { ports } = openRecordingPorts()
  const authenticator = new Authenticator(config, ports)
  const { hasBudgets } = authenticator
  const state = gatewayState(config, ports, {
    predecessor: undefined,
    workerGroup: null,
    vocabularyOf: () => null,
    hasBudgets,
  })
  const parts = { ...state, config, ports, authenticator, status: {}, edgePrompts: {} }
  return inferenceChain(parts as unknown as InferenceParts, endpointOf(CHAT)!).length
}

const plain = middlewareOf({})
const [pool] = onePool.pools
const withPool = (keys: object): object => ({ clusters: [{ ...onePool, pools: [{ ...pool, ...keys }] }] })

it.each<[string, object, number]>([
  ['CORS', { cors: { origins: ['*'] } }, 1],
  ['limits of all keys', { keys: [{ name: 'a', secret: 's' }], key_limits: { requests_per_min: 5 } }, 1],
  ['limits of one key', { keys: [{ name: 'a', secret: 's', limits: { concurrent: 5 } }] }, 1],
  ['keys without limits', { keys: [{ name: 'a', secret: 's' }] }, 0],
  ['an objective, whose refusals may be repeated', withPool({ slo: { ttft_ms: 500 } }), 1],
  ['a queue, whose refusals may be repeated', withPool({ queue: { max_requests: 5, max_wait_ms: 500 } }), 1],
  ['keys of edges', { keys: [{ name: 'a', secret: 's', edge: true }] }, 1],
])('%s: the chain of a chat has the middleware only if it is configured', (_, document, more) => {
  expect(middlewareOf(document) - plain).toBe(more)
})
