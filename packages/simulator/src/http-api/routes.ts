import { type Answer, type Incoming, json } from '../answer.ts'
import { chatCompletions } from './chat.ts'
import { completions } from './completions.ts'
import { countTokens, messages } from './messages.ts'
import { type OperatedEngine, operations } from './operations.ts'
import { classify, embeddings, pooling, rerank, score } from './pooling.ts'
import { cancelResponse, createResponse, getResponse } from './responses.ts'
import type { Serving } from './serving.ts'
import { detokenize, tokenize } from './tokenize.ts'
import { transcriptions, translations } from './transcriptions.ts'
import { internalError, noRoute, WireError, wrongMethod } from './wire-error.ts'

/** Parts of the engine that the routes need beyond serving. */
export interface RoutedEngine extends Serving, OperatedEngine {
  readonly load: number
  modelList(): Answer
  metricsText(): string
  /** @param parsed the configuration as an object instead of text */
  serverInfo(parsed: boolean): object
  eventSources(): object
}

type Handler = (engine: RoutedEngine, incoming: Incoming) => Answer | Promise<Answer>

type Methods = Readonly<Record<string, Handler>>

type Table = Readonly<Record<string, Methods>>

const scaleOutDisabled: Handler = () => {
  throw new WireError(
    403,
    'PermissionDeniedError',
    'Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.',
  )
}

const empty: Handler = () => ({ status: 200, headers: {}, body: '' })

const general: Table = {
  '/v1/chat/completions': { POST: chatCompletions },
  '/v1/completions': { POST: completions },
  '/v1/responses': { POST: createResponse },
  '/v1/messages': { POST: messages },
  '/v1/messages/count_tokens': { POST: countTokens },
  '/v1/audio/transcriptions': { POST: transcriptions },
  '/v1/audio/translations': { POST: translations },
  '/tokenize': { POST: tokenize },
  '/detokenize': { POST: detokenize },
  '/v1/models': { GET: (engine) => engine.modelList() },
  '/health': { GET: empty },
  '/ping': { GET: empty, POST: empty },
  '/version': { GET: () => json(200, { version: '0.32.0' }) },
  // Answer of a server without KV events.
  '/kv_event_sources': { GET: (engine) => json(200, engine.eventSources()) },
  '/load': { GET: (engine) => json(200, { server_load: engine.load }) },
  '/metrics': {
    GET: (engine) => ({
      status: 200,
      headers: { 'content-type': 'text/plain; version=1.0.0; charset=utf-8' },
      body: engine.metricsText(),
    }),
  },
  '/v1/chat/completions/render': { POST: scaleOutDisabled },
  '/v1/completions/render': { POST: scaleOutDisabled },
  '/inference/v1/generate': { POST: scaleOutDisabled },
}

const poolingRoutes: Table = {
  '/v1/embeddings': { POST: embeddings },
  '/pooling': { POST: pooling },
  '/classify': { POST: classify },
  '/score': { POST: score },
  '/v1/score': { POST: score },
  '/rerank': { POST: rerank },
  '/v1/rerank': { POST: rerank },
  '/v2/rerank': { POST: rerank },
}

const development: Table = {
  ...operations,
  '/server_info': { GET: (engine, { query }) => json(200, engine.serverInfo(query.get('config_format') === 'json')) },
}

const responsePath = /^\/v1\/responses\/([^/]+)(\/cancel)?$/

function methodsOf(engine: RoutedEngine, path: string): Methods | undefined {
  const fixed =
    general[path] ??
    (engine.settings.pooling ? poolingRoutes[path] : undefined) ??
    (engine.settings.devMode ? development[path] : undefined)
  if (fixed !== undefined) return fixed
  const found = responsePath.exec(path)
  if (found === null) return undefined
  const id = decodeURIComponent(found[1]!)
  return found[2] === undefined ? { GET: (at) => getResponse(at, id) } : { POST: (at) => cancelResponse(at, id) }
}

/** True for inference requests, false for queries and operator commands. */
export const isInference = ({ method, path }: Incoming): boolean =>
  method === 'POST' && development[path] === undefined && path !== '/ping'

/** Finds and calls the handler of a path. Errors become responses in vLLM's format. */
export async function route(engine: RoutedEngine, incoming: Incoming): Promise<Answer> {
  const methods = methodsOf(engine, incoming.path)
  if (methods === undefined) return noRoute()
  const handler = methods[incoming.method]
  if (handler === undefined) return wrongMethod(Object.keys(methods).join(', '))
  try {
    return await handler(engine, incoming)
  } catch (error) {
    // Unexpected errors return 500.
    const known = error instanceof WireError ? error : internalError()
    return known.answer(incoming.path.startsWith('/v1/messages'))
  }
}
