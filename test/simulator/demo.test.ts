import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { main } from '../../bin/commands.ts'
import { demoDocument, startDemoFleet } from '../../packages/simulator/src/commands/demo-fleet.ts'
import type { RunningFleet } from '../../packages/simulator/src/node/fleet-host.ts'
import { startRegions } from '../../scripts/dev-edge-regions.ts'
import { startEdge, type Edge } from '../../scripts/edge.ts'

/** Replaces curl, which not every machine has. */
async function paste(command: string): Promise<string> {
  const body = /-d '([^']*)'/.exec(command)?.[1]
  const headers = [...command.matchAll(/-H '([^:]+): ([^']*)'/g)].map(([, name, value]): [string, string] => [
    name!,
    value!,
  ])
  const method = /-X (\w+)/.exec(command)?.[1] ?? (body === undefined ? 'GET' : 'POST')
  const response = await fetch(/http:\/\/\S+/.exec(command)![0], {
    method,
    headers,
    ...(body !== undefined && { body }),
  })
  return response.text()
}

/** Commands of a guide; a trailing backslash continues on the next line. */
function commandsIn(guide: string): string[] {
  return [...guide.replaceAll(/\\\n\s*/g, '').matchAll(/^ {2}(curl .*)$/gm)].map((match) => match[1]!)
}

const quiet = (fleet: RunningFleet) => ({ ...demoDocument(fleet), log: { level: 'silent' } })

function ask(url: string, headers: Readonly<Record<string, string>> = {}, model = 'sim'): Promise<Response> {
  return fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model, stream: true, max_tokens: 5, messages: [{ role: 'user', content: 'hi' }] }),
  })
}

describe('firstlight demo', () => {
  it('firstlight demo prints commands that work when pasted, and exits when stopped', async () => {
    const stop = new AbortController()
    let say: (guide: string) => void
    const guide = new Promise<string>((resolve) => (say = resolve))
    const ended = main(['demo', '--listen', '127.0.0.1:0'], {
      out: (text) => say(text),
      err: () => undefined,
      env: {},
      stop: stop.signal,
      stopNow: new AbortController().signal,
    })
    const text = await guide
    const [question, refuse, allow] = commandsIn(text)
    expect(await paste(question!)).toMatch(/^data: [^]*data: \[DONE\]\s*$/)
    expect(await paste(refuse!)).toContain('"listening":false')
    expect(await paste(question!)).toContain('data: [DONE]')
    expect(await paste(allow!)).toContain('"listening":true')
    expect(await (await fetch(/overview +(\S+)/.exec(text)![1]!)).text()).toContain('<h1>Firstlight</h1>')
    stop.abort()
    expect(await ended).toBe(0)
  })

  it('firstlight demo listens on loopback only, having no keys', async () => {
    const errors: string[] = []
    const never = new AbortController().signal
    expect(
      await main(['demo', '--listen', '0.0.0.0:0'], {
        out: () => undefined,
        err: (line) => errors.push(line),
        env: {},
        stop: never,
        stopNow: never,
      }),
    ).toBe(2)
    expect(errors[0]).toContain('loopback only')
  })
})

describe('the built Worker (npm run build:worker) before the demo fleet', () => {
  let fleet: RunningFleet
  const edges: Edge[] = []

  beforeAll(async () => {
    fleet = await startDemoFleet(2)
  })

  afterAll(async () => {
    await Promise.all(edges.map((edge) => edge.stop()))
    await fleet.close()
  })

  async function edgeWith(bindings: Readonly<Record<string, string>>): Promise<string> {
    const edge = await startEdge({ port: 0, bindings })
    edges.push(edge)
    return edge.url
  }

  it('the built Worker before the demo fleet streams from an engine of the configuration to clients with a key', async () => {
    const document = { ...quiet(fleet), version: 1, keys: [{ name: 'k', secret: { env: 'TEAM_KEY' } }] }
    const url = await edgeWith({ FIRSTLIGHT_CONFIG: JSON.stringify(document), TEAM_KEY: 'right' })
    const response = await ask(url, { authorization: 'Bearer right' })
    expect(response.status).toBe(200)
    expect(response.headers.get('x-firstlight-engine')).toMatch(/^engine-[01]$/)
    expect(await response.text()).toMatch(/^data: [^]*data: \[DONE\]\s*$/)
    expect((await ask(url, { authorization: 'Bearer wrong' })).status).toBe(401)
    expect((await ask(url, { authorization: 'Bearer right' }, 'gpt-9')).status).toBe(404)
  })

  it('the built Worker before the demo fleet runs as a front and two regions, which both answer', async () => {
    const edge = await startRegions(fleet, { port: 0, regions: 2, adminKey: 'demo' })
    try {
      const clusters = new Set<string | null>()
      for (let n = 0; clusters.size < 2 && n < 50; n++) {
        const response = await ask(edge.url)
        await response.text()
        clusters.add(response.headers.get('x-firstlight-cluster'))
      }
      expect([...clusters].toSorted()).toEqual(['region-1', 'region-2'])
    } finally {
      await edge.stop()
    }
    await expect(startRegions(fleet, { port: 0, regions: 3, adminKey: 'demo' })).rejects.toThrow('use 1 to 2')
  })

  it('the built Worker before the demo fleet returns 503 and names the setting if there are no keys', async () => {
    const url = await edgeWith({ FIRSTLIGHT_CONFIG: JSON.stringify({ ...quiet(fleet), version: 1 }) })
    const response = await ask(url)
    expect(response.status).toBe(503)
    expect(await response.json()).toMatchObject({
      error: { code: 'not_configured', message: expect.stringContaining('`keys`') },
    })
  })

  it('the built Worker before the demo fleet returns 503 without details to clients if the configuration is missing or invalid', async () => {
    for (const [bindings, reason] of [
      [{}, 'FIRSTLIGHT_CONFIG'],
      [{ FIRSTLIGHT_CONFIG: 'clusters: [{ id: hush!' }, 'not valid'],
    ] as const) {
      const response = await ask(await edgeWith(bindings))
      expect(response.status).toBe(503)
      const text = await response.text()
      expect(text).toContain(reason)
      expect(text).not.toContain('hush')
    }
  })
})
