import type { ProtocolEndpoint } from '../../protocols/protocols.ts'
import { parseInferenceRequest, type ParseParts } from '../body/parse-request.ts'
import type { InferenceRequest } from '../inference-request.ts'
import type { Middleware } from './middleware.ts'

/** Reads the body within the limits of the configuration, validates it and finds the pools of its model. */
export const readBody =
  (parts: ParseParts, endpoint: ProtocolEndpoint): Middleware =>
  (c, next) => {
    const inference = parseInferenceRequest(parts, endpoint, c.get('incoming'), c.get('caller'))
    if (inference instanceof Promise) return inference.then((late) => pass(c, next, late))
    return pass(c, next, inference)
  }

function pass(c: Parameters<Middleware>[0], next: () => Promise<void>, inference: InferenceRequest): Promise<void> {
  c.set('inference', inference)
  return next()
}
