/** Responses recorded from vLLM, as routes of a fake engine. */
import { readFileSync } from 'node:fs'
import { bodyText, type Exchange, type VectorFile } from '../../../packages/bench/conformance/vector.ts'
import type { FakeAnswer, Routes } from '../../kit/fake-answer.ts'
import type { EngineRequest } from '../../kit/engine-request.ts'

/** Any path that a server of FastAPI does not have. */
export const FASTAPI: Routes = { '*': { status: 404, body: { detail: 'Not Found' } } }

interface Recording {
  readonly metrics: string
  readonly server_info: {
    readonly vllm_config: { readonly [section: string]: Readonly<Record<string, unknown>> | null }
  }
  readonly tokenize: { readonly tokens: readonly number[] }
  readonly tokenize_chat: { readonly tokens: readonly number[] }
}

const read = (file: string): string => readFileSync(new URL(file, import.meta.url), 'utf8')
export const recorded = JSON.parse(read('./recorded.json')) as Recording
const exchanges = new Map(
  (JSON.parse(read('../../vectors/openai.json')) as VectorFile).exchanges.map((exchange) => [exchange.name, exchange]),
)

/** Response recorded from vLLM under that name. */
function replayed(name: string): (request: EngineRequest) => FakeAnswer {
  const { response } = exchanges.get(name) as Exchange
  return (request) => ({ status: response.status, body: bodyText(response), headers: echo(request) })
}

/** Effect of `--enable-request-id-headers`. */
const echo = (request: EngineRequest): Record<string, string> => ({
  'x-request-id': String(request.headers['x-request-id']),
})

/** vLLM 0.32 with the flags of the conformance run, as recorded. */
export const realVllm: Routes = {
  'GET /health': replayed('health'),
  'GET /version': replayed('version'),
  'GET /v1/models': replayed('models'),
  'GET /is_paused': replayed('is-paused'),
  'GET /is_sleeping': replayed('is-sleeping'),
  'GET /kv_event_sources': replayed('kv-event-sources'),
  'GET /metrics': { body: recorded.metrics },
  'GET /server_info': { body: recorded.server_info },
  'GET /start_profile': { status: 404, body: { detail: 'Not Found' } },
  'POST /v1/completions': replayed('completion'),
  'POST /tokenize': ({ text }) => ({ body: text.includes('"messages"') ? recorded.tokenize_chat : recorded.tokenize }),
}

/** JSON of a recorded response, for changes. */
export const jsonOf = (name: string): Record<string, unknown> =>
  JSON.parse(bodyText((exchanges.get(name) as Exchange).response)) as Record<string, unknown>
