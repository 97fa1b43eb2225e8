import { roundMs } from './access-log.ts'
import type { RequestContext } from './request-context.ts'

/** Adds the headers of responses that no engine gave. */
export function addOwnHeaders({ headers }: Response, incoming: RequestContext): void {
  headers.set('server-timing', `edge;dur=${roundMs(incoming.elapsedMs())}`)
  const { cors } = incoming
  if (cors !== null) for (let i = 0; i < cors.length; i += 2) headers.append(cors[i]!, cors[i + 1]!)
}
