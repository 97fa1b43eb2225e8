/** W3C Trace Context of a request and of its engine call. https://www.w3.org/TR/trace-context/ */
export interface Trace {
  readonly traceId: string
  /** Span of the client; null: the trace starts here. */
  readonly parentId: string | null
  /** Span of the request at the gateway. */
  readonly spanId: string
  /** Span of the engine call, the parent of the engine's spans. */
  readonly engineSpanId: string
  readonly sampled: boolean
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/

/** Parses `traceparent`; null: absent or invalid. Later versions are read as version 00. @testing */
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

interface TraceOptions {
  /** Share of requests to sample where the client has not decided. */
  readonly sample: number
  /** A fresh UUID. */
  readonly newId: () => string
  /** In [0, 1). */
  readonly random: () => number
}

export function beginTrace(header: string | null, { sample, newId, random }: TraceOptions): Trace {
  const parent = readTraceparent(header)
  return {
    traceId: parent?.traceId ?? hex(newId()),
    parentId: parent?.parentId ?? null,
    spanId: newSpanId(newId()),
    engineSpanId: newSpanId(newId()),
    sampled: parent?.sampled ?? random() < sample,
  }
}

/** Headers for the engine. `tracestate` is passed on unless the trace starts here. */
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

/** Last digits of a UUID: bits in its middle are constant. */
const newSpanId = (uuid: string): string => hex(uuid).slice(-16)
