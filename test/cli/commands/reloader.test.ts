/** Configuration changes of a running gateway. */
import { spawn, type ChildProcess } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { parseConfig } from '../../../src/config/parse.ts'
import type { Config } from '../../../src/config.ts'
import { compileVocabulary } from '../../../src/core/tokens/compile-vocabulary.ts'
import { readTokenizerConfig } from '../../../src/core/tokens/tokenizer-config.ts'
import { reloadable } from '../../../src/platform/node/reloadable-config.ts'
import { fileFingerprint } from '../../../src/platform/node/file-fingerprint.ts'
import { Reloader } from '../../../src/cli/commands/reloader.ts'
import { startGateway, type RunningGateway } from '../../../src/platform/node/start-gateway.ts'
import { startThreads } from '../../../src/platform/node/threads/start-threads.ts'
import { threadCount } from '../../../src/platform/node/threads/thread-count.ts'
import { vocabulariesIn } from '../../../src/platform/node/vocabulary-files.ts'
import type { OpenVocabulary } from '../../../src/vocabulary.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { openSlowEngine, type HeldEngine } from '../../kit/held-engine.ts'
import { quiet } from '../../node/threads/quiet.ts'

interface Pool {
  readonly model: string
  readonly engines: readonly { readonly id: string; readonly url: string }[]
}

let one: HeldEngine
let other: HeldEngine
let third: HeldEngine
beforeEach(async () => {
  one = await openSlowEngine()
  other = await openSlowEngine()
  third = await openSlowEngine()
})
afterEach(async () => {
  for (const engine of [one, other, third]) await engine.close()
})

const modelFile = (name: string): Record<string, unknown> =>
  JSON.parse(readFileSync(new URL(`../../vectors/model/${name}`, import.meta.url), 'utf8')) as Record<string, unknown>
const document = (pools: readonly Pool[], more: object = {}) => ({
  listen: '127.0.0.1:0',
  keys: [{ name: 'k', secret: 'first-key' }],
  admin: { secret: 'admin-key' },
  clusters: [{ id: 'c', pools }],
  ...more,
})
const configOf = (pools: readonly Pool[], more: object = {}): Config =>
  parseConfig(document(pools, more), {}, { defaultVersion: 1, defaultObserveShare: 1, listens: true })
const poolOf = (model: string, id: string, { url }: HeldEngine): Pool => ({ model, engines: [{ id, url }] })

const chat = (url: string, model: string, key = 'first-key'): Promise<Response> =>
  fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: 'hi' }] }),
  })

/** Number of bookings by pool. */
async function bookings(url: string): Promise<Record<string, number>> {
  const fleet = (await (
    await fetch(`${url}/v1/firstlight/fleet`, { headers: { authorization: 'Bearer admin-key' } })
  ).json()) as { pools: { model: string; bookings: number }[] }
  return Object.fromEntries(fleet.pools.map((pool) => [pool.model, pool.bookings]))
}

const starts: readonly (readonly [string, (config: Config) => Promise<RunningGateway>])[] = [
  ['on one thread', (config) => startGateway(config, quiet)],
  ...(threadCount(2) === 2 ? [['on two', (config: Config) => startThreads(config, quiet, { count: 2 })] as const] : []),
]

