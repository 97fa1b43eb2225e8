/** A client gets through the gateway what the engine sent. */
import { alias, gatewayKey } from '../gateway.ts'
import type { GatewayKind } from '../gateway.ts'
import { send, sendJson } from '../http.ts'
import { servedModel } from '../engine.ts'
import { differences } from '../likeness.ts'
import { record } from '../recorder.ts'
import { mistakes, surface } from '../requests.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { bodyText, dataOf } from '../vector.ts'
import type { RecordedRequest } from '../vector.ts'
import { until } from '../until.ts'
import { withKey } from './asks.ts'

type Requests = Readonly<Record<string, RecordedRequest>>

/** Internal endpoints of engines: the gateway returns 404. */
const closed = [
  '/ping',
  '/load',
  '/kv_event_sources',
  '/v1/chat/completions/render',
  '/is_sleeping',
  '/is_paused',
  '/pause',
  '/resume',
  '/reset_prefix_cache',
]

/** Responses of the gateway itself, without a request to an engine. */
const ownAnswers: Readonly<Record<string, number>> = {
  'no-key': 401,
  'wrong-key': 401,
  'no-key-messages': 401,
  'bad-json': 400,
  'empty-body': 400,
  'array-body': 400,
  'unknown-model': 404,
  'unknown-model-stream': 404,
  'unknown-model-completion': 404,
  'unknown-model-responses': 404,
  'unknown-model-messages': 404,
  'unknown-model-tokenize': 404,
  'no-model': 400,
  'unknown-route': 404,
  'wrong-method': 405,
  'wrong-method-models': 405,
  'stream-string': 400,
  'messages-bad-json': 400,
}

/** JSON that the client calls text: the gateway sends every JSON body as JSON. */
const repaired = new Set(['not-json'])

export function forwardingRows(kind: GatewayKind): Row[] {
  return [
    {
      name: `${kind}-same-answers`,
      says: `Through the gateway (${kind}) every endpoint returns the engine's status, fields, text and usage.`,
      run: async (lab) => {
        const unlike = await compareWithEngine(lab, (await lab.gateway(kind)).url, passed.answers)
        check(unlike.length === 0, unlike.join('; '))
        return `${Object.keys(passed.answers).length} exchanges alike`
      },
    },
    {
      name: `${kind}-same-errors`,
      says: `The gateway (${kind}) forwards an engine's error with its status and body, byte for byte.`,
      run: async (lab) => {
        const unlike = await compareWithEngine(lab, (await lab.gateway(kind)).url, passed.errors)
        check(unlike.length === 0, unlike.join('; '))
        return `${Object.keys(passed.errors).length} exchanges alike`
      },
    },
    {
      name: `${kind}-own-errors`,
      says: `Errors of the gateway (${kind}) itself have OpenAI's format and the right status.`,
      run: async (lab) => ownErrors(lab, kind),
    },
    {
      name: `${kind}-closed`,
      says:
        `Only the model endpoints of an engine can be reached through the gateway (${kind}), and no header shows ` +
        'its address.',
      run: async (lab) => {
        const gateway = await lab.gateway(kind)
        const leaks: string[] = []
        for (const path of [
          ...closed,
          '/sleep',
          '/collective_rpc',
          '/v1/load_lora_adapter',
          '/server_info',
          '//pause',
          '/v1/../pause',
          '/v1/%2e%2e/pause',
        ]) {
          for (const method of ['GET', 'POST'] as const) {
            const { status } = await send({
              url: gateway.url,
              method,
              path,
              headers: withKey({}),
              ...(method === 'POST' ? { body: { model: servedModel } } : {}),
            })
            if (status !== 404 && status !== 405) leaks.push(`${method} ${path} ${status}`)
          }
        }
        check(leaks.length === 0, leaks.join(', '))
        const { headers, body } = await send({
          url: gateway.url,
          method: 'POST',
          path: '/v1/completions',
          headers: withKey({}),
          body: completionBody,
        })
        const received = JSON.stringify(headers) + body.toString('utf8')
        for (const name of ['a', 'b'] as const)
          check(
            !received.includes(new URL((await lab.engine(name)).url).host),
            `the address of engine ${name} is in the answer`,
          )
        return 'all 404 or 405'
      },
    },
    {
      name: `${kind}-usage`,
      says:
        `A stream through the gateway (${kind}) ends in [DONE] and has usage only if requested; the engine ` +
        'counts the same tokens.',
      run: async (lab) => streamUsage(lab, kind),
    },
    {
      name: `${kind}-alias`,
      says: `An alias reaches the model through the gateway (${kind}), and the model list names both.`,
      run: async (lab) => {
        const gateway = await lab.gateway(kind)
        const answer = await sendJson<{ model: string }>({
          url: gateway.url,
          method: 'POST',
          path: '/v1/completions',
          headers: withKey({}),
          body: { ...completionBody, model: alias },
        })
        const list = await sendJson<{ data: { id: string }[] }>({
          url: gateway.url,
          method: 'GET',
          path: '/v1/models',
          headers: withKey({}),
        })
        const ids = list.data
          .map(({ id }) => id)
          .sort()
          .join(' ')
        check(ids === [alias, servedModel].sort().join(' '), `models: ${ids}`)
        return `answered as ${answer.model}; models ${ids}`
      },
    },
    {
      name: `${kind}-both-work`,
      says: `Both engines get requests from the gateway (${kind}), by their own counters.`,
      run: async (lab) => {
        const gateway = await lab.gateway(kind)
        const engines = [await lab.engine('a'), await lab.engine('b')]
        const served = () => Promise.all(engines.map((engine) => engine.metric('vllm:request_success_total')))
        const before = await served()
        const asks = Array.from({ length: 12 }, () =>
          send({
            url: gateway.url,
            method: 'POST',
            path: '/v1/completions',
            headers: withKey({}),
            body: completionBody,
          }),
        )
        const statuses = (await Promise.all(asks)).map(({ status }) => status)
        check(
          statuses.every((status) => status === 200),
          `statuses ${statuses.join(' ')}`,
        )
        await until(
          async () => (await served()).reduce((sum, count, at) => sum + count - before[at]!, 0) >= 12,
          'the engines to count 12 requests',
          { limitMs: 5000 },
        )
        const each = (await served()).map((count, at) => count - before[at]!)
        check(
          each.every((count) => count >= 4),
          `12 requests went ${each.join(' and ')}`,
        )
        return `12 requests: ${each.join(' and ')}`
      },
    },
    {
      name: `${kind}-stateful`,
      says: `A stored response is found and continued through the gateway (${kind}) on the engine that has it.`,
      run: async (lab) => stateful(lab, kind),
    },
  ]
}

