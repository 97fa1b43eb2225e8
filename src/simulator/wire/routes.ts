import { json, type Answer, type Incoming } from '../answer.ts'
import { chatCompletions } from './chat.ts'
import { operations, type Operated } from './operations.ts'
import type { Serving } from './serving.ts'
import { noRoute, wrongMethod, WireError } from './wire-error.ts'

/** What the routes need beyond serving. */
export interface Routed extends Serving, Operated {
  readonly devMode: boolean
  readonly pooling: boolean
  readonly load: number
  modelList(): Answer
  metricsText(): string
  serverInfo(): object
}

type Handler = (engine: Routed, incoming: Incoming) => Answer | Promise<Answer>
type Methods = Readonly<Record<string, Handler>>

const scaleOutDisabled: Handler = () => {
  throw new WireError(403, 'PermissionDeniedError', 'Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.')
}

const general: Readonly<Record<string, Methods>> = {
  '/v1/chat/completions': { POST: chatCompletions },
  '/v1/models': { GET: (engine) => engine.modelList() },
  '/health': { GET: () => ({ status: 200, headers: {}, body: '' }) },
  '/ping': { GET: () => ({ status: 200, headers: {}, body: '' }), POST: () => ({ status: 200, headers: {}, body: '' }) },
  '/version': { GET: () => json(200, { version: '0.32.0' }) },
  '/load': { GET: (engine) => json(200, { server_load: engine.load }) },
  '/metrics': {
    GET: (engine) => ({
      status: 200,
      headers: { 'content-type': 'text/plain; version=1.0.0; charset=utf-8' },
      body: engine.metricsText(),
    }),
  },
  '/server_info': { GET: (engine) => json(200, engine.serverInfo()) },
  '/v1/chat/completions/render': { POST: scaleOutDisabled },
  '/v1/completions/render': { POST: scaleOutDisabled },
  '/inference/v1/generate': { POST: scaleOutDisabled },
}

/** Is it work, and not a question or an operator's command? */
export const isInference = ({ method, path }: Incoming): boolean => method === 'POST' && operations[path] === undefined && path !== '/ping'

/** Finds and calls the handler of a path. Errors become answers in vLLM's shape. */
export async function route(engine: Routed, incoming: Incoming): Promise<Answer> {
  const methods = general[incoming.path] ?? (engine.devMode ? operations[incoming.path] : undefined)
  if (methods === undefined) return noRoute()
  const handler = methods[incoming.method]
  if (handler === undefined) return wrongMethod(Object.keys(methods).join(', '))
  try {
    return await handler(engine, incoming)
  } catch (error) {
    if (error instanceof WireError) return error.answer(incoming.path.startsWith('/v1/messages'))
    throw error
  }
}
