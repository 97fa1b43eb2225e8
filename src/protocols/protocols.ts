/** All wire protocols, and the one that a path belongs to. */
import { audio } from './audio.ts'
import { imageEdits } from './image-edits.ts'
import { chat } from './chat.ts'
import { completions } from './completions.ts'
import { embeddings, pooling } from './embeddings.ts'
import { generate } from './generate.ts'
import { images } from './images.ts'
import { speech } from './speech.ts'
import { messages } from './messages.ts'
import type { Endpoint, Protocol } from './protocol.ts'
import { rerank } from './rerank.ts'
import { responses } from './responses.ts'
import { score } from './score.ts'
import { detokenize, tokenize } from './tokenize.ts'

/** @testing */
export const protocols: readonly Protocol[] = [
  chat,
  completions,
  responses,
  messages,
  generate,
  embeddings,
  pooling,
  rerank,
  score,
  audio,
  imageEdits,
  speech,
  images,
  tokenize,
  detokenize,
]

/** A path with its protocol. */
export interface ProtocolEndpoint extends Endpoint {
  readonly protocol: Protocol
}

export const endpoints: readonly ProtocolEndpoint[] = protocols.flatMap((protocol) =>
  protocol.endpoints.map((endpoint) => ({ ...endpoint, protocol })),
)

const byPath: ReadonlyMap<string, ProtocolEndpoint> = new Map(endpoints.map((endpoint) => [endpoint.path, endpoint]))

/** The endpoint of a path, whose query does not matter. undefined: the gateway has none. */
export function endpointOf(path: string): ProtocolEndpoint | undefined {
  const query = path.indexOf('?')
  return byPath.get(query < 0 ? path : path.slice(0, query))
}

/**
 * The protocol of a path, which may have a query or lie below an endpoint: errors of `/v1/messages/batches` have the
 * form of Messages, and `/v1/responses/ID` streams as Responses do. undefined: no protocol knows it.
 */
export function protocolOf(path: string): Protocol | undefined {
  let rest = path.split('?', 1)[0]!
  while (rest !== '') {
    const found = byPath.get(rest)
    if (found !== undefined) return found.protocol
    rest = rest.slice(0, Math.max(0, rest.lastIndexOf('/')))
  }
  return undefined
}

/** Members with the prompt of any protocol, where a long text is read as such. */
export const allPromptTexts: ReadonlySet<string> = new Set(protocols.flatMap(({ promptFields }) => promptFields.texts))

/** Fields that bound output in any protocol, for limits that must hold whatever a client names. */
export const allBounds: readonly string[] = [...new Set(protocols.flatMap(({ bounds }) => bounds.fields))]
