import { createExecutionContext } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { ConfigSource } from '../../src/platform/workers/config-source.ts'
import { IsolateGateway } from '../../src/platform/workers/isolate-gateway.ts'
import { bodyMemoryContract } from '../contracts/body-memory.ts'

bodyMemoryContract('a gateway on Workers', async (document) => {
  // Tests wait for the work behind a response, which includes the next sync.
  const live = new IsolateGateway(new ConfigSource(), { syncMs: 0 })
  const bindings = { ...env, FIRSTLIGHT_CONFIG: JSON.stringify({ ...document, log: { level: 'silent' } }) }
  return { send: (request) => live.fetch(request, bindings, createExecutionContext()), close: async () => {} }
})
