import type { Ports } from '../../ports.ts'
import type { ProtocolEndpoint } from '../../protocols/protocols.ts'
import type { ResponseStorage } from '../../origin/exchange.ts'
import { type ExchangeParts, InferenceExchange } from '../inference-exchange.ts'
import type { InferenceRequest } from '../inference-request.ts'
import type { RequestHistory } from '../request-history.ts'
import { ownCount } from '../prompt/own-token-count.ts'
import type { Middleware } from './middleware.ts'
import type { StoredResponseParts } from '../stored-responses.ts'

interface OpenExchangeParts extends ExchangeParts, Pick<StoredResponseParts, 'storedResponses'> {
  readonly ports: Pick<Ports, 'random' | 'yieldToEventLoop'>
  /** Requests that the admin API can describe. */
  readonly recent: Pick<RequestHistory, 'add'>
}

/** Smaller bodies are processed without yielding. */
const TURNS_BYTES = 4 * 1024 * 1024

/** Measures the prompt, and opens the exchange with an engine. */
export const openExchange =
  (parts: OpenExchangeParts, { storesResponses }: ProtocolEndpoint): Middleware =>
  (c, next) => {
    const inference = c.get('inference')
    const open = (): void => {
      const exchange = new InferenceExchange(parts, inference, parts.ports.random())
      inference.incoming.logOnStreamEnd = true
      parts.recent.add({ model: inference.model, tenant: inference.caller.tenant, record: exchange.record })
      if (storesResponses) exchange.storage = storageOf(parts, inference)
      const count = ownCount(inference, exchange.source)
      if (count !== undefined) exchange.source.ownAnswer = count
      c.set('exchange', exchange)
      const { logFields } = inference.incoming
      logFields.model = inference.model
      logFields.stream = exchange.stream
    }
    const turn = inference.body.bytes.length < TURNS_BYTES ? undefined : parts.ports.yieldToEventLoop
    if (turn !== undefined) return inTurns(turn, open, next)
    open()
    return next()
  }

const storageOf = (
  { storedResponses: responses }: Pick<OpenExchangeParts, 'storedResponses'>,
  { caller, model }: InferenceRequest,
): ResponseStorage => ({ responses, tenant: caller.tenant, model })

/** Parsing, measuring and sending a long prompt take some 20 ms each, so other requests run in between. */
async function inTurns(turn: () => Promise<void>, open: () => void, next: () => Promise<void>): Promise<void> {
  await turn()
  open()
  await turn()
  await next()
}
