import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { main } from '../../../bin/commands.ts'
import { startFleet, type RunningFleet } from '../../../packages/simulator/src/node/fleet-host.ts'
import { follow } from '../../../src/cli/top/follow.ts'
import { ownPorts } from '../../own-ports.ts'
import { until } from '../../wait.ts'
import { type LocalServer, serveLocally } from '../../kit/local-server.ts'
import { startNodeGateway, type NodeGateway } from '../../kit/node-gateway.ts'
import { FakeTerminal } from './fake-terminal.ts'
import { engineOf, poolOf, viewOf } from './views.ts'

const ADMIN = 'sk-fl-of-the-admin'
const folder = mkdtempSync(join(tmpdir(), 'top-'))
let fleet: RunningFleet
let gateway: NodeGateway

beforeAll(async () => {
  fleet = await startFleet({ engines: 2, profile: 'test', model: 'sim' })
  const engines = fleet.urls.map((url, index) => ({ id: `e${index}`, url }))
  gateway = await startNodeGateway({
    open: true,
    admin: { secret: ADMIN },
    clusters: [{ id: 'c', pools: [{ model: 'sim', block_tokens: 16, engines }] }],
  })
})

afterAll(async () => {
  await gateway.close()
  await fleet.close()
  rmSync(folder, { recursive: true })
})

interface Run {
  readonly ended: Promise<number>
  readonly out: string[]
  readonly err: string[]
  readonly stop: AbortController
}

function run(
  argv: readonly string[],
  {
    terminal,
    env = { FIRSTLIGHT_ADMIN_KEY: ADMIN },
  }: { readonly terminal?: FakeTerminal; readonly env?: Record<string, string> } = {},
): Run {
  const [out, err, stop]: [string[], string[], AbortController] = [[], [], new AbortController()]
  const io = {
    out: (line: string) => out.push(line),
    err: (line: string) => err.push(line),
    env,
    stop: stop.signal,
    stopNow: stop.signal,
    ...(terminal && { terminal }),
  }
  return { ended: main(['top', ...argv], io), out, err, stop }
}

const complete = () =>
  fetch(`${gateway.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'sim', prompt: 'hello', max_tokens: 2, stream: true }),
  }).then((answer) => answer.text())

describe('the note about a lost cache', () => {
  const prompts = ['a', 'b', 'c'].map((letter) => letter.repeat(1600))
  const ask = async (prompt: string) => {
    const body = { model: 'sim', prompt, max_tokens: 2, stream: true, stream_options: { include_usage: true } }
    const response = await fetch(`${gateway.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    expect(await response.text()).toContain('[DONE]')
  }
  const askAll = async () => {
    for (const prompt of prompts) await ask(prompt)
  }
  const notes = async () => {
    const { ended, out } = run(['--url', gateway.url, '--once'])
    expect(await ended).toBe(0)
    return out.join('\n')
  }
  const admin = (path: string) =>
    fetch(`${gateway.url}/v1/firstlight/${path}`, { method: 'POST', headers: { authorization: `Bearer ${ADMIN}` } })

  it('the note about a lost cache appears after an engine restarted without its cache, not after a drain or a miss', async () => {
    await admin('engines/e1/drain')
    await ask('d'.repeat(1600))
    for (let round = 0; round < 3; round++) await askAll()
    expect(await notes()).not.toContain('cache lost')
    const restarted = await fetch(`${fleet.controlUrl}/_sim/engines/engine-0/restart`, { method: 'POST' })
    expect(restarted.status).toBe(200)
    await askAll()
    await until(async () => (await notes()).includes('cache lost 1x'))
    await admin('engines/e1/undrain')
  })
})

