import { afterEach, describe, expect, it } from 'vitest'
import { startFleet, type RunningFleet } from '../../../packages/simulator/src/node/fleet-host.ts'
import { FakeController } from '../../../packages/simulator/src/lmcache/controller.ts'
import { FakeCoordinator } from '../../../packages/simulator/src/lmcache/coordinator.ts'
import { visit, visitPool } from './ask.ts'
import { FASTAPI } from './recorded-vllm.ts'
import { useEngines } from '../../kit/use-engines.ts'

let fleet: RunningFleet | undefined
const stub = useEngines(FASTAPI)
afterEach(async () => {
  await fleet?.close()
  fleet = undefined
})

/** Serves a `fetch` function on a port. */
async function host(service: { fetch(request: Request): Promise<Response> }): Promise<string> {
  const { url } = await stub({
    '*': async ({ target, method, text }) => {
      const sent = { method, ...(text === '' ? {} : { body: text }) }
      const answer = await service.fetch(new Request(`http://service${target}`, sent))
      return { status: answer.status, headers: Object.fromEntries(answer.headers), body: await answer.text() }
    },
  })
  return url
}

/** Registers a server at a port of this machine without a listener. */
function join(coordinator: FakeCoordinator, id: string, ip: string): void {
  coordinator.join(id, ip)
  Object.assign(coordinator.instances.at(-1)!, { http_port: 1 })
}

const tokens = Array.from({ length: 600 }, (_, at) => at)

async function poolWith(lmcache: object, instance?: string): Promise<object> {
  fleet = await startFleet({ engines: 1, profile: 'instant', modelPath: 'models/sim' })
  return {
    model: 'sim',
    lmcache,
    engines: [{ id: 'a', url: fleet.urls[0]!, ...(instance === undefined ? {} : { lmcache_instance: instance }) }],
  }
}

describe('firstlight doctor before LMCache', () => {
  it('doctor before LMCache recognises a coordinator and what it lacks', async () => {
    const coordinator = new FakeCoordinator()
    const url = await host(coordinator)
    const empty = await visit(url)
    expect(empty.subjects[0]!.kind).toBe('coordinator')
    expect(empty.marks).toEqual(['instances: problem', 'directory: note'])
    expect(empty.code).toBe(1)
    join(coordinator, 'node-a', '127.0.0.5')
    coordinator.store('models/sim', tokens, { instance: 'node-a' })
    const full = await visit(url)
    // No listener at the server's address: as it should be.
    expect(full.marks).toEqual(['servers: note'])
    expect(full.find('instances').message).toBe('node-a at 127.0.0.5')
    expect(full.find('directory').message).toBe('2 keys, of models/sim')
  })

  it('doctor before LMCache compares instances and models with the engines of the configuration', async () => {
    const coordinator = new FakeCoordinator()
    join(coordinator, 'node-a', '127.0.0.1')
    coordinator.store('models/sim', tokens, { instance: 'node-a' })
    const url = await host(coordinator)
    const pool = await poolWith({ coordinator: url, budget_ms: 1000 })
    const seen = await visitPool(pool)
    expect(seen.find('lmcache_engines').message).toBe('a reads node-a')
    expect(seen.find('lookup').mark).toBe('ok')
    coordinator.leave('node-a')
    join(coordinator, 'node-b', '127.0.0.9')
    expect((await visitPool(pool)).find('lmcache_instance')).toMatchObject({
      mark: 'warning',
      next: expect.stringContaining('node-b'),
    })
  })

  it('doctor before LMCache reports an unregistered instance and a model without keys', async () => {
    const coordinator = new FakeCoordinator()
    join(coordinator, 'node-a', '127.0.0.5')
    coordinator.store('sim', tokens, { instance: 'node-a' })
    const seen = await visitPool(await poolWith({ coordinator: await host(coordinator) }, 'node-x'))
    expect(seen.find('lmcache_instance')).toMatchObject({
      mark: 'problem',
      message: 'engine a names node-x, which has not registered; did you mean "node-a"?',
    })
    expect(seen.find('lmcache_model')).toMatchObject({
      mark: 'warning',
      message: expect.stringContaining('models/sim'),
    })
  })

  it('doctor before LMCache checks a controller by a lookup and the hosts of the engines', async () => {
    const controller = new FakeController()
    const url = await host(controller)
    expect((await visit(url)).subjects[0]!.kind).toBe('controller')
    const pool = await poolWith({ controller: url })
    expect((await visitPool(pool)).find('lmcache_instance').message).toContain('no instance at 127.0.0.1')
    controller.hosts.set('127.0.0.1', 'instance-7')
    expect((await visitPool(pool)).find('lmcache_engines').message).toBe('a reads instance-7')
  })

  it('doctor before LMCache reports an unreachable coordinator', async () => {
    const seen = await visitPool(await poolWith({ coordinator: 'http://127.0.0.1:1' }))
    expect(seen.subjects.at(-1)).toMatchObject({
      kind: 'coordinator',
      findings: [{ check: 'reachable', mark: 'unreachable' }],
    })
    expect(seen.code).toBe(2)
  })

  it('doctor before LMCache reports an LMCache server that runs scripts or reports no events', async () => {
    const config = (enabled: boolean, reports: boolean) => ({
      mp: { run_script_api_enabled: enabled },
      coordinator: { url: 'http://10.0.0.9:9300/lmcache/c/hush', event_reporting: reports },
    })
    const server = (enabled: boolean, reports: boolean) =>
      stub({ 'GET /healthcheck': { body: { status: 'healthy' } }, 'GET /config': { body: config(enabled, reports) } })
    const open = await visit((await server(true, true)).url)
    expect(open.subjects[0]!.kind).toBe('lmcache server')
    expect(open.find('run_script')).toMatchObject({
      mark: 'problem',
      next: expect.stringContaining('--run-script-api-enabled'),
    })
    const silent = await visit((await server(false, false)).url)
    expect(silent.marks).toEqual(['coordinator: warning'])
    expect(open.json + silent.json).not.toContain('hush')
  })

  it('doctor before LMCache looks at the servers that a coordinator names', async () => {
    const server = await stub({
      'GET /healthcheck': { body: { status: 'healthy' } },
      'GET /config': { body: { mp: { run_script_api_enabled: true } } },
    })
    const { hostname, port } = new URL(server.url)
    const instance = { instance_id: 'node-a', ip: hostname, http_port: Number(port) }
    const { url } = await stub({
      'GET /healthz': { body: { status: 'healthy' } },
      'GET /instances': { body: { instances: [instance] } },
      'GET /directory/keys': { body: { total: 0, keys: [] } },
      'POST /directory/lookup': { body: { chunks: 1, results: [] } },
    })
    const seen = await visit(url)
    expect(seen.subjects.map(({ kind, name }) => `${kind} ${name}`)).toEqual([
      expect.stringContaining('coordinator'),
      'lmcache server node-a',
    ])
    expect(seen.find('run_script').mark).toBe('problem')
  })

  it('doctor before LMCache recognises a gateway and names the right address', async () => {
    const { url } = await stub({ 'GET /ready': { status: 503, body: { status: 'not_ready', reason: 'draining' } } })
    const seen = await visit(url)
    expect(seen.subjects[0]!.kind).toBe('gateway')
    expect(seen.find('behind_it').next).toContain('--config')
    expect(seen.code).toBe(1)
  })
})
