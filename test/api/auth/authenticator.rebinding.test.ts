/**
 * DNS rebinding: a page of another site whose name resolves to this machine is same-origin to the browser. Node only: a
 * Worker never serves without `keys` or `open: true`, and Cloudflare routes by the host.
 */
import { afterEach, describe, expect, it } from 'vitest'
import { startNodeGateway, type NodeGateway } from '../../kit/node-gateway.ts'
import {
  MODEL,
  HostileEngine,
  rawRequest,
  sendRaw,
  wellAnswered,
  type AttackWorld,
} from '../../contracts/attacks/attack-fixture.ts'

const FOREIGN = [
  'evil.test',
  'Evil.Test:8080',
  'localhost.evil.test',
  '127.0.0.1.evil.test',
  '[::2]',
  '10.0.0.1',
  'inside.evil.test',
]
const LOOPBACK = ['localhost', 'LocalHost:8080', '127.0.0.1:80', '127.9.9.9', '[::1]:8080', 'demo.localhost']
const BODY = JSON.stringify({ model: MODEL, messages: [] })

describe('a gateway on loopback without keys', () => {
  let gateway: NodeGateway
  let engine: HostileEngine

  async function open(changes: object = {}): Promise<(host: string, path?: string) => Promise<number>> {
    engine = await new HostileEngine(wellAnswered).open()
    const clusters = [{ id: 'c', pools: [{ model: MODEL, engines: [{ id: 'e', url: engine.url }] }] }]
    gateway = await startNodeGateway({ clusters, ...changes })
    const world = { gateway: { url: gateway.url } } as AttackWorld
    return async (host, path = '/v1/chat/completions') =>
      (await sendRaw(world, rawRequest(host, BODY, { path, headers: '' }))).status
  }

  afterEach(async () => {
    await gateway.close()
    await engine.close()
  })

  it('a gateway on loopback without keys rejects requests with a Host that is not loopback', async () => {
    const status = await open()
    for (const host of FOREIGN) expect([host, await status(host)]).toEqual([host, 403])
    expect(engine.calls).toEqual([])
    for (const host of LOOPBACK) expect([host, await status(host)]).toEqual([host, 200])
  })

  it('a gateway on loopback without keys rejects a foreign Host on every route of clients', async () => {
    const status = await open()
    for (const path of ['/v1/completions', '/tokenize', '/v1/firstlight/route'])
      expect([path, await status('evil.test', path)]).toEqual([path, 403])
    const models = await fetch(`${gateway.url}/v1/models`)
    expect(models.status).toBe(200)
  })

  it('a gateway on loopback without keys serves the hosts of allowed_hosts, with any port', async () => {
    const status = await open({ allowed_hosts: ['evil.test', '*.inside.test'] })
    for (const host of ['evil.test', 'Evil.Test:8080', 'a.b.inside.test', 'localhost'])
      expect([host, await status(host)]).toEqual([host, 200])
    for (const host of ['inside.test', 'notevil.test', 'evil.test.other.test'])
      expect([host, await status(host)]).toEqual([host, 403])
  })

  it('a gateway on loopback without keys serves any host with open: true', async () => {
    const status = await open({ open: true })
    expect(await status('evil.test')).toBe(200)
  })
})
