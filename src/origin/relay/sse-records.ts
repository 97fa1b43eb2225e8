/** Splits a stream of server-sent events into records. A record ends in an empty line. */
export class SseRecords {
  readonly #decoder = new TextDecoder()
  #rest = ''

  /** The incomplete record at the end. */
  get rest(): string {
    return this.#rest
  }

  /** Returns the records that this chunk completes. */
  take(chunk: Uint8Array): readonly string[] {
    const records = (this.#rest + this.#decoder.decode(chunk, { stream: true })).split(/(?<=\r?\n\r?\n)/)
    const last = records.at(-1)!
    this.#rest = /\r?\n\r?\n$/.test(last) ? '' : records.pop()!
    return records
  }
}

/** Payload of a record of one `data` line; null: a comment, or another event. */
export function payloadOf(record: string): string | null {
  const match = /^data: ?(.*)\r?\n\r?\n$/s.exec(record)
  return match === null || match[1]!.includes('\n') ? null : match[1]!
}

export const dataRecord = (payload: string): string => `data: ${payload}\n\n`
