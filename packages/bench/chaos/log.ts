/** Log lines of a gateway: problems, and the continuations that they report. */

/** Faults of engines and the end of threads; the driver causes them. */
const EXPECTED =
  /"event":"(?:thread_exited|stream_truncated)"|"reason":"(?:no_engine|engines_full|engine_unreachable|engine_timeout)"/
const SECRET = /chaos-(?:admin-|limited-|edge-)?key/

/** Expected pause of a stream: time to detect the failure, and predicted TTFT of the continuation, ms. */
interface Pause {
  readonly silentMs: number
  readonly predictedMs: number | null
}

type Line = Readonly<Record<string, unknown>>

export class LogReader {
  readonly problems: string[] = []
  /** By the id of the request. */
  readonly #open = new Map<string, Pause[]>()
  readonly #ended = new Set<string>()
  /** By the client's `x-request-id`: the only pause of the stream. */
  readonly pauses = new Map<string, Pause>()
  /** Warnings by the id of the request. */
  readonly #warnings = new Map<string, string[]>()
  /** Ids by the client's `x-request-id`. */
  readonly #ids = new Map<string, string>()
  /** What gateways log about each other and the server that they share. */
  readonly replicaLines: string[] = []
  /** Streams that were not continued, by reason. */
  readonly refusals: Record<string, number> = {}

  /** Returns the fields of the line; null: it is not a JSON object. */
  read(text: string, name = ''): Line | null {
    if (SECRET.test(text)) this.problems.push(`${name}a key in the log: ${text}`)
    let line: Line
    try {
      line = JSON.parse(text) as Line
    } catch {
      this.problems.push(`${name}no JSON in the log: ${text}`)
      return null
    }
    if (line['level'] === 'error' && !EXPECTED.test(text)) this.problems.push(`${name}${text}`)
    const { id, event } = line
    if (String(event).startsWith('replica')) this.replicaLines.push(`${name}${text}`)
    if (event === 'stream_continued')
      this.#open.set(String(id), [
        ...(this.#open.get(String(id)) ?? []),
        { silentMs: Number(line['silent_ms']), predictedMs: line['predicted_ttft_ms'] as number | null },
      ])
    if (event === 'stream_not_continued') {
      const reason = String(line['reason'])
      this.refusals[reason] = (this.refusals[reason] ?? 0) + 1
    }
    if (line['level'] === 'warn' && typeof id === 'string') {
      const { failure, reason = failure, engine = '', status = '', cause = '' } = line
      const warning = [event, reason, status, engine, cause].filter((word) => word !== '').join(' ')
      this.#warnings.set(id, [...(this.#warnings.get(id) ?? []), warning])
    }
    if (event === 'request' && typeof id === 'string') this.#end(id, line, name)
    return line
  }

  #end(id: string, line: Line, name: string): void {
    if (this.#ended.has(id)) this.problems.push(`${name}request ${id} ended twice`)
    this.#ended.add(id)
    this.#ids.set(String(line['request_id']), id)
    const pauses = this.#open.get(id)
    this.#open.delete(id)
    if (pauses?.length === 1) this.pauses.set(String(line['request_id']), pauses[0]!)
  }

  /** What the gateway warned of for a request, by the client's `x-request-id`. */
  warningsOf(requestId: string): readonly string[] {
    return this.#warnings.get(this.#ids.get(requestId) ?? '') ?? []
  }
}
