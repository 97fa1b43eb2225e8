/** Streams whose engine fails, on two real engines: each is compared with the same stream without a failure. */
import { readFileSync } from 'node:fs'
import { servedModel } from '../engine.ts'
import type { GatewayKind, RunningGateway } from '../gateway.ts'
import { open, send, sendJson } from '../http.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { until } from '../until.ts'
import { dataOf } from '../vector.ts'
import { direct, withKey } from './asks.ts'
import { usageOf } from './ask-stream.ts'
import { asAdmin, sendAsAdmin } from './decisions.ts'

const STREAMS = 20
const OUTPUT_TOKENS = 2000
/** Events of each stream after which the engine fails. */
const EVENTS_BEFORE = 10
/** Streams that must have moved for the row to say anything: some end before the fault, or begin elsewhere. */
const MIN_MOVED = 5
const VICTIM = 'wide-a'
const FINISHED_MS = 300_000
/**
 * Ids of the vocabulary whose text is whole characters. Random weights write single bytes, too, that are no text: their
 * replacement characters depend on where an engine begins to decode.
 */
const WORD_IDS = Array.from({ length: 1700 }, (_, at) => 300 + at)

type Fault = 'drain' | 'sigterm' | 'api' | 'core' | 'worker' | 'sigstop'

const faults: Readonly<Record<Fault, string>> = {
  drain: 'is drained with a deadline',
  sigterm: 'gets SIGTERM',
  api: 'loses its API process (SIGKILL)',
  core: 'loses its engine core (SIGKILL)',
  worker: 'loses its worker process (SIGKILL)',
  sigstop: 'is stopped (SIGSTOP)',
}

export function continuationRows(kind: GatewayKind): Row[] {
  return (Object.keys(faults) as Fault[]).map((fault) => ({
    name: `${kind}-continues-${fault}`,
    says:
      `When the engine of most of ${STREAMS} streams ${faults[fault]} (${kind}), the other engine continues them: ` +
      'greedy ones equal those without a failure, and each text is that of its token ids.',
    run: (lab) => failed(lab, kind, fault),
  }))
}

/** Half are chats, half are greedy, half ask for token ids. The others have a temperature and a seed. */
function askOf(at: number): { readonly path: string; readonly body: object } {
  const text = `Stream ${at}: write about ${['rivers', 'bread', 'winter', 'glass', 'horses'][at % 5]} and ${at * 7919}.`
  const isChat = at % 2 === 0
  const common = {
    model: servedModel,
    max_tokens: OUTPUT_TOKENS,
    ignore_eos: true,
    allowed_token_ids: WORD_IDS,
    stream: true,
    stream_options: { include_usage: true },
    ...(isGreedy(at) ? { temperature: 0 } : { temperature: 0.8, seed: at }),
    ...(asksForIds(at) ? { return_token_ids: true } : {}),
  }
  return isChat
    ? { path: '/v1/chat/completions', body: { ...common, messages: [{ role: 'user', content: text }] } }
    : { path: '/v1/completions', body: { ...common, prompt: text } }
}

const isGreedy = (at: number): boolean => at < STREAMS / 2
const asksForIds = (at: number): boolean => at % 4 < 2

interface StreamOutput {
  readonly text: string
  /** Token ids of the output; empty unless the client asked for them. */
  readonly ids: readonly number[]
  /** Violations of what a whole stream is; empty: none. */
  readonly faults: readonly string[]
}

interface Choice {
  readonly text?: string
  readonly delta?: { readonly content?: string }
  readonly token_ids?: readonly number[] | null
  readonly finish_reason?: string | null
}

interface Event {
  readonly id?: string
  readonly error?: unknown
  readonly choices?: readonly Choice[]
}

/** Runs all streams at once in one session. `reached` is called when each of them has EVENTS_BEFORE events. */
async function runAll(gateway: RunningGateway, session: string, reached: () => void): Promise<StreamOutput[]> {
  let waiting = STREAMS
  return Promise.all(
    Array.from({ length: STREAMS }, async (_, at) => {
      const { path, body } = askOf(at)
      const headers = withKey({ 'x-session-id': session })
      const { response } = await open({
        url: gateway.url,
        method: 'POST',
        path,
        headers,
        body,
        limitMs: FINISHED_MS,
      })
      let received = ''
      let events = 0
      for await (const piece of response.setEncoding('utf8')) {
        received += String(piece)
        const before = events
        events += String(piece).split('data: ').length - 1
        if (before < EVENTS_BEFORE && events >= EVENTS_BEFORE && --waiting === 0) reached()
      }
      check(response.statusCode === 200, `stream ${at}: ${response.statusCode} ${received.slice(0, 200)}`)
      return receivedOf(received, at)
    }),
  )
}

function receivedOf(received: string, at: number): StreamOutput {
  const data = dataOf(received)
  const events = data.filter((one) => one !== '[DONE]') as Event[]
  const choices = events.flatMap((event) => event.choices ?? [])
  const ids = choices.flatMap(({ token_ids: some }) => some ?? [])
  const error = events.find((event) => event.error !== undefined)
  const finish = choices.flatMap(({ finish_reason: reason }) => (typeof reason === 'string' ? [reason] : []))
  const names = new Set(events.map(({ id }) => id))
  const found = [
    error === undefined ? '' : `an error event ${JSON.stringify(error.error).slice(0, 120)}`,
    data.filter((one) => one === '[DONE]').length === 1 && data.at(-1) === '[DONE]' ? '' : 'not one [DONE] at its end',
    finish.join() === 'length' ? '' : `finish reasons "${finish.join()}"`,
    names.size === 1 ? '' : `${names.size} ids`,
    asksForIds(at) || ids.length === 0 ? '' : 'token ids that the client did not ask for',
    !asksForIds(at) || ids.length === OUTPUT_TOKENS ? '' : `${ids.length} token ids`,
  ].filter((one) => one !== '')
  const tokens = error === undefined ? usageOf(received).completion_tokens : OUTPUT_TOKENS
  if (tokens !== OUTPUT_TOKENS) found.push(`usage of ${tokens} tokens`)
  const text = choices.map((choice) => choice.text ?? choice.delta?.content ?? '').join('')
  return { text, ids, faults: found.map((what) => `stream ${at}: ${what}`) }
}