describe.each(starts)('a configuration that changes under a gateway %s', (_where, start) => {
  let gateway: RunningGateway
  let running: Config
  const begin = async (config: Config) => {
    running = config
    gateway = await start(config)
  }
  const adopt = async (next: Config) => {
    running = reloadable(running, next).config
    await gateway.adopt(running)
  }
  afterEach(async () => void (await gateway.stop(AbortSignal.abort())))

  it('a gateway whose configuration changes serves new engines, and lets running streams end as they began', async () => {
    await begin(configOf([poolOf('old', 'a', one)]))
    const before = await chat(gateway.url, 'old')
    expect(before.status).toBe(200)
    await adopt(configOf([poolOf('new', 'b', other), poolOf('old', 'c', third)]))
    const [fresh, moved] = await Promise.all([chat(gateway.url, 'new'), chat(gateway.url, 'old')])
    expect([fresh.status, moved.status]).toEqual([200, 200])
    await expect.poll(() => [one, other, third].map(({ held }) => held.length)).toEqual([1, 1, 1])
    expect(await bookings(gateway.url)).toEqual({ new: 1, old: 2 })
    for (const engine of [one, other, third]) engine.finish()
    for (const text of await Promise.all([before, fresh, moved].map((response) => response.text())))
      expect(text).toContain('[DONE]')
    await expect.poll(() => bookings(gateway.url)).toEqual({ new: 0, old: 0 })
  })

  it('a gateway whose configuration changes forgets a removed model while its streams end, and serves it again when it is back', async () => {
    await begin(configOf([poolOf('kept', 'a', one), poolOf('gone', 'b', other)]))
    const stream = await chat(gateway.url, 'gone')
    await adopt(configOf([poolOf('kept', 'a', one)]))
    expect((await chat(gateway.url, 'gone')).status).toBe(404)
    other.finish()
    expect(await stream.text()).toContain('[DONE]')
    await adopt(configOf([poolOf('gone', 'b', other), poolOf('kept', 'a', one)]))
    const again = await chat(gateway.url, 'gone')
    expect(again.status).toBe(200)
    expect(await bookings(gateway.url)).toEqual({ gone: 1, kept: 0 })
    other.finish()
    await again.text()
  })

  it('a gateway whose configuration changes turns keys at once', async () => {
    await begin(configOf([poolOf('m', 'a', one)]))
    await adopt(configOf([poolOf('m', 'a', one)], { keys: [{ name: 'k', secret: 'second-key' }] }))
    expect((await chat(gateway.url, 'm')).status).toBe(401)
    const response = await chat(gateway.url, 'm', 'second-key')
    expect(response.status).toBe(200)
    one.finish()
    await response.text()
  })

  it('a gateway whose configuration changes allows pages of the origins it names only', async () => {
    const allowed = async () => {
      const preflight = {
        method: 'OPTIONS',
        headers: { origin: 'https://chat.example.com', 'access-control-request-method': 'POST' },
      }
      const refused = { method: 'POST', headers: { origin: 'https://chat.example.com' }, body: '{}' }
      const answers = [
        await fetch(`${gateway.url}/v1/chat/completions`, preflight),
        await fetch(`${gateway.url}/v1/chat/completions`, refused),
      ]
      return answers.map(({ headers }) => headers.get('access-control-allow-origin'))
    }
    const pools = [poolOf('m', 'a', one)]
    await begin(configOf(pools))
    expect(await allowed()).toEqual([null, null])
    await adopt(configOf(pools, { cors: { origins: ['https://chat.example.com'] } }))
    expect(await allowed()).toEqual(['https://chat.example.com', 'https://chat.example.com'])
    await adopt(configOf(pools, { cors: { origins: ['https://other.example.com'] } }))
    expect(await allowed()).toEqual([null, null])
  })

  it('a gateway whose configuration changes gives running streams the new time limit', async () => {
    await begin(configOf([poolOf('m', 'a', one)], { limits: { drain_ms: 600_000 } }))
    const stream = await chat(gateway.url, 'm')
    const truncated = stream.text().catch(() => 'cut')
    await adopt(configOf([poolOf('m', 'a', one)], { limits: { drain_ms: 50 } }))
    expect(await gateway.stop(new AbortController().signal)).toEqual({ timedOut: true })
    expect(await truncated).not.toContain('[DONE]')
  })

  it('a gateway whose configuration changes sends traces and reports to the new destinations', async () => {
    const sink = await FakeEngine.open()
    const { url } = sink
    const report = (id: string) =>
      fetch(`${gateway.url}/ttft_report`, {
        method: 'POST',
        headers: { authorization: 'Bearer admin-key' },
        body: JSON.stringify({ role: 'pd', request_id: id, prefill_queue_time_ms: 1 }),
      })
    const ask = async () => {
      const response = await chat(gateway.url, 'm')
      await expect.poll(() => one.held.length).toBe(1)
      one.finish()
      await response.text()
    }
    try {
      await begin(configOf([poolOf('m', 'a', one)], { ttft: { enabled: true } }))
      await ask()
      expect((await report('before')).status).toBe(200)
      await adopt(
        configOf([poolOf('m', 'a', one)], {
          ttft: { enabled: true, relay: { url, token: 'pass' } },
          traces: { endpoint: url, sample: 1, service: 'turned-on' },
        }),
      )
      await ask()
      expect((await report('after')).status).toBe(200)
      await expect.poll(() => sink.calls.toSorted()).toEqual(['POST /ttft_report', 'POST /v1/traces'])
      const [reported, traced] = sink.posts.toSorted((a, b) => (a.path < b.path ? -1 : 1))
      expect(traced!.text).toContain('turned-on')
      expect(reported!.text).toContain('"after"')
      expect(reported!.headers['authorization']).toBe('Bearer pass')
      expect(reported!.text).not.toContain('"before"')
    } finally {
      await sink.close()
    }
  })

  it('a gateway whose configuration changes moves viewers to the new gateway', async () => {
    await begin(configOf([poolOf('m', 'a', one)]))
    const live = await fetch(`${gateway.url}/v1/firstlight/live`, { headers: { authorization: 'Bearer admin-key' } })
    const ended = live.text()
    await adopt(configOf([poolOf('m', 'a', one), poolOf('n', 'b', other)]))
    // The feed ends, and the page opens another.
    expect(await ended).toContain('event: view')
  })
})