describe('firstlight top without a terminal', () => {
  it('firstlight top without a terminal prints the fleet as one plain table with request rates, and as JSON', async () => {
    const file = join(folder, 'top.json')
    const { ended, out, err } = run(['--url', `${gateway.url}/v1/`, '--json', file])
    const over = new AbortController()
    const code = ended.finally(() => over.abort())
    while (!over.signal.aborted) await complete()
    expect({ code: await code, err }).toEqual({ code: 0, err: [] })
    // oxlint-disable-next-line no-control-regex
    expect(out.join('\n')).not.toMatch(/[\u0000-\u0009\u000b-\u001f]/)
    expect(out[0]).toMatch(new RegExp(`^Firstlight \\S+ ${gateway.url} · up `))
    expect(out[1]).toMatch(/^2 of 2 engines up · /)
    const rows = out.map((line) => line.split(/ {2,}/))
    expect(rows.find(([name]) => name === 'c sim')!.slice(0, 2)).toEqual(['c sim', '2/2'])
    const json = JSON.parse(readFileSync(file, 'utf8')) as {
      all: Record<string, number>
      engines: readonly Record<string, unknown>[]
    }
    expect(json.engines.map(({ id, state }) => [id, state])).toEqual([
      ['e0', 'up'],
      ['e1', 'up'],
    ])
    expect(json.all['requests_per_s']).toBeGreaterThan(0)
    expect(json.all['ttft_p99_ms']).toBeGreaterThanOrEqual(json.all['ttft_p50_ms']!)
    const total = json.engines.reduce((sum, engine) => sum + Number(engine['requests_total']), 0)
    expect(total).toBeGreaterThan(0)
    expect(readFileSync(file, 'utf8') + out.join('')).not.toContain(ADMIN)
  })

  it('firstlight top without a terminal prints lines that fit the terminal’s width, without control sequences', async () => {
    const terminal = new FakeTerminal(40, 10)
    const { ended, out } = run(['--url', gateway.url, '--once'], {
      terminal,
      env: { FIRSTLIGHT_ADMIN_KEY: ADMIN, NO_COLOR: '1' },
    })
    expect(await ended).toBe(0)
    expect(terminal.text).toBe('')
    for (const line of out) expect(line.length).toBeLessThanOrEqual(40)
  })

  it.each([
    ['no key', [], {}, 'the admin key is required', 'Set FIRSTLIGHT_ADMIN_KEY'],
    ['a wrong key', ['--key', 'sk-wrong'], {}, 'the admin key was rejected', 'give --key'],
    [
      'a wrong key of the environment',
      [],
      { FIRSTLIGHT_ADMIN_KEY: 'sk-wrong' },
      'the admin key was rejected',
      'give --key',
    ],
  ])(
    'firstlight top without a terminal reports %s with a next step, before it draws',
    async (_, argv, env, says, next) => {
      const terminal = new FakeTerminal()
      const { ended, out, err } = run(['--url', gateway.url, ...argv], { terminal, env: env as Record<string, string> })
      expect(await ended).toBe(1)
      expect(out).toEqual([])
      expect(err[0]).toBe(`No view from ${gateway.url}: ${says}.`)
      expect(err[1]).toContain(next)
      expect(err.join('')).not.toContain('sk-wrong')
      expect(terminal.text).toBe('')
      expect(terminal.isRestored).toBe(true)
    },
  )

  it('firstlight top without a terminal reports a refused connection', async () => {
    const url = `http://127.0.0.1:${ownPorts(1)}`
    const { ended, err } = run(['--url', url])
    expect(await ended).toBe(1)
    expect(err).toEqual([
      `No view from ${url}: connection refused by ${url.slice(7)}.`,
      'Check that the gateway runs at this address, or give another with --url.',
    ])
  })

  it.each([
    [['--sort', 'size'], '--sort must be one of state, running,'],
    [['--every-s', '0'], '--every-s must be a number from 1'],
    [['--once', '--every-s', '2'], '--every-s has no effect with --once'],
    [['--key', 'two words'], 'The admin key must be printable ASCII'],
    [['extra'], 'accepts no argument'],
  ])('firstlight top %j is rejected before any request', async (argv, says) => {
    const { ended, err } = run(argv)
    expect(await ended).toBe(2)
    expect(err[0]).toContain(says)
    expect(err.join('')).not.toContain('two words')
  })
})

