import {
  closeSync,
  existsSync,
  fstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { execFile } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { main } from '../../bin/commands.ts'
import { promptOf } from '../../packages/replay/src/load/prompt.ts'
import { openLog } from '../../src/platform/node/log.ts'
import type { Admission } from '../../src/core/contract/admission.ts'
import { PAYLOAD_VERSION } from '../../src/core/contract/payload-version.ts'
import { Recording } from '../../src/platform/node/recording.ts'
import { traceFile } from '../../src/platform/node/trace-file.ts'
import { SILENCE } from '../kit/fake-answer.ts'
import { FakeEngine } from '../kit/fake-engine.ts'
import { startNodeGateway, type NodeGateway } from '../kit/node-gateway.ts'
import { DONE, sseEvent, sseAnswer } from '../kit/sse.ts'
import { startFleet, type RunningFleet } from '../../packages/simulator/src/node/fleet-host.ts'
import { keysOf, readTrace } from '../../packages/replay/src/replay/trace.ts'
import { until } from '../wait.ts'

const TOKEN = sseEvent({ choices: [{ text: 'x' }] })
const folder = mkdtempSync(join(tmpdir(), 'load-'))
const at = (name: string): string => join(folder, name)
const log = openLog('silent')
let fleet: RunningFleet
let gateway: NodeGateway
const recordTo = { maxBytes: 2 ** 20, files: 2, salt: null }
let recording: Recording

beforeAll(async () => {
  fleet = await startFleet({ engines: 2, profile: 'test', model: 'sim' })
  const engines = fleet.urls.map((url, index) => ({ id: `e${index}`, url }))
  const document = {
    clusters: [{ id: 'c', pools: [{ model: 'sim', block_tokens: 16, engines }] }],
  }
  recording = new Recording({ ...recordTo, file: at('recorded.jsonl') }, log)
  gateway = await startNodeGateway(document, { hooks: { middleware: recording.middleware } })
})

afterAll(async () => {
  await gateway.close()
  await fleet.close()
  rmSync(folder, { recursive: true })
})

const firstlight = (...argv: string[]): ReturnType<typeof firstlightUntil> =>
  firstlightUntil(new AbortController().signal, ...argv)

async function firstlightUntil(
  stop: AbortSignal,
  ...argv: string[]
): Promise<{ code: number; out: string; err: string }> {
  const out: string[] = []
  const err: string[] = []
  const code = await main(argv, {
    out: (line) => out.push(line),
    err: (line) => err.push(line),
    env: {},
    stop,
    stopNow: stop,
  })
  return { code, out: out.join('\n'), err: err.join('\n') }
}

const block = (id: number, row: number) => ({
  timestamp: row * 5,
  input_length: 70,
  output_length: 6,
  hash_ids: [1, 2, id, 50 + row, 90 + row],
  block_tokens: 16,
})

describe('firstlight load', () => {
  it('firstlight load sends a trace whose repeated blocks hit the engines’ caches, and its recording replays equally', async () => {
    writeFileSync(
      at('t.jsonl'),
      Array.from({ length: 24 }, (_, row) => JSON.stringify(block(3 + (row % 2), row * 8))).join('\n'),
    )
    const { code, out } = await firstlight(
      'load',
      '--url',
      gateway.url,
      '--model',
      'sim',
      '--trace',
      at('t.jsonl'),
      '--json',
      at('o.json'),
      '--html',
      at('o.html'),
      '--benchmark-report',
      at('o.br.json'),
    )
    expect(out).toContain('24 answered, 0 not')
    const { run, scenario, results } = JSON.parse(readFileSync(at('o.br.json'), 'utf8')) as Record<string, object>
    expect(run).toMatchObject({ time: { start: expect.stringMatching(/^20.*Z$/), duration: expect.any(String) } })
    expect(scenario).toMatchObject({ load: { standardized: { tool: 'firstlight load', source: 'random' } } })
    expect(results).toMatchObject({
      request_performance: { aggregate: { requests: { total: 24, failures: 0, input_length: { mean: 70 } } } },
    })
    expect(code).toBe(0)
    const [head, ...lines] = out.split('\n').map((line) => line.split(/ {2,}/)[0])
    expect(head).toBe('engine')
    const [all, ...engines] = lines.slice(0, lines.indexOf(''))
    expect(all).toBe('all')
    // One of them gets all requests if its cache outweighs its load.
    expect(engines.length).toBeGreaterThan(0)
    expect(engines.every((engine) => engine === 'e0' || engine === 'e1')).toBe(true)
    expect(out).not.toContain('decide_us')
    const { rows } = JSON.parse(readFileSync(at('o.json'), 'utf8')) as {
      rows: { policy: string; requests: number; hit: number; ttft_mean_ms: number }[]
    }
    expect(rows[0]).toMatchObject({ policy: 'all', requests: 24 })
    expect(rows.slice(1).reduce((sum, { requests }) => sum + requests, 0)).toBe(24)
    expect(rows.slice(1).every(({ policy }) => policy === 'e0' || policy === 'e1')).toBe(true)
    // Nearly all earlier prompts had 3 of its 4 full blocks.
    expect(rows[0]!.hit).toBeGreaterThan(0.4)
    expect(rows[0]!.ttft_mean_ms).toBeGreaterThan(0)
    const html = readFileSync(at('o.html'), 'utf8')
    expect(html).toContain('<svg ')
    expect(html).toContain('firstlight load')
    expect(html).not.toContain('Simulated')

    recording.close()
    const text = readFileSync(at('recorded.jsonl'), 'utf8')
    const written = readTrace('recorded', text)
    expect(written.blockTokens).toBe(16)
    expect(written.requests).toHaveLength(24)
    expect(written.requests.every(({ promptTokens, outputTokens }) => promptTokens === 70 && outputTokens === 6)).toBe(
      true,
    )
    const firsts = new Set(written.requests.map(({ blocks }) => String(blocks.slice(0, 4))))
    expect(firsts.size).toBe(1)
    expect(new Set(written.requests.map(({ blocks }) => String(blocks.slice(0, 6)))).size).toBe(2)
    expect(
      (await firstlight('replay', '--trace', at('recorded.jsonl'), '--policies', 'predicted', '--engines', '2')).code,
    ).toBe(0)
  })

  it('firstlight load counts failures, and exits with 1', async () => {
    const { code, out } = await firstlight(
      'load',
      '--url',
      gateway.url,
      '--model',
      'nobody',
      '--num-users',
      '2',
      '--num-rounds',
      '2',
      '--qps',
      '100',
    )
    expect(code).toBe(1)
    expect(out).toContain(
      "4 x status 404: The model 'nobody' does not exist or this key may not use it. Models for this key: sim.",
    )
    expect(out).toContain('0 answered, 4 not')
    // A row of zeros would be meaningless.
    expect(out).not.toContain('engine')
    const nobody = await firstlight(
      'load',
      '--url',
      'http://127.0.0.1:2',
      '--model',
      'm',
      '--num-users',
      '1',
      '--num-rounds',
      '1',
    )
    expect(nobody.out).toContain('1 x connection refused by 127.0.0.1:2')
  })

  it('firstlight load distinguishes engines of several clusters with the same name', async () => {
    let requests = 0
    const two = await FakeEngine.open({
      '*': () =>
        sseAnswer([TOKEN, DONE], {
          headers: { 'x-firstlight-engine': 'a', 'x-firstlight-cluster': ['paris', 'rome'][requests++ % 2]! },
        }),
    })
    const { url } = two
    const { out } = await firstlight(
      'load',
      '--url',
      url,
      '--model',
      'm',
      '--num-users',
      '2',
      '--num-rounds',
      '1',
      '--qps',
      '100',
    )
    const names = out
      .split('\n')
      .slice(1, 4)
      .map((line) => line.split(/ {2,}/)[0])
    expect(names).toEqual(['all', 'paris/a', 'rome/a'])
    await two.close()
  })

  it('firstlight load calls a truncated stream that, and counts it in the goodput of its engine and of all', async () => {
    let requests = 0
    const headers = { 'x-firstlight-engine': 'a' }
    const server = await FakeEngine.open({
      '*': () => {
        const turn = requests++ % 3
        if (turn === 2) return { status: 503, body: {} }
        if (turn === 0) return sseAnswer([TOKEN, DONE], { headers })
        return requests < 4 ? sseAnswer([TOKEN], { headers }) : sseAnswer([TOKEN], { headers, end: 'truncate' })
      },
    })
    const { url } = server
    const six = ['--num-users', '1', '--num-rounds', '6', '--qps', '100']
    const { code, out } = await firstlight('load', '--url', url, '--model', 'm', ...six, '--json', at('truncated.json'))
    expect(code).toBe(1)
    expect(out).toContain('2 answered, 4 not')
    expect(out).toContain('2 x truncated stream: it ended without [DONE]')
    expect(out).toContain('2 x status 503')
    const { rows } = JSON.parse(readFileSync(at('truncated.json'), 'utf8')) as {
      rows: { policy: string; requests: number; refused: number; goodput: number }[]
    }
    expect(rows).toMatchObject([
      { policy: 'all', requests: 2, refused: 4, goodput: 0.333333 },
      { policy: 'a', requests: 2, refused: 2, goodput: 0.5 },
    ])
    await server.close()
  })

  it('firstlight load counts no unsent request in goodput', async () => {
    const two = ['--num-users', '1', '--num-rounds', '2', '--qps', '0.1', '--time', '0.5']
    const { out } = await firstlight(
      ...['load', '--url', gateway.url, '--model', 'sim', '--json', at('unsent.json')].concat(two),
    )
    expect(out).toContain('1 answered, 0 not, 1 not sent')
    expect(JSON.parse(readFileSync(at('unsent.json'), 'utf8'))).toMatchObject({
      rows: [{ goodput: 1 }, { goodput: 1 }],
    })
  })

  it('firstlight load distinguishes requests that a signal cut off from unsent ones, and still writes its figures', async () => {
    const stop = new AbortController()
    const silent = await FakeEngine.open({ '*': () => (stop.abort(), SILENCE) })
    const { url } = silent
    const { code, out } = await firstlightUntil(
      stop.signal,
      'load',
      '--url',
      url,
      '--model',
      'm',
      '--num-users',
      '2',
      '--num-rounds',
      '2',
      '--qps',
      '0.01',
      '--json',
      at('cut.json'),
    )
    expect(code).toBe(1)
    expect(out).toContain('0 answered, 1 not, 3 not sent')
    expect(out).toContain('1 x stopped before the answer')
    expect(JSON.parse(readFileSync(at('cut.json'), 'utf8'))).toMatchObject({
      problems: { 'stopped before the answer': 1 },
    })
    await silent.close()
  })

  it.each([
    [['--url', 'http://127.0.0.1:1'], 'needs --model'],
    [['--model', 'm', '--url', 'ftp://x'], '--url must be an http or https URL'],
    [['--model', 'm', '--trace', 'nowhere'], 'There is no file nowhere'],
  ])('firstlight load rejects %j', async (argv, message) => {
    const { code, err } = await firstlight('load', ...argv)
    expect(code).toBe(2)
    expect(err).toContain(message)
  })
})

describe('multi-round conversations', () => {
  let server: FakeEngine
  let inFlight = 0
  let max = 0
  const prompts: number[][] = []

  beforeAll(async () => {
    server = await FakeEngine.open({
      '*': async ({ json }) => {
        inFlight += 1
        max = Math.max(max, inFlight)
        prompts.push(json['prompt'] as number[])
        await setTimeout(20)
        inFlight -= 1
        return sseAnswer([TOKEN, sseEvent({ choices: [], usage: { completion_tokens: 1 } }), DONE], {
          headers: { 'x-firstlight-engine': 'one' },
        })
      },
    })
  })
  afterAll(() => server.close())

  it('firstlight load keeps exactly the given number of unfinished requests, and sends every request', async () => {
    const { url } = server
    const { code, out } = await firstlight(
      'load',
      '--url',
      url,
      '--model',
      'm',
      '--num-users',
      '9',
      '--num-rounds',
      '3',
      '--qps',
      '1000',
      '--max-unfinished-queries',
      '4',
    )
    expect(code).toBe(0)
    expect(out).toContain('27 answered, 0 not')
    expect(max).toBe(4)
    expect(prompts).toHaveLength(27)
    // Each later prompt of a user starts with the full blocks of the previous one.
    const grown = prompts.filter((one) =>
      prompts.some(
        (other) =>
          other.length > one.length &&
          String(other.slice(0, one.length - (one.length % 16))) ===
            String(one.slice(0, one.length - (one.length % 16))),
      ),
    )
    expect(grown.length).toBeGreaterThanOrEqual(18)
  })
})

describe('prompts', () => {
  it('prompts share tokens exactly as far as their traces share blocks', () => {
    const request = (ids: readonly number[]) => ({
      atMs: 0,
      promptTokens: ids.length * 16 + 5,
      outputTokens: 1,
      blocks: keysOf(ids),
      session: null,
      chain: null,
      thinkMs: 0,
    })
    const [one, other] = [promptOf(request([1, 2, 3]), 16, 1), promptOf(request([1, 2, 4]), 16, 2)]
    expect(one).toHaveLength(53)
    expect(one.slice(0, 32)).toEqual(other.slice(0, 32))
    expect(one.slice(32, 48)).not.toEqual(other.slice(32, 48))
    expect(promptOf(request([1, 2, 3]), 16, 9).slice(48)).not.toEqual(one.slice(48))
  })
})

describe('a trace file', () => {
  it('a trace file is rotated when full, keeps so many, and is for its owner alone', () => {
    const path = at('r.jsonl')
    for (let run = 0; run < 6; run += 1) {
      const file = traceFile(path, { maxBytes: 30, files: 3, log })
      file.write(`{"run":${run},"some":"thing"}`)
      file.close()
    }
    expect([path, `${path}.1`, `${path}.2`].map((name) => readFileSync(name, 'utf8'))).toEqual(
      [5, 4, 3].map((run) => `{"run":${run},"some":"thing"}\n`),
    )
    expect(existsSync(`${path}.3`)).toBe(false)
  })

  it('a trace file loses lines but touches no other file if its file cannot be moved', async () => {
    const path = at('stuck.jsonl')
    const warned: string[] = []
    const file = traceFile(path, { maxBytes: 30, files: 2, log: { warn: (event) => void warned.push(event) } })
    const writeLine = async (line: string, isThere: () => boolean): Promise<void> => {
      file.write(line)
      await until(isThere)
    }
    await writeLine('{"run":0,"some":"thing"}', () => readFileSync(path, 'utf8') !== '')
    // A folder with files in it cannot be replaced.
    mkdirSync(`${path}.1/full`, { recursive: true })
    await writeLine('{"run":1}', () => warned.length === 1)
    const others = openSync(at('others'), 'w')
    await writeLine('{"run":2}', () => warned.length === 2)
    expect(fstatSync(others).size).toBe(0)
    closeSync(others)
    rmSync(`${path}.1`, { recursive: true })
    file.write('{"run":3}')
    file.close()
    expect([path, `${path}.1`].map((name) => readFileSync(name, 'utf8'))).toEqual([
      '{"run":3}\n',
      '{"run":0,"some":"thing"}\n',
    ])
  })

  const whole = (n: number): string => `{"timestamp":${n},"input_length":9}`

  it.each([
    ['half a line', whole(1).slice(0, 20)],
    ['its first letters', '{"ti'],
    ['a line without its end', whole(1)],
  ])('a trace file continues after the last complete line if a killed process left %s', (name, torn) => {
    const path = at(`${name}.jsonl`)
    writeFileSync(path, `${whole(0)}\n${torn}`)
    const file = traceFile(path, { maxBytes: 1000, files: 2, log })
    file.write(whole(2))
    file.close()
    expect(readFileSync(path, 'utf8')).toBe(`${whole(0)}\n${whole(2)}\n`)
  })

  it('a trace file keeps a foreign last line, on its own line', () => {
    const path = at('notes.txt')
    writeFileSync(path, 'my notes')
    const file = traceFile(path, { maxBytes: 1000, files: 2, log })
    file.write(whole(2))
    file.close()
    expect(readFileSync(path, 'utf8')).toBe(`my notes\n${whole(2)}\n`)
  })

  /** Runs a script in a process of its own, under a shell limit. */
  async function within(limit: string, script: string): Promise<void> {
    const recorder = new URL('../../src/platform/node/trace-file.ts', import.meta.url).href
    const code = `const { traceFile } = await import(${JSON.stringify(recorder)}); const fs = await import('node:fs'); const log = { warn() {} }; ${script}`
    await promisify(execFile)('bash', [
      '-c',
      `ulimit ${limit} && exec "$0" --input-type=module -e "$1"`,
      process.execPath,
      code,
    ])
  }

  it('a trace file contains only complete lines on a disk that fills up, and continues when there is room', async () => {
    const path = at('full.jsonl')
    await within(
      '-f 4',
      `const file = traceFile(${JSON.stringify(path)}, { maxBytes: 1e6, files: 2, log }); file.write('{"timestamp":0}'); file.close(); const more = traceFile(${JSON.stringify(path)}, { maxBytes: 1e6, files: 2, log }); more.write('{"timestamp":1,"x":"' + 'x'.repeat(9000) + '"}'); more.close()`,
    )
    const file = traceFile(path, { maxBytes: 1e6, files: 2, log })
    file.write(whole(2))
    file.close()
    expect(readFileSync(path, 'utf8')).toBe(`{"timestamp":0}\n${whole(2)}\n`)
  })

  it('a trace file moves nothing if the next file cannot be opened', async () => {
    const path = at('rotated.jsonl')
    for (const [age, name] of [path, `${path}.1`, `${path}.2`].entries())
      writeFileSync(name, `{"age":${age},"some":"thing"}\n`)
    await within(
      '-n 60',
      `const file = traceFile(${JSON.stringify(path)}, { maxBytes: 30, files: 3, log }); try { for (;;) fs.openSync('/dev/null') } catch {} file.write('{"age":-1}'); file.close()`,
    )
    expect([path, `${path}.1`, `${path}.2`].map((name) => readFileSync(name, 'utf8'))).toEqual(
      [0, 1, 2].map((age) => `{"age":${age},"some":"thing"}\n`),
    )
  })

  it('a trace file is rotated once for all processes that write to it, and contains the lines of all', () => {
    const path = at('shared.jsonl')
    const gateways = [0, 1, 2, 3].map(() => traceFile(path, { maxBytes: 30, files: 3, log }))
    for (const [run, file] of gateways.entries()) {
      file.write(`{"run":${run},"some":"thing"}`)
      file.close()
    }
    expect([path, `${path}.1`, `${path}.2`].map((name) => readFileSync(name, 'utf8'))).toEqual(
      [3, 2, 1].map((run) => `{"run":${run},"some":"thing"}\n`),
    )
  })

  it('a trace file loses and repeats no line if processes rotate at the same time', async () => {
    const path = at('race.jsonl')
    const options = '{ maxBytes: 100, files: 1000, log }'
    const script = (who: string): string =>
      `for (let n = 0; n < 80; n++) { const file = traceFile(${JSON.stringify(path)}, ${options}); file.write('{"timestamp":"${who}' + n + '","some":"thing"}'); file.close() }`
    await Promise.all(['a', 'b', 'c'].map((who) => within('-n 60', script(who))))
    const files = readdirSync(folder).filter((name) => name.startsWith('race.jsonl'))
    const lines = files.flatMap((name) =>
      readFileSync(at(name), 'utf8')
        .split('\n')
        .filter((line) => line !== ''),
    )
    const written = ['a', 'b', 'c'].flatMap((who) =>
      Array.from({ length: 80 }, (_, n) => `{"timestamp":"${who}${n}","some":"thing"}`),
    )
    expect(lines.toSorted()).toEqual(written.toSorted())
    // The number depends on timing: no file is rotated twice or before it is full.
    expect(files.length).toBeGreaterThan(1)
    for (const name of files)
      if (name !== 'race.jsonl') expect(readFileSync(at(name)).length).toBeGreaterThan(100 - written[0]!.length - 4)
    expect(files).not.toContain('race.jsonl.lock')
  })

  it.each([
    ['put aside', (path: string) => renameSync(path, `${path}-aside`)],
    ['taken away', (path: string) => rmSync(path)],
  ])('a trace file starts anew under its name if it was %s', (what, change) => {
    const path = at(`${what}.jsonl`)
    const file = traceFile(path, { maxBytes: 1000, files: 2, log })
    change(path)
    file.write(whole(2))
    file.close()
    expect(readFileSync(path, 'utf8')).toBe(`${whole(2)}\n`)
  })

  it('a trace file waits for a process that is rotating, but not for one that was killed meanwhile', () => {
    const path = at('begun.jsonl')
    const write = (line: string): void => {
      const file = traceFile(path, { maxBytes: 30, files: 2, log })
      file.write(line)
      file.close()
    }
    write(whole(0))
    writeFileSync(`${path}.lock`, '')
    write(whole(1))
    expect(existsSync(`${path}.1`)).toBe(false)
    utimesSync(`${path}.lock`, 0, 0)
    write(whole(2))
    write(whole(3))
    expect([path, `${path}.1`].map((name) => readFileSync(name, 'utf8'))).toEqual([
      `${whole(3)}\n`,
      `${whole(0)}\n${whole(1)}\n${whole(2)}\n`,
    ])
  })

  it('a trace file is reported before the start if it cannot be written', () => {
    expect(() => new Recording({ ...recordTo, file: at('no/such/folder.jsonl') }, log)).toThrow('cannot be written')
  })

  it('a trace file accepts no line after it was closed', () => {
    const closed = traceFile(at('closed.jsonl'), { maxBytes: 2 ** 20, files: 2, log })
    closed.write(whole(1))
    closed.close()
    closed.write(whole(2))
    const next = traceFile(at('next.jsonl'), { maxBytes: 2 ** 20, files: 2, log })
    next.close()
    expect(readFileSync(at('closed.jsonl'), 'utf8')).toBe(`${whole(1)}\n`)
    expect(readFileSync(at('next.jsonl'), 'utf8')).toBe('')
  })

  it('a trace file closes nothing of others if it is closed twice, as by a signal during a failing change', () => {
    const twice = traceFile(at('twice.jsonl'), { maxBytes: 2 ** 20, files: 2, log })
    twice.close()
    const other = openSync(at('others.txt'), 'w')
    twice.close()
    expect(fstatSync(other).isFile()).toBe(true)
    closeSync(other)
  })

  it('a trace file is unchanged if a change of it is reverted or changes nothing', () => {
    const record = { ...recordTo, file: at('goes-on.jsonl') }
    const one = new Recording(record, log)
    const cluster = { configure: () => {} } as unknown as Parameters<typeof one.middleware>[0]
    const isRecorded = () =>
      one.middleware(cluster, { blockTokens: 16 } as Parameters<typeof one.middleware>[1]) !== cluster
    one.adopt(null).undo()
    expect(isRecorded()).toBe(true)
    one.adopt({ ...record }).keep()
    expect(() => one.adopt({ ...record, file: at('no/such/folder.jsonl') })).toThrow('cannot be written')
    expect(isRecorded()).toBe(true)
    one.adopt(null).keep()
    expect(isRecorded()).toBe(false)
    one.close()
  })

  it('a trace file gives equal blocks equal names with the same salt after a restart, and others with another salt or none', async () => {
    const idsOf = async (name: string, salt: string | null): Promise<string> => {
      const started = new Recording({ ...recordTo, file: at(name), salt }, log)
      const lease = { release: () => {} }
      const cluster = { configure: () => {}, admit: () => Promise.resolve({ lease }) } as unknown as Parameters<
        typeof started.middleware
      >[0]
      const between = started.middleware(cluster, { blockTokens: 16 } as Parameters<typeof started.middleware>[1])
      const admitted = (await between.admit({
        attempt: 0,
        promptTokens: 32,
        blocks: new Uint32Array([1, 2, 3, 4]),
        session: null,
      } as unknown as Admission)) as unknown as { lease: { release(outcome: object): void } }
      admitted.lease.release({ version: PAYLOAD_VERSION, result: 'complete', usage: null, outputEvents: 3 })
      started.close()
      return JSON.stringify((JSON.parse(readFileSync(at(name), 'utf8')) as { hash_ids: number[] }).hash_ids)
    }
    const first = await idsOf('s1.jsonl', 'pepper')
    expect(await idsOf('s2.jsonl', 'pepper')).toBe(first)
    expect(await idsOf('s3.jsonl', 'salt')).not.toBe(first)
    expect(await idsOf('s4.jsonl', null)).not.toBe(first)
  })
})

it('a ShareGPT file with too few conversations is refused with the number that is needed', async () => {
  const messages = Array.from({ length: 5 }, (_, turn) => ({ from: turn % 2 === 0 ? 'human' : 'gpt', value: 'words' }))
  writeFileSync(at('sharegpt.json'), JSON.stringify([{ conversations: messages }, { conversations: messages }]))
  const args = ['load', '--url', gateway.url, '--model', 'sim', '--num-rounds', '2', '--qps', '100']
  const files = ['--sharegpt', at('sharegpt.json'), '--num-users', '2']
  const few = await firstlight(...args, ...files, '--init-user-id', '1')
  expect([few.code, few.err]).toEqual([2, expect.stringContaining('users 1 to 2 need 3')])
  expect(await firstlight(...args, ...files)).toMatchObject({ code: 0, out: expect.stringContaining('4 answered') })
})