describe('a process with a new configuration', () => {
  it('a process with a new configuration adopts all of it except what needs a restart, which it names', () => {
    const before = configOf([poolOf('m', 'a', one)])
    const next = configOf([poolOf('m', 'b', other)], {
      listen: '0.0.0.0:9',
      workers: 3,
      log: { level: 'debug' },
      replicas: { url: 'redis://127.0.0.1:6379' },
      limits: { body_bytes: 4096, drain_ms: 7, response_ids: 9 },
      ttft: { enabled: true, listen: '127.0.0.1:9', token: 't', ttl_s: 3 },
    })
    const { config, needsRestart: late } = reloadable(before, next)
    expect(late).toEqual(['listen', 'workers', 'replicas', 'ttft.enabled', 'ttft.listen', 'limits.response_ids'])
    expect(config).toMatchObject({
      listen: before.listen,
      workers: before.workers,
      log: next.log,
      loopback: true,
      version: 2,
      limits: { bodyBytes: 4096, drainMs: 7, responseIds: before.limits.responseIds },
    })
    expect(config.ttft).toEqual({ ...next.ttft, enabled: false, listen: null })
    expect(config.clusters).toEqual(next.clusters)
  })

  it('a process with a new configuration has a higher version than the previous one, whatever it contains', () => {
    const before = { ...configOf([poolOf('m', 'a', one)]), version: 7 }
    expect(reloadable(before, configOf([poolOf('n', 'b', other)])).config.version).toBe(8)
    expect(reloadable(before, { ...before, version: 30 }).config.version).toBe(30)
  })
})

