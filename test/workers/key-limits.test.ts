import { createExecutionContext, reset } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { ConfigSource } from '../../src/platform/workers/config-source.ts'
import { IsolateGateway } from '../../src/platform/workers/isolate-gateway.ts'
import { keyLimitsContract } from '../contracts/key-limits.ts'

keyLimitsContract('a gateway on Workers', async (document) => {
  const live = new IsolateGateway(new ConfigSource())
  const bindings = { ...env, FIRSTLIGHT_CONFIG: JSON.stringify({ ...document, log: { level: 'silent' } }) }
  return { send: (request) => live.fetch(request, bindings, createExecutionContext()), close: () => reset() }
})
