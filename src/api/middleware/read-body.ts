import type { ProtocolEndpoint } from '../../protocols/protocols.ts'
import { parseInferenceRequest, type ParseParts } from '../body/parse-request.ts'
import type { InferenceRequest } from '../inference-request.ts'
import type { Middleware } from './middleware.ts'

/** Reads the body within the limits of the configuration, validates it and finds the pools of its model. */
export const readBody =
  (parts: ParseParts, endpoint: ProtocolEndpoint): Middleware =>
  (request) => {
    const read = (parsed: InferenceRequest): void => void (request.inference = parsed)
    const parsed = parseInferenceRequest(parts, endpoint, request.incoming, request.caller)
    return parsed instanceof Promise ? parsed.then(read) : read(parsed)
  }
