/** How a proxy passes bodies to the picker, by the modes that its first message names. */
import { GRPC, GrpcError } from '../grpc/grpc-status.ts'
import { BODY_MODE, type ProcessingRequest } from '../grpc/processing-request.ts'

export interface BodyModes {
  /** `duplex`: pieces in, pieces out, in any number. `buffered`: one message, one answer. */
  readonly request: 'duplex' | 'buffered'
  /** `each`: each message of the body needs one answer. `none`: the body does not pass through the picker. */
  readonly response: 'duplex' | 'each' | 'none'
}

const RESPONSES: Readonly<Record<number, BodyModes['response']>> = {
  [BODY_MODE.none]: 'none',
  [BODY_MODE.streamed]: 'each',
  [BODY_MODE.buffered]: 'each',
  [BODY_MODE.bufferedPartial]: 'each',
  [BODY_MODE.fullDuplex]: 'duplex',
}

/** Throws a GrpcError for modes without which no engine can be chosen. */
export function bodyModesOf({ protocolConfig, observes, endOfStream }: ProcessingRequest): BodyModes {
  if (observes) throw unfit('observability_mode is on, so the proxy ignores the chosen engine. Turn it off.')
  // Proxies before Envoy 1.33 do not send their modes, and have no full duplex.
  const { requestBodyMode, responseBodyMode } = protocolConfig ?? NO_CONFIG
  const response = RESPONSES[responseBodyMode]
  if (response === undefined) throw unfit(`response_body_mode ${responseBodyMode} is not supported.`)
  if (requestBodyMode === BODY_MODE.fullDuplex) return { request: 'duplex', response }
  if (requestBodyMode === BODY_MODE.buffered || endOfStream) return { request: 'buffered', response }
  throw unfit('The picker needs the body of the request. Set request_body_mode to FULL_DUPLEX_STREAMED or BUFFERED.')
}

const NO_CONFIG = { requestBodyMode: BODY_MODE.buffered, responseBodyMode: BODY_MODE.none } as const

const unfit = (message: string): GrpcError => new GrpcError(GRPC.failedPrecondition, message)
