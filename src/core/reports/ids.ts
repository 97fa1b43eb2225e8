/**
 * Which request a report speaks of. Engines change the id they were sent: vLLM puts `chatcmpl-` or `cmpl-` in front,
 * since 0.14 a random `-xxxxxxxx` behind, and of a completion's prompts each gets `-<index>`; an encode proxy sends
 * each item under `<parent>:<index>:<hex>`.
 */
export interface ReportId {
  /** Ids of the request it may be, the most exact first. Never empty. */
  readonly candidates: readonly string[]
  /** Index of the encoder item; null: the request itself. */
  readonly child: number | null
}

/** Longest id that is taken, in characters. */
export const MAX_ID_CHARS = 256

const CHILD = /^(.+):(\d{1,4}):[0-9a-f]{1,32}(?:-[0-9a-f]{8})?$/
const TAIL = /-[0-9a-f]{8}$/
const PROMPT_INDEX = /-\d{1,4}$/

/** A tail is taken off only behind a known prefix: without one nobody has added a tail. */
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

/** As an encoder's word, who is sent items alone; null: it names none. A client may give its requests such ids, too. */
export function readItemId(id: string): ReportId | null {
  const child = CHILD.exec(withoutPrefix(id).rest)
  return child === null ? null : { candidates: [withoutPrefix(child[1]!).rest], child: Number(child[2]) }
}

/** All prefixes in front: an engine adds its own to whatever it was sent. */
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
 * The id that decides where a request's reports are kept, so that all of a request's ids meet. It may take off more
 * than `readReportId` would: what only looks like a tail shares a place, nothing else.
 */
export function homeOf(id: string): string {
  const { rest, prefix } = withoutPrefix(id)
  let parent = rest
  for (let child = CHILD.exec(rest); child !== null; child = CHILD.exec(parent)) parent = withoutPrefix(child[1]!).rest
  const request = parent.replace(TAIL, '')
  return prefix === 'cmpl-' ? request.replace(PROMPT_INDEX, '') : request
}
