import type { ProtocolEndpoint } from '../../protocols/protocols.ts'
import { parseInferenceRequest, type ParseParts } from '../body/parse-request.ts'
import type { Middleware } from './middleware.ts'

/** Reads the body within the limits of the configuration, validates it and finds the pools of its model. */
export const readBody =
  (parts: ParseParts, endpoint: ProtocolEndpoint): Middleware =>
  async (c, next) => {
    c.set('inference', await parseInferenceRequest(parts, endpoint, c.get('incoming'), c.get('caller')))
    await next()
  }
