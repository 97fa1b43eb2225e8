import { fieldsOf } from '../../protocols/stream/boundaries.ts'

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

/** Data of a record, whatever comments and other fields it has. null: there is none, or the event has a name. */
export function payloadOf(record: string): string | null {
  const { name, data } = fieldsOf(record)
  return name === null ? data : null
}

export const dataRecord = (payload: string): string => `data: ${payload.replaceAll('\n', '\ndata: ')}\n\n`
