import { createExecutionContext, waitOnExecutionContext } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { ConfigSource } from '../../src/platform/workers/config-source.ts'
import { IsolateGateway } from '../../src/platform/workers/isolate-gateway.ts'
import { corsContract } from '../contracts/cors.ts'
import { fetchRequest } from '../contracts/gateway.ts'

corsContract('a gateway on Workers', async (document) => {
  // Tests wait for the work behind a response, which includes the next sync.
  const live = new IsolateGateway(new ConfigSource(), { syncMs: 0 })
  const bindings = { ...env, FIRSTLIGHT_CONFIG: JSON.stringify({ ...document, log: { level: 'silent' } }) }
  return {
    send: async (request) => {
      const context = createExecutionContext()
      const response = await live.fetch(fetchRequest('https://gateway.test', request), bindings, context)
      await waitOnExecutionContext(context)
      return response
    },
  }
})
