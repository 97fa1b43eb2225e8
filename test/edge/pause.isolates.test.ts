/** Isolates of one Worker in front of an engine whose weights are updated. */
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { type RunningWorkers, startWorkers } from '../../scripts/edge-workers.ts'
import { HeldEngine } from '../kit/held-engine.ts'
import { DONE, token } from '../kit/sse.ts'
import { until } from '../wait.ts'
import { ADMIN, admin, MODEL } from './isolates.ts'

const ISOLATES = ['iso0', 'iso1', 'iso2']

const weights = { version: 1 }
let engine: HeldEngine
let workers: RunningWorkers

beforeAll(async () => {
  engine = await HeldEngine.open({
    routes: () => ({
      'GET /weight_info': () => ({ body: { weight_version: weights.version } }),
      'POST /pause': { body: {} },
      'POST /resume': { body: {} },
    }),
  })
  const document = {
    version: 1,
    open: true,
    admin: { secret: 'admin' },
    log: { level: 'silent' },
    clusters: [
      {
        id: 'c',
        pools: [
          {
            model: MODEL,
            lease_ms: 1_500,
            observe_share: 1,
            queue: { max_wait_ms: 10_000, no_engine_wait_ms: 60_000 },
            engines: [{ id: 'a', url: engine.url, type: 'vllm' }],
          },
        ],
      },
    ],
  }
  const bindings = { FIRSTLIGHT_CONFIG: JSON.stringify(document) }
  const fronts = ISOLATES.map((name) => ({ name, bindings, objectsOf: 'objects', port: 0 }))
  workers = await startWorkers([{ name: 'objects', bindings }, ...fronts], { quiet: true })
})

afterAll(async () => {
  await workers.stop()
  await engine.close()
})

afterEach(async () => {
  weights.version = 1
  engine.finish()
  await command('iso0', 'resume', { weights: 'same' })
})

const send = (isolate: string, stream = true): Promise<Response> =>
  fetch(`${workers.urls[isolate]}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: MODEL, stream, messages: [{ role: 'user', content: `hi from ${isolate}` }] }),
  })

const command = async (isolate: string, action: string, options: object = {}) => {
  const response = await fetch(`${workers.urls[isolate]}/v1/firstlight/pools/${MODEL}/${action}`, {
    method: 'POST',
    headers: ADMIN,
    body: JSON.stringify(options),
  })
  return { status: response.status, json: (await response.json()) as object }
}

interface Fleet {
  readonly pools: readonly {
    readonly queue?: { readonly requests: number }
    readonly engines: readonly { readonly paused?: object }[]
  }[]
}

const poolOf = async (isolate: string) =>
  (await admin<Fleet>(workers.urls[isolate]!, '/v1/firstlight/fleet'))!.pools[0]!

/** A stream of each isolate, whose first token the client has. */
async function streams(): Promise<Response[]> {
  const answers: Response[] = []
  for (const isolate of ISOLATES) {
    const answer = send(isolate)
    const held = await until(() => engine.held[answers.length])
    held.begin(token(`v${weights.version} `))
    answers.push(await answer)
  }
  return answers
}

const pauses = (): number => engine.engine.calls.filter((call) => call === 'POST /pause').length

/** What came of an answer, whose connection may end early. */
async function textOf(answer: Response): Promise<string> {
  let text = ''
  try {
    for await (const piece of answer.body!.pipeThrough(new TextDecoderStream())) text += piece
  } catch {
    // A truncated stream ends with its connection.
  }
  return text
}

it('a resume in one isolate ends the streams of all that would mix two versions, and waits for their end', async () => {
  const answers = await streams()
  const silent = send('iso2')
  await until(() => engine.held.length === 4)
  expect(await command('iso0', 'pause', { mode: 'keep' })).toMatchObject({ status: 200, json: { paused: true } })
  weights.version = 2
  const resumed = command('iso1', 'resume')
  const texts = Promise.all(answers.map(textOf))
  expect(await resumed).toMatchObject({ status: 200, json: { resumed: true } })
  // Every call that the engine had kept was ended before the engine went on.
  expect(engine.engine.calls.at(-1)).toBe('POST /resume')
  for (const text of await texts) {
    expect(text).toContain('v1 ')
    expect(text).toContain('engine_stream_truncated')
    expect(text).not.toContain('[DONE]')
  }
  const again = await until(() => engine.held.find(({ isAborted }) => !isAborted))
  again.begin(token('v2 '))
  again.end(token('v2 ') + DONE)
  expect(await (await silent).text()).toContain('[DONE]')
})

it('kept streams of all isolates go on after a resume with the same weights', async () => {
  const answers = await streams()
  expect((await command('iso0', 'pause', { mode: 'keep' })).status).toBe(200)
  expect(await command('iso1', 'resume')).toMatchObject({ status: 200, json: { resumed: true } })
  engine.finish()
  for (const answer of answers) expect(await textOf(answer)).toContain('[DONE]')
})

it('a pause with `wait` holds the requests of all isolates and loses none', async () => {
  const before = pauses()
  const answers = await streams()
  const pausing = command('iso0', 'pause', { mode: 'wait' })
  await until(async () => (await poolOf('iso2')).engines[0]!.paused !== undefined)
  const later = ISOLATES.map((isolate) => send(isolate))
  await until(async () => (await poolOf('iso1')).queue?.requests === ISOLATES.length)
  expect(pauses()).toBe(before)
  engine.finish()
  for (const answer of answers) expect(await textOf(answer)).toContain('[DONE]')
  expect(await pausing).toMatchObject({ status: 200, json: { paused: true } })
  expect(pauses()).toBe(before + 1)
  weights.version = 2
  expect((await command('iso2', 'resume')).status).toBe(200)
  await until(() => engine.held.length === ISOLATES.length)
  for (const held of engine.held) {
    held.begin(token('v2 '))
    held.end()
  }
  for (const answer of await Promise.all(later)) expect(await textOf(answer)).toContain('[DONE]')
})

it('a pause with `abort` ends the streams of all isolates, though the engine itself ends none', async () => {
  engine.engine.routes['POST /pause'] = { status: 404 }
  const answers = await streams()
  // It waits until the engine, which cannot be paused, is idle.
  const pausing = command('iso0', 'pause', { mode: 'abort' })
  for (const answer of answers) expect(await textOf(answer)).not.toContain('[DONE]')
  expect(await pausing).toMatchObject({ status: 200, json: { paused: true, engines: [{ state: 'held' }] } })
})
