/** Speech uploads to a real engine, directly and through the gateway. */
import { fileURLToPath } from 'node:url'
import OpenAI, { BadRequestError, NotFoundError, toFile } from 'openai'
import { engineFlags, engineKey, servedModel } from '../engine.ts'
import { earFlags } from '../fleets.ts'
import { fileBytes, formBytes, formType } from '../form.ts'
import { alias, gatewayKey } from '../gateway.ts'
import type { GatewayKind } from '../gateway.ts'
import { dispatch, send } from '../http.ts'
import { differences } from '../likeness.ts'
import { record, recordAll, vectorFile } from '../recorder.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import {
  endlessSpeech,
  hostileSpeech,
  refusedSpeech,
  speech,
  speechMistakes,
  tooMuchSpeech,
  transcriptions,
} from '../speech.ts'
import { until } from '../until.ts'
import { bodyText, writeVectors } from '../vector.ts'
import type { RecordedRequest } from '../vector.ts'
import { withKey } from './asks.ts'

const firstlight = fileURLToPath(new URL('../../../../bin/firstlight.mjs', import.meta.url))

export const uploadRecording: Row = {
  name: 'record-uploads',
  says:
    'Speech is transcribed and translated, streamed and not; invalid forms get a status and a body that name the ' +
    'error.',
  run: async (lab) => {
    const { url } = await lab.engine('ear')
    const right = await recordAll(url, speech)
    const refused = right
      .filter(({ response }) => response.status !== 200 || bodyText(response).includes('"error"'))
      .map(({ name }) => name)
    check(refused.length === 0, `refused: ${refused.join(', ')}`)
    const wrong = await recordAll(url, speechMistakes)
    const text = writeVectors(
      vectorFile(
        'What vLLM answers to uploads of sound, to a Whisper with made-up weights.',
        lab.environment.versions.vllm ?? 'unknown',
        [...engineFlags, ...earFlags],
        [...right, ...wrong],
      ),
    )
    return (
      `${right.length + wrong.length} exchanges, ${lab.writeVector('uploads.json', text)}; ` +
      `${wrong.filter(({ response }) => response.status >= 400).length} of ${wrong.length} mistakes refused`
    )
  },
}

export const earDoctor: Row = {
  name: 'doctor-ear',
  says: 'firstlight doctor reports no problem for a Whisper engine, and suggests no flag that would crash it.',
  run: async (lab) => {
    const { url } = await lab.engine('ear')
    const report = await lab.processes.output([process.execPath, firstlight, 'doctor', url, '--key', engineKey])
    check(
      /prefix caching +off, as required/.test(report) && !/--enable-prefix-caching|kv-events-config|✗/.test(report),
      report,
    )
    return report.split('\n').at(-1)!
  },
}

export function uploadRows(kind: GatewayKind): Row[] {
  return [
    {
      name: `${kind}-uploads`,
      says:
        `Speech through the gateway (${kind}) gets the engine's response, streamed and not, under model name and ` +
        'alias, with its errors byte for byte, also for a file of 27 MB.',
      run: async (lab) => sameAnswers(lab, kind),
    },
    {
      name: `${kind}-uploads-refused`,
      says:
        'Forms without a model, for another one, with two, or with transfer parameters are rejected by the ' +
        `gateway (${kind}) and reach no engine.`,
      run: async (lab) => refusals(lab, kind),
    },
    {
      name: `${kind}-uploads-abort`,
      says: `A client disconnect in the middle of a transcript (${kind}) frees the engine.`,
      run: async (lab) => abort(lab, kind),
    },
    {
      name: `${kind}-uploads-sdk`,
      says: `The openai SDK transcribes and translates speech through the gateway (${kind}), and throws its own errors.`,
      run: async (lab) => sdk(lab, kind),
    },
  ]
}

async function sameAnswers(lab: Lab, kind: GatewayKind): Promise<string> {
  const gateway = await lab.gateway(kind, 'ear')
  const engine = await lab.engine('ear')
  const requests = Object.entries({ ...speech, ...speechMistakes, 'speech-too-much': tooMuchSpeech }).filter(
    ([name]) => refusedSpeech[name] === undefined,
  )
  const unlike: string[] = []
  for (const [name, request] of requests) {
    const [direct, through, aliased] = [
      await record(engine.url, name, request),
      await record(gateway.url, name, request, gatewayKey),
      await record(gateway.url, name, renamed(request), gatewayKey),
    ]
    for (const { response } of [through, aliased]) {
      for (const difference of differences(direct.response, response, { made: false, counted: false }))
        unlike.push(`${name}: ${difference}`)
      if (direct.response.status >= 400 && bodyText(response) !== bodyText(direct.response))
        unlike.push(`${name}: ${bodyText(response).slice(0, 100)}`)
    }
  }
  check(unlike.length === 0, unlike.join('; '))
  return `${requests.length} exchanges alike, and again under the alias`
}