describe('firstlight serve', () => {
  const folder = mkdtempSync(join(tmpdir(), 'firstlight-reload-'))
  const file = join(folder, 'firstlight.json')
  let child: ChildProcess
  let output: string
  afterEach(() => void child.kill('SIGKILL'))

  const write = (pools: readonly Pool[] | 'nonsense', more: object = {}): void => {
    // Written atomically, as deployments do.
    writeFileSync(`${file}.new`, pools === 'nonsense' ? '{"clusters": 3}' : JSON.stringify(document(pools, more)))
    renameSync(`${file}.new`, file)
  }
  const line = (event: string, nth = 1): Record<string, unknown> | undefined =>
    output
      .split('\n')
      .filter((text) => text.includes(`"event":"${event}"`))
      .map((text) => JSON.parse(text) as Record<string, unknown>)[nth - 1]
  const logged = async (event: string, nth = 1): Promise<Record<string, unknown>> => {
    await expect.poll(() => line(event, nth)).toBeDefined()
    return line(event, nth)!
  }
  async function serve(...flags: string[]): Promise<string> {
    output = ''
    child = spawn(
      process.execPath,
      [fileURLToPath(new URL('../../../src/node.ts', import.meta.url)), 'serve', '--config', file, ...flags],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    child.stdout!.setEncoding('utf8').on('data', (text: string) => (output += text))
    return (await logged('listening'))['url'] as string
  }

  it('firstlight serve reloads at SIGUSR2, and keeps the previous configuration if the new one is invalid', async () => {
    write([poolOf('old', 'a', one)])
    const url = await serve()
    write('nonsense')
    child.kill('SIGUSR2')
    expect((await logged('configuration_refused'))['why']).toMatch(/clusters/)
    expect((await chat(url, 'old')).status).toBe(200)
    write([poolOf('new', 'b', other)])
    child.kill('SIGUSR2')
    await logged('configuration_adopted')
    expect((await chat(url, 'new')).status).toBe(200)
    expect((await chat(url, 'old')).status).toBe(404)
  })

  it('firstlight serve starts, stops and changes recording without a restart', async () => {
    const pools = [poolOf('m', 'a', one)]
    write(pools)
    const url = await serve()
    const ask = async () => {
      const response = await chat(url, 'm')
      await expect.poll(() => one.held.length).toBe(1)
      one.finish()
      await response.text()
    }
    const reload = async (more: object, event: string, nth: number) => {
      write(pools, more)
      child.kill('SIGUSR2')
      return logged(event, nth)
    }
    await ask()
    expect((await reload({ record: { file: 'no/such/folder.jsonl' } }, 'configuration_refused', 1))['why']).toContain(
      'cannot be written',
    )
    expect(
      await reload(
        { record: { file: 'traffic.jsonl' }, log: { level: 'debug' }, workers: 2 },
        'configuration_adopted',
        1,
      ),
    ).toMatchObject({ level: 'warn', needs_restart: ['workers'] })
    await ask()
    await fetch(`${url}/health`)
    await expect.poll(() => output).toContain('"path":"/health"')
    await reload({}, 'configuration_adopted', 2)
    await ask()
    const recordedLines = readFileSync(join(folder, 'traffic.jsonl'), 'utf8').trim().split('\n')
    expect(recordedLines).toHaveLength(1)
    expect(existsSync(join(folder, 'no'))).toBe(false)
    child.kill('SIGTERM')
    await logged('stopped')
    expect(readFileSync(join(folder, 'traffic.jsonl'), 'utf8').trim().split('\n')).toEqual(recordedLines)
  })

  it('firstlight serve with --watch reloads whenever the file changes', async () => {
    write([poolOf('old', 'a', one)])
    const url = await serve('--watch')
    write([poolOf('new', 'b', other)])
    await logged('configuration_adopted')
    expect((await chat(url, 'new')).status).toBe(200)
    write('nonsense')
    await logged('configuration_refused')
    write([poolOf('newer', 'b', other)])
    await logged('configuration_adopted', 2)
    expect((await chat(url, 'newer')).status).toBe(200)
    rmSync(folder, { recursive: true })
  })
})

describe('a configuration file that is watched', () => {
  it('a configuration file that is watched is reloaded even if it changed between the read at the start and the first poll', async () => {
    const file = join(mkdtempSync(join(tmpdir(), 'firstlight-')), 'c.json')
    writeFileSync(file, 'as it was read')
    const asRead = fileFingerprint(file)
    writeFileSync(file, 'another')
    const config = configOf([poolOf('m', 'a', one)])
    const next = configOf([poolOf('m', 'b', one)])
    const adopted = await new Promise<Config>((taken) => {
      const adopt = async (taking: Config): Promise<void> => {
        stop()
        taken(taking)
      }
      const reloader = new Reloader({
        gateway: { adopt, configRefused: () => undefined },
        written: config,
        config,
        discovery: { resolve: async (found) => found, settle: () => undefined },
        read: () => next,
        log: quiet,
      })
      const stop = reloader.watch(file, asRead)
    })
    expect(adopted.clusters).toEqual(next.clusters)
  })
})

it('other engines that are found while a configuration is taken in are taken in after it, together', async () => {
  const config = configOf([poolOf('m', 'a', one)])
  const adopted: (boolean | undefined)[] = []
  let go: () => void = () => undefined
  const busy = new Promise<void>((resolve) => (go = resolve))
  const adopt = async (_config: Config, sameFiles?: boolean) => (await busy, void adopted.push(sameFiles))
  const reloader = new Reloader({
    gateway: { adopt, configRefused: () => undefined },
    written: config,
    config,
    discovery: { resolve: async (next) => next, settle: () => undefined },
    read: () => config,
    log: quiet,
  })
  const all = [reloader.reload(), reloader.refresh(), reloader.refresh(), reloader.refresh()]
  go()
  await Promise.all(all)
  expect(adopted).toEqual([false, true])
  await reloader.refresh()
  expect(adopted).toEqual([false, true, true])
})

it('a refused document is known to the gateway until another one is adopted, over discovered engines too', async () => {
  const config = configOf([poolOf('m', 'a', one)])
  const refusals: (number | null)[] = []
  let isValid = false
  const reloader = new Reloader({
    gateway: { adopt: async () => undefined, configRefused: (at) => void refusals.push(at) },
    written: config,
    config,
    discovery: { resolve: async (next) => next, settle: () => undefined },
    read: () => {
      if (!isValid) throw new Error('it is invalid')
      return config
    },
    log: quiet,
  })
  await reloader.reload()
  await reloader.refresh()
  expect(refusals).toEqual([expect.any(Number), refusals[0]])
  isValid = true
  await reloader.reload()
  await reloader.refresh()
  expect(refusals.slice(2)).toEqual([null])
})

it('changed settings, and those that need a restart, are reported once per configuration, not per discovered engine', async () => {
  const config = configOf([poolOf('m', 'a', one)])
  const lines: unknown[] = []
  const keep =
    (level: string) =>
    (event: string, fields: Readonly<Record<string, unknown>> = {}) =>
      void lines.push([level, event, fields['needs_restart'], fields['changed']])
  const log = { debug: keep('debug'), info: keep('info'), warn: keep('warn'), error: keep('error') }
  const read = () => configOf([poolOf('m', 'a', one)], { workers: 3 })
  const reloader = new Reloader({
    gateway: { adopt: async () => undefined, configRefused: () => undefined },
    written: config,
    config,
    discovery: { resolve: async (next) => next, settle: () => undefined },
    read,
    log,
  })
  await reloader.reload()
  await reloader.refresh()
  expect(lines).toEqual([
    ['warn', 'configuration_adopted', ['workers'], ['workers']],
    ['info', 'engines_adopted', undefined, undefined],
  ])
})

describe('vocabularies of successive configurations', () => {
  it('vocabularies of successive configurations are opened when they are new or changed, and each once', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'firstlight-vocabularies-'))
    const compiled = compileVocabulary({
      tokenizer: modelFile('tokenizer.json'),
      ...readTokenizerConfig(modelFile('tokenizer_config.json')),
    })
    const write = (name: string) => writeFileSync(join(folder, name), compiled)
    for (const name of ['a.vocab', 'b.vocab']) write(name)
    const using = (...tokenizers: string[]) =>
      configOf(
        tokenizers.map((tokenizer, at) => ({
          model: `m${at}`,
          engines: [{ id: `e${at}`, url: `http://e${at}` }],
          tokenizer,
        })),
      )
    const opened: OpenVocabulary[] = []
    const vocabulariesOf = vocabulariesIn(folder, (vocabulary) => (opened.push(vocabulary), vocabulary))
    const before = await vocabulariesOf(using('a.vocab', 'a.vocab'))
    expect(opened).toHaveLength(1)
    const after = await vocabulariesOf(using('a.vocab', 'b.vocab'))
    expect(opened).toHaveLength(2)
    expect(after.get('a.vocab')).toBe(before.get('a.vocab'))
    utimesSync(join(folder, 'a.vocab'), 1, 1)
    const changed = await vocabulariesOf(using('a.vocab', 'b.vocab'))
    expect(changed.get('b.vocab')).toBe(after.get('b.vocab'))
    expect(changed.get('a.vocab')).not.toBe(after.get('a.vocab'))
    await expect(vocabulariesOf(using('c.vocab'))).rejects.toThrow(/c\.vocab/)
    expect((await vocabulariesOf(using('a.vocab'))).get('a.vocab')).toBe(changed.get('a.vocab'))
    rmSync(folder, { recursive: true })
  })
})
