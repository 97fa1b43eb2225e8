import { describe, expect, it } from 'vitest'
import { createGateway, type RouteGroup } from '../src/gateway.ts'
import { configOf, openRecordingPorts } from './kit/recording-ports.ts'

/** A path of each group that answers 200 or 401, and no other group has. */
const PATHS: Readonly<Record<RouteGroup, string>> = {
  inference: '/v1/chat/completions',
  models: '/v1/models',
  health: '/health',
  metrics: '/metrics',
  admin: '/openapi.json',
  dashboard: '/dashboard',
  lmcache: '/lmcache/lookup',
  ttft: '/ttft_report',
}

const GROUPS = Object.keys(PATHS) as RouteGroup[]

function open() {
  const world = openRecordingPorts()
  const gateway = createGateway(configOf(), world.ports)
  const statusOf = async (groups: readonly RouteGroup[], path: string): Promise<string> => {
    const answer = await gateway.only(groups)(new Request(`http://localhost${path}`), world.scope)
    const text = await answer.text()
    return text.includes('Unknown URL') ? 'unknown' : `found: ${answer.status}`
  }
  return { world, gateway, statusOf }
}

describe('a gateway with some groups of its routes only', () => {
  it.each(GROUPS)('a gateway with some groups of its routes only has the routes of %s, and no other', async (group) => {
    const { statusOf } = open()
    for (const other of GROUPS)
      expect([other, (await statusOf([group], PATHS[other])).startsWith('found')]).toEqual([other, other === group])
  })

  it('a gateway with some groups of its routes only has the routes of each group that it names', async () => {
    const { statusOf } = open()
    expect(await statusOf(['models', 'health'], '/v1/models')).toBe('found: 200')
    expect(await statusOf(['models', 'health'], '/health')).toBe('found: 200')
    expect(await statusOf(['models', 'health'], '/metrics')).toBe('unknown')
  })

  it('a gateway with some groups of its routes only answers errors as the whole gateway does', async () => {
    const { gateway, world } = open()
    const post = (fetch: typeof gateway.fetch) =>
      fetch(new Request('http://localhost/v1/chat/completions', { method: 'POST', body: '{' }), world.scope)
    const [part, whole] = [await post(gateway.only(['inference'])), await post(gateway.fetch)]
    expect([part.status, await part.json()]).toEqual([whole.status, await whole.json()])
  })
})
