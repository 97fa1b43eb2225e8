import { describe, expect, it } from 'vitest'
import { parseConfig } from '../../src/config/parse.ts'
import { createGateway } from '../../src/gateway.ts'
import { corsContract, ours } from '../contracts/cors.ts'
import { fetchRequest } from '../contracts/gateway.ts'
import { configOf, onePool, openRecordingPorts, poster } from '../kit/recording-ports.ts'

corsContract('createGateway', async (document) => {
  const world = openRecordingPorts()
  const gateway = createGateway(
    parseConfig(document, {}, { defaultVersion: 1, defaultObserveShare: 1, listens: true }),
    world.ports,
  )
  return { send: (request) => gateway.fetch(fetchRequest('http://gateway.test', request), world.scope) }
})

describe('a gateway without keys', () => {
  const world = openRecordingPorts()
  const cors = { origins: [ours], maxAgeS: 600 }
  const gateway = createGateway({ ...configOf({ clusters: [onePool] }), cors }, world.ports)
  const post = poster(gateway, world)
  const hello = { model: 'qwen', messages: [] }
  const from = (origin: string) => ({ origin, 'sec-fetch-site': 'cross-site' })

  it('a gateway without keys serves pages of allowed origins only', async () => {
    expect((await post('/v1/chat/completions', hello, from(ours))).status).toBe(200)
    expect((await post('/v1/chat/completions', hello, from('https://evil.example.com'))).status).toBe(403)
    expect((await post('/v1/chat/completions', hello, { 'sec-fetch-site': 'cross-site' })).status).toBe(403)
  })

  it('a gateway without keys keeps its admin surface from them', async () => {
    const fleet = await gateway.fetch(
      new Request('http://localhost/v1/firstlight/fleet', { headers: from(ours) }),
      world.scope,
    )
    expect([fleet.status, fleet.headers.get('access-control-allow-origin')]).toEqual([403, null])
  })

  it('a gateway without keys logs rejected origins', async () => {
    await gateway.fetch(
      new Request('http://localhost/v1/chat/completions', {
        method: 'OPTIONS',
        headers: { origin: 'https://evil.example.com', 'access-control-request-method': 'POST' },
      }),
      world.scope,
    )
    expect(world.logged.at(-1)).toMatchObject({
      event: 'request',
      fields: { method: 'OPTIONS', status: 204, refused_origin: 'https://evil.example.com' },
    })
  })

  it('a gateway without keys logs them if no page is allowed at all, by the document or at this path', async () => {
    const silent = createGateway(configOf({ clusters: [onePool] }), world.ports)
    for (const [target, path] of [
      [silent, '/v1/chat/completions'],
      [gateway, '/v1/firstlight/fleet'],
    ] as const) {
      await target.fetch(
        new Request(`http://localhost${path}`, {
          method: 'OPTIONS',
          headers: { origin: ours, 'access-control-request-method': 'POST' },
        }),
        world.scope,
      )
      expect(world.logged.at(-1)).toMatchObject({
        event: 'request',
        fields: { method: 'OPTIONS', status: 405, refused_origin: ours },
      })
    }
  })
})