/**
 * A session whose requests the victim serves, unless it is much busier than the other engine, once both engines are
 * available.
 */
async function sessionOfVictim(gateway: RunningGateway): Promise<string> {
  await until(
    async () => {
      await askBriefly(gateway, 'any')
      const { pools } = await asAdmin<{ pools: { engines: { available: boolean }[] }[] }>(
        gateway,
        '/v1/firstlight/fleet',
      )
      return pools[0]!.engines.length === 2 && pools[0]!.engines.every(({ available }) => available)
    },
    'both engines to be available',
    { limitMs: 120_000, everyMs: 500 },
  )
  for (let at = 0; at < 64; at++) {
    const session = `session-${at}`
    if ((await askBriefly(gateway, session)) === VICTIM) return session
  }
  throw new Error(`none of 64 sessions went to ${VICTIM}`)
}

/** Returns the engine of a short request. On Workers, checks of engines follow requests. */
async function askBriefly(gateway: RunningGateway, session: string): Promise<string | undefined> {
  const { headers } = await send({
    url: gateway.url,
    method: 'POST',
    path: '/v1/completions',
    headers: withKey({ 'x-session-id': session }),
    body: { model: servedModel, prompt: 'hello', max_tokens: 1 },
  })
  return headers['x-firstlight-engine']
}

/** By gateway: texts that were equal in two runs without a failure; null where they differed. */
const wholeTexts = new WeakMap<RunningGateway, Promise<(string | null)[]>>()

async function twice(gateway: RunningGateway, session: string): Promise<(string | null)[]> {
  const first = await runAll(gateway, session, () => {})
  const second = await runAll(gateway, session, () => {})
  const wrong = [...first, ...second].flatMap((one) => one.faults)
  check(wrong.length === 0, `without a failure: ${wrong.slice(0, 3).join('; ')}`)
  return first.map(({ text }, at) => (text === second[at]!.text ? text : null))
}

async function failed(lab: Lab, kind: GatewayKind, fault: Fault): Promise<string> {
  const victim = await lab.engine(VICTIM)
  const gateway = await lab.gateway(kind, 'continued')
  const session = await sessionOfVictim(gateway)
  let whole = wholeTexts.get(gateway)
  if (whole === undefined) wholeTexts.set(gateway, (whole = twice(gateway, session)))
  const texts = await whole
  const before = continued(gateway)
  let begun: Promise<unknown> | null = null
  try {
    const all = await runAll(gateway, session, () => (begun = strike(gateway, victim.process!, fault)))
    await begun
    const wrong = all.flatMap((one) => one.faults)
    check(wrong.length === 0, wrong.slice(0, 3).join('; '))
    const moved = continued(gateway) - before
    check(moved >= MIN_MOVED, `only ${moved} of ${STREAMS} streams were continued`)
    return `${moved} of ${STREAMS} streams continued; ${await comparedWith(lab, texts, all)}`
  } finally {
    // The next row starts it again, at the same address.
    if (fault !== 'drain') await victim.stop()
    else await sendAsAdmin(gateway, `/v1/firstlight/engines/${VICTIM}/undrain`)
  }
}

async function strike(gateway: RunningGateway, victim: { kill: Kill }, fault: Fault): Promise<void> {
  if (fault === 'drain') await sendAsAdmin(gateway, `/v1/firstlight/engines/${VICTIM}/drain?deadline_s=0`)
  else if (fault === 'sigterm') victim.kill('SIGTERM', 'vllm serve')
  else if (fault === 'api') victim.kill('SIGKILL', 'vllm serve')
  else if (fault === 'core') victim.kill('SIGKILL', 'VLLM::EngineCore')
  else if (fault === 'worker') victim.kill('SIGKILL', 'VLLM::Worker')
  else victim.kill('SIGSTOP')
}

type Kill = (signal: NodeJS.Signals, title?: string) => void

async function comparedWith(
  lab: Lab,
  whole: readonly (string | null)[],
  truncated: readonly StreamOutput[],
): Promise<string> {
  const greedy = truncated.flatMap(({ text }, at) => (isGreedy(at) && whole[at] !== null ? [text === whole[at]] : []))
  const equal = greedy.filter(Boolean).length
  const other = await lab.engine('wide-b')
  let ofIds = 0
  const withIds = truncated.filter(({ ids }) => ids.length > 0)
  for (const { ids, text } of withIds) {
    const { prompt } = await sendJson<{ prompt: string }>(
      direct(other, { model: servedModel, tokens: ids }, '/detokenize'),
    )
    if (prompt === text) ofIds += 1
  }
  const seen =
    `${equal} of ${greedy.length} greedy streams that are equal in two runs equal those without a failure; ` +
    `${ofIds} of ${withIds.length} texts are those of their ids`
  check(equal === greedy.length && ofIds === withIds.length, seen)
  return seen
}

/** Streams that another engine continued, or repeated because there was no output yet. */
const continued = ({ process: running }: RunningGateway): number =>
  readFileSync(running.logFile, 'utf8').split('"event":"stream_continued"').length - 1
