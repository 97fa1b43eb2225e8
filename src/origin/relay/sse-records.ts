import { fieldsOf } from '../../protocols/stream/boundaries.ts'

/** Data of a record, whatever comments and other fields it has. null: there is none, or the event has a name. */
export function payloadOf(record: string): string | null {
  const { name, data } = fieldsOf(record)
  return name === null ? data : null
}

export const dataRecord = (payload: string): string => `data: ${payload.replaceAll('\n', '\ndata: ')}\n\n`
