/** Recorded responses of a real engine, for tests without one. */
import { engineFlags, engineKey, servedModel } from '../engine.ts'
import type { RealEngine } from '../engine.ts'
import { dispatch, send } from '../http.ts'
import { metricFamilies } from '../metric-families.ts'
import { normalise } from '../normaliser.ts'
import { record, recordAll, recordFinest, vectorFile } from '../recorder.ts'
import { cacheSteps, mistakes, surface } from '../requests.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { until } from '../until.ts'
import { keepDivision } from '../steady.ts'
import { writeLists, writeVectors } from '../vector.ts'
import type { Exchange } from '../vector.ts'

export const recordings: readonly Row[] = [
  {
    name: 'record-openai',
    says: 'Every endpoint of a text model answers, streaming and not.',
    run: async (lab) => {
      const { url } = await lab.engine('a')
      const exchanges: Exchange[] = []
      for (const [name, request] of Object.entries(surface)) exchanges.push(await recordFinest(url, name, request))
      const refused = exchanges
        .filter(({ response }) => response.status >= 400)
        .map(({ name, response }) => `${name} ${response.status}`)
      check(refused.join() === 'embeddings 404,render 403,generate 403', `refused: ${refused.join(', ')}`)
      return save(lab, 'openai.json', 'What vLLM answers to requests that are right.', exchanges)
    },
  },
  {
    name: 'record-errors',
    says: 'Invalid requests get a status and a body that name the error.',
    run: async (lab) => {
      const exchanges = await recordAll((await lab.engine('a')).url, mistakes)
      const crashed = exchanges.filter(({ response }) => response.status >= 500)
      check(crashed.length === 0, `5xx for ${crashed.map(({ name }) => name).join(', ')}`)
      return save(
        lab,
        'errors.json',
        'What vLLM answers to requests that are wrong; a few that look wrong are accepted.',
        exchanges,
      )
    },
  },
  {
    name: 'record-busy',
    says:
      'Beyond --max-num-queued-reqs the engine returns 503 at once, or, for streams in a burst, 200 and one ' +
      'error event.',
    run: async (lab) => {
      const engine = await lab.engine('a')
      const exchanges = await recordBusy(engine)
      const rejected = await engine.metric('vllm:admission_rejections_total')
      check(
        exchanges.every(({ response }) => response.status === 503),
        `answered ${exchanges.map(({ response }) => response.status).join(', ')}`,
      )
      const burst = await burstOfStreams(engine, lab)
      return (
        `${save(lab, 'busy.json', 'The 503 of an engine with as many requests as it takes.', exchanges)}; ` +
        `admission_rejections_total ${rejected}; of a burst of 24 streams ${burst}`
      )
    },
  },
  {
    name: 'record-cache',
    says: 'cached_tokens counts whole blocks of the same tokens under the same salt.',
    run: async (lab) => {
      const exchanges = await recordAll((await lab.engine('a')).url, cacheSteps)
      const seen = exchanges.map(({ response }) => cachedTokens(response.json)).filter((count) => count !== null)
      return (
        `${await save(lab, 'cache.json', 'Prompts in this order on an empty cache with blocks of 32 tokens.', exchanges)}; ` +
        `cached ${seen.join(' ')}`
      )
    },
  },
  {
    name: 'record-metrics',
    says: 'The gauges and counters that the gateway reads exist under their names.',
    run: async (lab) => {
      const { url } = await lab.engine('a')
      const { body } = await send({ url, method: 'GET', path: '/metrics' })
      const families = metricFamilies(body.toString('utf8')).filter(
        ({ name }) => name.startsWith('vllm:') && !name.endsWith('_created'),
      )
      const names = new Set(families.map(({ name }) => name))
      const missing = metricsWeRead.filter((name) => !names.has(name))
      check(missing.length === 0, `missing: ${missing.join(', ')}`)
      const text = writeLists({
        about: `Metrics of vLLM ${lab.environment.versions.vllm}: names, types and labels.`,
        families,
      })
      return `${families.length} families, ${lab.writeVector('metrics.json', text)}`
    },
  },
]

const metricsWeRead = [
  'vllm:num_requests_running',
  'vllm:num_requests_waiting',
  'vllm:kv_cache_usage_perc',
  'vllm:prefix_cache_queries',
  'vllm:prefix_cache_hits',
  'vllm:cache_config_info',
  'vllm:engine_sleep_state',
  'vllm:prompt_tokens',
  'vllm:generation_tokens',
  'vllm:admission_rejections',
  'vllm:prompt_tokens_by_source',
  'vllm:time_to_first_token_seconds',
  'vllm:request_success',
]

function save(lab: Lab, file: string, about: string, exchanges: readonly Exchange[]): string {
  const steady = keepDivision(lab.readVector(file), exchanges)
  const text = writeVectors(vectorFile(about, lab.environment.versions.vllm ?? 'unknown', engineFlags, steady))
  return `${exchanges.length} exchanges, ${lab.writeVector(file, text)}`
}

/** Fills the engine to its limit of 8 with long responses, then sends two more requests. */
async function recordBusy(engine: RealEngine): Promise<Exchange[]> {
  const body = { model: servedModel, prompt: [11], max_tokens: 3000, temperature: 0, ignore_eos: true, stream: true }
  const ask = {
    url: engine.url,
    method: 'POST',
    path: '/v1/completions',
    headers: { authorization: `Bearer ${engineKey}` },
    body,
  } as const
  const held = Array.from({ length: 8 }, () => dispatch(ask))
  try {
    await until(
      async () =>
        (await engine.metric('vllm:num_requests_running')) + (await engine.metric('vllm:num_requests_waiting')) >= 8,
      'the engine to hold 8 requests',
    )
    const messages = [{ role: 'user', content: 'hello' }]
    return [
      await record(engine.url, 'busy', {
        method: 'POST',
        path: '/v1/chat/completions',
        json: { model: servedModel, messages, max_tokens: 1 },
      }),
      await record(engine.url, 'busy-stream', {
        method: 'POST',
        path: '/v1/completions',
        json: { model: servedModel, prompt: 'hello', max_tokens: 1, stream: true },
      }),
    ]
  } finally {
    for (const request of held) request.destroy()
    await until(async () => (await engine.metric('vllm:num_requests_running')) === 0, 'the engine to be idle')
  }
}

/** More concurrent streams than the engine accepts: those that it rejects after its 200 end in an error event. */
async function burstOfStreams({ url }: RealEngine, lab: Lab): Promise<string> {
  const messages = [{ role: 'user', content: 'hello' }]
  const body = { model: servedModel, messages, max_tokens: 8, temperature: 0, stream: true }
  const ask = {
    url,
    method: 'POST',
    path: '/v1/chat/completions',
    headers: { authorization: `Bearer ${engineKey}`, 'x-request-id': 'busy' },
    body,
  } as const
  const answers = await Promise.all(Array.from({ length: 24 }, () => send(ask)))
  const late = answers.filter(({ status, body: text }) => status === 200 && text.includes('"error"'))
  if (late.length > 0) lab.writeVector('sse/busy.sse', normalise(late[0]!.body.toString('utf8')))
  return `${answers.filter(({ status }) => status === 503).length} got 503, ${late.length} got 200 and the error`
}

function cachedTokens(body: unknown): number | null {
  const usage = (body as { usage?: { prompt_tokens_details?: { cached_tokens?: number } } } | undefined)?.usage
  return usage?.prompt_tokens_details?.cached_tokens ?? null
}