const completionBody = { model: servedModel, prompt: 'hello', max_tokens: 4, temperature: 0, ignore_eos: true }

/** Requests that reach an engine, and whose responses are forwarded unchanged. */
export const passed = {
  answers: pick(
    surface,
    (name, { path }) => !closed.includes(path) && !['health', 'version', 'models', 'chat-load-report'].includes(name),
  ),
  errors: pick(
    mistakes,
    (name) => ownAnswers[name] === undefined && !repaired.has(name) && !name.includes('response-unknown'),
  ),
}

function pick(requests: Requests, wanted: (name: string, request: RecordedRequest) => boolean): Requests {
  return Object.fromEntries(Object.entries(requests).filter(([name, request]) => wanted(name, request)))
}

/** Differences between responses from `url` and engine a's own. */
export async function compareWithEngine(lab: Lab, url: string, requests: Requests): Promise<string[]> {
  const engine = await lab.engine('a')
  const unlike: string[] = []
  for (const [name, request] of Object.entries(requests)) {
    const began = performance.now()
    const direct = await record(engine.url, name, request)
    const through = await record(url, name, request, gatewayKey)
    const seconds = (performance.now() - began) / 1000
    if (seconds > 3) lab.note(`  ${name} took ${seconds.toFixed(1)} s`)
    for (const difference of differences(direct.response, through.response, { made: false, counted: true }))
      unlike.push(`${name}: ${difference}`)
  }
  return unlike
}

async function ownErrors(lab: Lab, kind: GatewayKind): Promise<string> {
  const gateway = await lab.gateway(kind)
  const unlike: string[] = []
  for (const [name, status] of Object.entries(ownAnswers)) {
    const { response } = await record(gateway.url, name, mistakes[name]!, gatewayKey)
    const error = (response.json as { error?: { message?: unknown; type?: unknown } } | undefined)?.error
    if (response.status !== status) unlike.push(`${name}: status ${response.status}, not ${status}`)
    if (typeof error?.message !== 'string' || typeof error.type !== 'string')
      unlike.push(`${name}: ${bodyText(response).slice(0, 100)}`)
  }
  check(unlike.length === 0, unlike.join('; '))
  return `${Object.keys(ownAnswers).length} refusals`
}

async function streamUsage(lab: Lab, kind: GatewayKind): Promise<string> {
  const gateway = await lab.gateway(kind)
  const ask = async (more: object) => {
    const { body } = await send({
      url: gateway.url,
      method: 'POST',
      path: '/v1/completions',
      headers: withKey({}),
      body: { ...completionBody, stream: true, ...more },
    })
    const data = dataOf(body.toString('utf8'))
    check(data.at(-1) === '[DONE]', `ends in ${JSON.stringify(data.at(-1))}`)
    return data.flatMap((entry) => (entry as { usage?: object }).usage ?? [])
  }
  const silent = await ask({})
  check(silent.length === 0, 'usage came unasked')
  const usage = await ask({ stream_options: { include_usage: true } })
  const seen = JSON.stringify(usage)
  check(
    usage.length === 1 && seen.includes('"completion_tokens":4') && seen.includes('"total_tokens"'),
    `usage ${seen}`,
  )
  return seen.slice(1, -1)
}

async function stateful(lab: Lab, kind: GatewayKind): Promise<string> {
  const gateway = await lab.gateway(kind)
  const ask = { url: gateway.url, headers: withKey({}) }
  const body = { model: servedModel, input: 'hello', max_output_tokens: 4, temperature: 0 }
  for (let round = 0; round < 4; round++) {
    const first = await sendJson<{ id: string }>({ ...ask, method: 'POST', path: '/v1/responses', body })
    const again = await sendJson<{ id: string }>({ ...ask, method: 'GET', path: `/v1/responses/${first.id}` })
    check(again.id === first.id, `asked for ${first.id}, got ${again.id}`)
    const next = await sendJson<{ previous_response_id: string }>({
      ...ask,
      method: 'POST',
      path: '/v1/responses',
      body: { ...body, previous_response_id: first.id },
    })
    check(next.previous_response_id === first.id, `continued ${next.previous_response_id}`)
  }
  const { status, body: refusal } = await send({ ...ask, method: 'GET', path: '/v1/responses/resp_0000000000000000' })
  check(status === 404, `an unknown response got ${status}: ${refusal.toString('utf8').slice(0, 150)}`)
  return '4 of 4 found and continued; an unknown one 404'
}
