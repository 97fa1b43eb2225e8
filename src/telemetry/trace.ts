/** W3C Trace Context: whose child a request is, and what its engine is told. https://www.w3.org/TR/trace-context/ */

export interface Trace {
  readonly traceId: string
  /** The client's span; null: the trace begins here. */
  readonly parentId: string | null
  /** The gateway's span of the request. */
  readonly spanId: string
  /** The span of the call to the engine, which becomes the engine's parent. */
  readonly engineSpanId: string
  readonly sampled: boolean
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/

/** null: there is none, or it is not one. Later versions are read as far as this one goes. */
export function readTraceparent(
  header: string | null,
): { readonly traceId: string; readonly parentId: string; readonly sampled: boolean } | null {
  const match = TRACEPARENT.exec(header ?? '')
  if (match === null) return null
  const [, version, traceId, parentId, flags, rest] = match
  if (version === 'ff' || (version === '00' && rest !== undefined) || /^0+$/.test(traceId!) || /^0+$/.test(parentId!))
    return null
  return { traceId: traceId!, parentId: parentId!, sampled: (Number.parseInt(flags!, 16) & 1) === 1 }
}

export interface Tracing {
  /** Share of requests to sample where the client has not decided. */
  readonly sample: number
  /** A fresh UUID. */
  readonly newId: () => string
  /** In [0, 1). */
  readonly random: () => number
}

export function beginTrace(header: string | null, { sample, newId, random }: Tracing): Trace {
  const parent = readTraceparent(header)
  return {
    traceId: parent?.traceId ?? hex(newId()),
    parentId: parent?.parentId ?? null,
    spanId: spanIdOf(newId()),
    engineSpanId: spanIdOf(newId()),
    sampled: parent?.sampled ?? random() < sample,
  }
}

/** The headers for the engine: `traceparent` says who calls, `tracestate` goes on as it came unless the trace is ours. */
export function withTrace(headers: readonly string[], { traceId, parentId, engineSpanId, sampled }: Trace): string[] {
  const out: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i]!
    if (name === 'traceparent' || (name === 'tracestate' && parentId === null)) continue
    out.push(name, headers[i + 1]!)
  }
  out.push('traceparent', `00-${traceId}-${engineSpanId}-${sampled ? '01' : '00'}`)
  return out
}

const hex = (uuid: string): string => uuid.replaceAll('-', '')

/** The end of a UUID: its middle holds bits that are always the same. */
const spanIdOf = (uuid: string): string => hex(uuid).slice(-16)
