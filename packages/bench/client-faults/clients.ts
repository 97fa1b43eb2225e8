/** Clients as applications use them, and the errors that each raises for each fault. */
import { faultNames, type ClientFault } from './faults.ts'

interface RaisedError {
  /** Names of the class; what comes first decides in some protocols. */
  readonly classes: readonly string[]
  /** HTTP status that the error has. Absent: any or none. */
  readonly status?: number
}

export interface FaultClient {
  readonly name: string
  readonly title: string
  readonly language: 'javascript' | 'python'
  /** What the client raises, by fault. */
  readonly raises: Readonly<Record<ClientFault, RaisedError>>
}

/** The gateway's 502 if no engine gives an answer, the engines' 429, and the client's own words for broken answers. */
interface ErrorClasses {
  readonly server: string
  readonly busy: string
  readonly broken: readonly string[]
  readonly brokenBody: readonly string[]
}

function raises({ server, busy, broken, brokenBody }: ErrorClasses): Readonly<Record<ClientFault, RaisedError>> {
  const of = (fault: ClientFault): RaisedError => {
    if (fault.endsWith('busy')) return { classes: [busy], status: 429 }
    if (fault === 'whole_cut') return { classes: brokenBody }
    return ['error_mid', 'no_end', 'cut'].includes(fault) ? { classes: broken } : { classes: [server], status: 502 }
  }
  return Object.fromEntries(faultNames.map((fault) => [fault, of(fault)])) as Record<ClientFault, RaisedError>
}

const statusClasses = { server: 'InternalServerError', busy: 'RateLimitError' }

export const faultClients: readonly FaultClient[] = [
  {
    name: 'openai-python',
    title: 'openai for Python',
    language: 'python',
    // A flat error event, as responses have it, is none for this client; the aborted connection is.
    raises: raises({
      ...statusClasses,
      broken: ['APIError', 'APIConnectionError'],
      brokenBody: ['APIConnectionError'],
    }),
  },
  {
    name: 'anthropic-python',
    title: 'anthropic for Python',
    language: 'python',
    raises: raises({ ...statusClasses, broken: ['APIStatusError'], brokenBody: ['APIConnectionError'] }),
  },
  {
    name: 'openai-js',
    title: 'openai for JavaScript',
    language: 'javascript',
    raises: raises({ ...statusClasses, broken: ['APIError'], brokenBody: ['TypeError'] }),
  },
  {
    name: 'anthropic-js',
    title: '@anthropic-ai/sdk',
    language: 'javascript',
    raises: raises({ ...statusClasses, broken: ['APIError'], brokenBody: ['TypeError'] }),
  },
  {
    name: 'ai-sdk',
    title: 'The AI SDK',
    language: 'javascript',
    raises: raises({
      server: 'AI_APICallError',
      busy: 'AI_APICallError',
      // vLLM's nameless error event is no event of responses.
      broken: ['AI_StreamProviderError', 'AI_TypeValidationError'],
      brokenBody: ['AI_APICallError'],
    }),
  },
]