function renamed({ form = [], ...rest }: RecordedRequest): RecordedRequest {
  return { ...rest, form: form.map(([name, value]) => [name, name === 'model' ? alias : value] as const) }
}

async function refusals(lab: Lab, kind: GatewayKind): Promise<string> {
  const gateway = await lab.gateway(kind, 'ear')
  const engine = await lab.engine('ear')
  const countRequests = async () =>
    (await engine.metric('http_requests_total', { handler: transcriptions })) +
    (await engine.metric('http_requests_total', { handler: '/v1/audio/translations' }))
  const before = await countRequests()
  const requests = [
    ...Object.entries(refusedSpeech).map(([name, status]) => [name, status, speechMistakes[name]!] as const),
    ...Object.entries(hostileSpeech).map(([name, [status, request]]) => [name, status, request] as const),
  ]
  const unlike: string[] = []
  for (const [name, status, request] of requests) {
    const { response } = await record(gateway.url, name.replaceAll(' ', '-'), request, gatewayKey)
    const error = (response.json as { error?: { message?: unknown; code?: unknown } } | undefined)?.error
    if (response.status !== status || typeof error?.message !== 'string' || typeof error.code !== 'string')
      unlike.push(`${name}: ${response.status} ${bodyText(response).slice(0, 100)}`)
  }
  check(unlike.length === 0, unlike.join('; '))
  // The engine has counted the upload by now.
  await record(gateway.url, 'counted', speech['speech']!, gatewayKey)
  const reached = (await countRequests()) - before
  check(reached === 1, `the engine was asked ${reached - 1} times`)
  return `${requests.length} refusals, none of which the engine saw`
}

async function abort(lab: Lab, kind: GatewayKind): Promise<string> {
  const gateway = await lab.gateway(kind, 'ear')
  const engine = await lab.engine('ear')
  const running = () => engine.metric('vllm:num_requests_running')
  const before = await engine.metric('vllm:generation_tokens_total')
  const request = dispatch({
    url: gateway.url,
    method: 'POST',
    path: transcriptions,
    headers: withKey({ 'content-type': formType }),
    body: formBytes(endlessSpeech.form!),
  })
  await until(async () => (await running()) > 0, 'the request to run', { everyMs: 0 })
  request.destroy()
  const freed = await until(async () => (await running()) === 0, 'the engine to be free', { everyMs: 0 })
  const generated = (await engine.metric('vllm:generation_tokens_total')) - before
  const whole = await send({
    url: gateway.url,
    method: 'POST',
    path: transcriptions,
    headers: withKey({ 'content-type': formType }),
    body: formBytes(endlessSpeech.form!),
  })
  const all = (await engine.metric('vllm:generation_tokens_total')) - before - generated
  check(whole.status === 200 && generated < all, `${generated} tokens, ${all} to the end`)
  return `free ${Math.round(freed)} ms later, after ${generated} of ${all} tokens`
}

async function sdk(lab: Lab, kind: GatewayKind): Promise<string> {
  const gateway = await lab.gateway(kind, 'ear')
  const { audio } = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: gatewayKey, maxRetries: 0, timeout: 60_000 })
  const file = await toFile(fileBytes({ sound: 40 }), 'talk.wav')
  // Some of them are vLLM's own.
  const ask = { file, model: servedModel, language: 'en', temperature: 1, seed: 7, max_completion_tokens: 12 }
  const whole = await audio.transcriptions.create({ ...ask, response_format: 'json' })
  let text = ''
  const stream = await audio.transcriptions.create({ ...ask, stream: true })
  for await (const event of stream as unknown as AsyncIterable<{ choices: { delta: { content?: string } }[] }>)
    text += event.choices[0]?.delta.content ?? ''
  check(
    text === whole.text && text.length > 0,
    `the stream returned ${JSON.stringify(text)}, the answer in one piece ${JSON.stringify(whole.text)}`,
  )
  const verbose = await audio.transcriptions.create({ ...ask, response_format: 'verbose_json' })
  const translated = await audio.translations.create(ask)
  check(translated.text.length > 0, 'no translation')
  const mistakes = [
    ['unknown model', NotFoundError, () => audio.transcriptions.create({ ...ask, model: 'nope' })],
    [
      'no sound',
      BadRequestError,
      async () => audio.transcriptions.create({ ...ask, file: await toFile(Buffer.from('hello'), 'talk.wav') }),
    ],
  ] as const
  for (const [what, Class, refused] of mistakes) {
    const error = await refused().then(
      () => null,
      (thrown: unknown) => thrown,
    )
    check(error instanceof Class, `${what}: ${String(error)}`)
  }
  return (
    `stream = whole answer; ${verbose.segments?.length ?? 0} segments of ${verbose.duration} s; translated; ` +
    `${mistakes.map(([what, Class]) => `${what}: ${Class.name}`).join(', ')}`
  )
}