describe('firstlight top, on a terminal', () => {
  it('firstlight top on a terminal draws the fleet in place and restores the screen at q', async () => {
    const terminal = new FakeTerminal()
    const { ended, out, err } = run(['--url', gateway.url], { terminal })
    expect(await terminal.shows(/^e1 +up/m)).toContain('2 of 2 engines up')
    expect([terminal.isOther, terminal.hasCursor, terminal.isTaken]).toEqual([true, false, true])
    terminal.type('q')
    expect(await ended).toBe(0)
    expect(terminal.isRestored).toBe(true)
    expect({ out, err }).toEqual({ out: [], err: [] })
  })

  it('firstlight top on a terminal moves a drained engine to the top and rewrites only its line', async () => {
    const terminal = new FakeTerminal()
    const { ended, stop } = run(['--url', gateway.url], { terminal })
    await terminal.shows(/^e0 +up.*\ne1 +up/m)
    const before = terminal.text.length
    const drained = (verb: string) =>
      fetch(`${gateway.url}/v1/firstlight/engines/e1/${verb}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${ADMIN}` },
      })
    await drained('drain')
    await terminal.shows(/^e1 +draining.*\ne0 +up/m)
    expect(terminal.text.slice(before)).not.toContain('ENGINE')
    expect(terminal.text.slice(before)).not.toContain('\u001b[2J')
    await drained('undrain')
    await terminal.shows(/^e0 +up.*\ne1 +up/m)
    stop.abort()
    expect(await ended).toBe(0)
    expect(terminal.isRestored).toBe(true)
  })

  it.each([
    ['Ctrl-C', '\u0003'],
    ['Ctrl-D', '\u0004'],
    ['q among others', 'jjq'],
  ])('firstlight top on a terminal ends at %s', async (_, keys) => {
    const terminal = new FakeTerminal()
    const { ended } = run(['--url', gateway.url], { terminal })
    await terminal.shows('engines up')
    terminal.type(keys)
    expect(await ended).toBe(0)
    expect(terminal.isRestored).toBe(true)
  })

  it('firstlight top on a terminal redraws after a resize', async () => {
    const terminal = new FakeTerminal()
    const { ended } = run(['--url', gateway.url], { terminal })
    await terminal.shows('engines up')
    terminal.resize(160, 8)
    expect(terminal.screen).toContain('CACHED')
    expect(terminal.lines).toHaveLength(8)
    terminal.resize(5, 1)
    expect(terminal.lines).toEqual([expect.stringMatching(/^.{0,5}$/)])
    terminal.type('q')
    await ended
  })

  it('firstlight top on a terminal sorts, reverses and pauses', async () => {
    const terminal = new FakeTerminal()
    const { ended } = run(['--url', gateway.url, '--sort', 'engine'], { terminal })
    await terminal.shows(/^e0 .*\ne1 /m)
    terminal.type('r')
    expect(terminal.screen).toMatch(/^e1 .*\ne0 /m)
    expect(terminal.screen).toContain('sort: engine, reversed')
    terminal.type('s')
    expect(terminal.screen).toContain('sort: state ')
    terminal.type(' ')
    expect(terminal.screen).toMatch(/^paused: press space to continue/)
    terminal.type(' ')
    expect(terminal.screen).not.toContain('held')
    terminal.type('q')
    await ended
  })

  it('firstlight top on a terminal restores the screen while it is suspended, and redraws afterwards', async () => {
    const terminal = new FakeTerminal()
    const { ended } = run(['--url', gateway.url], { terminal })
    await terminal.shows('engines up')
    terminal.type('\u001a')
    expect([terminal.isOther, terminal.hasCursor, terminal.isTaken, terminal.suspended]).toEqual([
      false,
      true,
      false,
      1,
    ])
    terminal.lines = ['$ fg']
    terminal.resume!()
    expect([terminal.isOther, terminal.hasCursor, terminal.isTaken]).toEqual([true, false, true])
    expect(terminal.screen).toContain('engines up')
    terminal.type('q')
    expect(await ended).toBe(0)
    expect(terminal.isRestored).toBe(true)
  })

  it.each(['a view', 'a key', 'a resize'])(
    'firstlight top on a terminal restores the screen if drawing fails at %s, then prints the error',
    async (when) => {
      const terminal = new FakeTerminal()
      const { ended, err } = run(['--url', gateway.url], { terminal })
      if (when !== 'a view') await terminal.shows('engines up')
      terminal.beforeWrite = (text) => {
        if (text.includes('Firstlight') || text.includes('reversed')) throw new Error('no such luck')
      }
      if (when === 'a key') terminal.type('r')
      if (when === 'a resize') terminal.resize(100, 30)
      expect(await ended).toBe(1)
      expect(terminal.isRestored).toBe(true)
      expect(terminal.text.endsWith('\u001b[?1049l')).toBe(true)
      expect(err.join('\n')).toContain('no such luck')
    },
  )

  it('firstlight top on a terminal restores the screen if the process exits abruptly', async () => {
    const terminal = new FakeTerminal()
    const { ended } = run(['--url', gateway.url], { terminal })
    await terminal.shows('engines up')
    terminal.events!.onEnd()
    expect([terminal.isOther, terminal.hasCursor, terminal.isTaken]).toEqual([false, true, false])
    terminal.resume!()
    terminal.type('q')
    await ended
  })

  it('firstlight top on a terminal has no colours if NO_COLOR is set, with the same text', async () => {
    const screens = []
    for (const noColor of ['', '1']) {
      const terminal = new FakeTerminal()
      const { ended } = run(['--url', gateway.url], {
        terminal,
        env: { FIRSTLIGHT_ADMIN_KEY: ADMIN, NO_COLOR: noColor },
      })
      screens.push((await terminal.shows('engines up')).split('\n')[1]!.split(' · ')[0])
      terminal.type('q')
      await ended
      // oxlint-disable-next-line no-control-regex
      expect(/\u001b\[[\d;]*m/.test(terminal.text)).toBe(noColor === '')
    }
    expect(screens).toEqual(['2 of 2 engines up', '2 of 2 engines up'])
  })
})

