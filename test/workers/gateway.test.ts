import { createExecutionContext, waitOnExecutionContext } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { describe, expect, it } from 'vitest'
import { ConfigSource } from '../../src/platform/workers/config-source.ts'
import { IsolateGateway } from '../../src/platform/workers/isolate-gateway.ts'
import { gatewayContract, gatewayDocument, fetchRequest } from '../contracts/gateway.ts'

/**
 * A gateway as the Worker's entry builds it. Nothing listens at the engine's address: no case of the table needs one.
 */
function open(document: Readonly<Record<string, unknown>>): (request: Request) => Promise<Response> {
  // Tests wait for the work behind a response, which includes the next sync.
  const live = new IsolateGateway(new ConfigSource(), { syncMs: 0 })
  const bindings = { ...env, FIRSTLIGHT_CONFIG: JSON.stringify({ ...document, log: { level: 'silent' } }) }
  return async (request) => {
    const context = createExecutionContext()
    const response = await live.fetch(request, bindings, context)
    await waitOnExecutionContext(context)
    return response
  }
}

const send = open(gatewayDocument(['http://127.0.0.1:9']))
gatewayContract('a gateway on Workers', (request) => send(fetchRequest('https://gateway.test', request)))

describe('a gateway on Workers without keys', () => {
  const { keys: _keys, ...keyless } = gatewayDocument(['http://127.0.0.1:9'])

  it('a gateway on Workers without keys rejects everyone, and names the setting', async () => {
    const response = await open(keyless)(new Request('https://gateway.test/v1/models'))
    expect(response.status).toBe(503)
    expect(response.headers.get('x-should-retry')).toBe('false')
    expect(await response.text()).toMatch(/`keys`.*`open: true`/)
  })

  it('a gateway on Workers without keys serves everyone once `open` is set', async () => {
    const response = await open({ ...keyless, open: true })(new Request('https://gateway.test/v1/models'))
    expect(response.status).toBe(200)
  })
})
