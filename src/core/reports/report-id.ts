/**
 * Assigns a report to its request. Engines change the id they were sent: vLLM puts `chatcmpl-` or `cmpl-` in front,
 * since 0.14 a random `-xxxxxxxx` behind, and each prompt of a completion gets `-<index>`; an encode proxy sends each
 * item under `<parent>:<index>:<hex>`.
 */
export interface ReportId {
  /** Possible ids of the request, the most exact first. Never empty. */
  readonly candidates: readonly string[]
  /** Index of the encoder item. null: the request itself. */
  readonly child: number | null
}

/** Longest accepted id, in characters. */
export const MAX_ID_CHARS = 256

const CHILD = /^(.+):(\d{1,4}):[0-9a-f]{1,32}(?:-[0-9a-f]{8})?$/

const TAIL = /-[0-9a-f]{8}$/

const PROMPT_INDEX = /-\d{1,4}$/

/** Reads an id. A suffix is removed only after a known prefix, because without a prefix no engine has added one. */
export function readReportId(id: string): ReportId {
  const { rest, prefix } = withoutPrefix(id)
  if (prefix === '') return { candidates: [rest], child: null }
  const candidates = [rest]
  const bare = rest.replace(TAIL, '')
  if (bare !== rest && bare !== '') candidates.push(bare)
  const request = prefix === 'cmpl-' ? bare.replace(PROMPT_INDEX, '') : bare
  if (request !== bare && request !== '') candidates.push(request)
  return { candidates, child: null }
}

/**
 * Reads the id of an encoder item, for reports of encoders only. null: none. A client may use such ids for its
 * requests too.
 */
export function readItemId(id: string): ReportId | null {
  const child = CHILD.exec(withoutPrefix(id).rest)
  return child === null ? null : { candidates: [withoutPrefix(child[1]!).rest], child: Number(child[2]) }
}

/** Removes all prefixes: each engine adds its own. */
function withoutPrefix(id: string): { readonly rest: string; readonly prefix: '' | 'cmpl-' | 'chatcmpl-' } {
  let rest = id
  let prefix: '' | 'cmpl-' | 'chatcmpl-' = ''
  for (;;) {
    const next = rest.startsWith('chatcmpl-') ? 'chatcmpl-' : rest.startsWith('cmpl-') ? 'cmpl-' : ''
    if (next === '' || rest.length === next.length) return { rest, prefix }
    prefix = prefix === '' ? next : prefix
    rest = rest.slice(next.length)
  }
}

/**
 * The id whose shard keeps a request's reports, so that all ids of a request meet. It may remove more than
 * `readReportId`: ids that only look alike then share a shard, with no other effect.
 */
export function shardKeyOf(id: string): string {
  const { rest, prefix } = withoutPrefix(id)
  let parent = rest
  for (let child = CHILD.exec(rest); child !== null; child = CHILD.exec(parent)) parent = withoutPrefix(child[1]!).rest
  const request = parent.replace(TAIL, '')
  return prefix === 'cmpl-' ? request.replace(PROMPT_INDEX, '') : request
}