const servers: LocalServer[] = []
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close()
})

/** A server in place of a gateway. No FakeEngine: the test writes to a response at any time and ends it. */
async function pretend(answer: (response: ServerResponse) => unknown): Promise<string> {
  const server = await serveLocally(createServer((_, response) => answer(response)))
  servers.push(server)
  return server.url
}

const feed =
  (...events: readonly unknown[]) =>
  (response: ServerResponse) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const [index, event] of events.entries())
      response.write(
        `id: ${index}\nevent: view\ndata: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`,
      )
    return response
  }

describe('firstlight top with hostile or failing servers', () => {
  const evil = '\u001b[2J\u001b]0;owned\u0007\u009b31m\r\n\u202e'

  it('firstlight top with hostile or failing servers removes control characters from names of the gateway', async () => {
    const hostile = {
      ...poolOf([engineOf(`e${evil}`, { role: evil as never })], { cluster: evil, model: evil, policy: evil }),
      reachable: true,
    }
    const url = await pretend((response) => void feed(viewOf([hostile], { version: evil }))(response).end())
    const { ended, out } = run(['--url', url, '--only', 'e'])
    expect(await ended).toBe(0)
    // oxlint-disable-next-line no-control-regex
    expect(out.join('')).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202e]/)
    const terminal = new FakeTerminal()
    const live = run(['--url', url], { terminal })
    // The fake terminal throws at unexpected sequences.
    await terminal.shows('e·[2J·]0;owned')
    terminal.type('q')
    expect(await live.ended).toBe(0)
  })

  it.each([
    [
      'an error with escapes',
      500,
      JSON.stringify({ error: { message: `broken ${evil}` } }),
      'the gateway returned: broken ·[2J',
    ],
    ['a page', 200, '<html>', 'not a Firstlight gateway (HTTP 200)'],
    ['a redirection', 302, '', 'not a Firstlight gateway (HTTP 302)'],
    ['nothing', 404, 'Not Found', 'not a Firstlight gateway (HTTP 404)'],
  ])('firstlight top with hostile or failing servers reports %s', async (_, status, body, says) => {
    const url = await pretend((response) => response.writeHead(status, { location: 'http://127.0.0.1:9/' }).end(body))
    const { ended, err } = run(['--url', url])
    expect(await ended).toBe(1)
    expect(err[0]).toContain(says)
    // oxlint-disable-next-line no-control-regex
    expect(err.join('')).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202e]/)
  })

  it.each([
    ['{', 'invalid view'],
    [{ pools: 'none' }, 'invalid view: version is not valid in a gateway’s view'],
    [
      viewOf([poolOf([engineOf('a', { ttft_ms: evil as never })])]),
      'pools[0].engines[0].ttft_ms is not valid in a gateway’s view',
    ],
  ])('firstlight top with hostile or failing servers rejects the view %j', async (event, says) => {
    const { ended, err } = run(['--url', await pretend(feed(event))])
    expect(await ended).toBe(1)
    expect(err[0]).toContain(says)
  })

  it('firstlight top with hostile or failing servers prints the last view if the gateway ends the stream', async () => {
    const url = await pretend((response) => void feed(viewOf([poolOf([engineOf('a')])]))(response).end())
    const { ended, out } = run(['--url', url])
    expect(await ended).toBe(0)
    expect(out[1]).toBe('1 of 1 engine up · 0 running · – requests/s · longest queue 0 s')
  })

  it('firstlight top with hostile or failing servers reports a lost connection with its cause and age, retries, and recovers', async () => {
    let isUp = true
    const url = await pretend((response) => {
      if (!isUp) response.writeHead(503).end(JSON.stringify({ error: { message: 'It drains.' } }))
      else if (response.socket !== null) feed(viewOf([poolOf([engineOf('a')])]))(response)
    })
    const terminal = new FakeTerminal(120)
    const { ended } = run(['--url', url], { terminal })
    await terminal.shows('1 of 1 engine up')
    isUp = false
    servers[0]!.disconnect()
    expect(await terminal.shows(/^no data for \d+ s: the gateway returned: It drains\.; retrying/)).toMatch(/^a +up/m)
    isUp = true
    await terminal.shows(/^Firstlight 1\.2\.3/)
    terminal.type('q')
    expect(await ended).toBe(0)
    expect(terminal.isRestored).toBe(true)
  })

  it('firstlight top with hostile or failing servers reports a lost connection if the gateway sends no data', async () => {
    const url = await pretend(
      (response) => void response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders(),
    )
    await expect(follow({ url, key: null }, new AbortController().signal, 50).next()).rejects.toThrow(
      'no data for 0.05 s',
    )
  })

  it('firstlight top with hostile or failing servers ends without drawing if it is aborted before the first view', async () => {
    const terminal = new FakeTerminal()
    const requested = Promise.withResolvers<void>()
    const url = await pretend(() => requested.resolve())
    const { ended, stop, out, err } = run(['--url', url], { terminal })
    await requested.promise
    stop.abort()
    expect(await ended).toBe(1)
    expect([terminal.text, out, err]).toEqual(['', [], []])
    expect(terminal.isRestored).toBe(true)
  })

  it('firstlight top with hostile or failing servers requests each view separately at long intervals, and never draws an outdated one', async () => {
    let requested = 0
    let left = 0
    const url = await pretend((response) => {
      requested++
      response.on('close', () => left++)
      feed(viewOf([poolOf([engineOf(`asked-${requested}`)])]))(response)
    })
    const terminal = new FakeTerminal()
    const { ended } = run(['--url', url, '--every-s', '1.2'], { terminal })
    await terminal.shows('asked-2')
    expect(requested).toBe(2)
    expect(left).toBeGreaterThanOrEqual(1)
    terminal.type('q')
    await ended
  })
})
