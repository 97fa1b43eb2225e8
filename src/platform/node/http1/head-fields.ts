/**
 * Header lines of requests and responses. What two parsers could read differently is rejected (RFC 9112, sections 2.2,
 * 5 and 11.2).
 */

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/

// oxlint-disable-next-line no-control-regex -- control bytes are what it looks for
const FORBIDDEN = /[^\t\x20-\x7e\x80-\xff]/

/** Whether a header can carry the text. No line break can be in it: behind one another header would begin. */
export const isFieldValue = (text: string): boolean => !FORBIDDEN.test(text)

/** Names as sent, in lower case. Peers send the same few names again and again. */
const knownNames = new Map<string, string>()
/** Limit of the map, because clients choose the names. */
const MAX_KNOWN_NAMES = 500

/** Name in lower case. null: no token, as in a folded line, or before a blank, which some parsers ignore. */
function nameOf(sent: string): string | null {
  const known = knownNames.get(sent)
  if (known !== undefined) return known
  const name = sent.toLowerCase()
  if (!TOKEN.test(name)) return null
  if (knownNames.size < MAX_KNOWN_NAMES) knownNames.set(sent, name)
  return name
}

/**
 * Calls `take` for each header of a head, name in lower case. `text` is the head without its closing blank line, in
 * Latin-1. Returns false if the head is malformed or `take` returned false.
 */
export function readHeadFields(text: string, take: (name: string, value: string) => boolean): boolean {
  let at = text.indexOf('\r\n')
  if (!isFieldValue(at < 0 ? text : text.slice(0, at))) return false
  while (at >= 0) {
    const from = at + 2
    at = text.indexOf('\r\n', from)
    const end = at < 0 ? text.length : at
    const colon = text.indexOf(':', from)
    if (colon < 0 || colon > end) return false
    const name = nameOf(text.slice(from, colon))
    const value = valueOf(text, colon + 1, end)
    if (name === null || !isFieldValue(value) || !take(name, value)) return false
  }
  return true
}

/** Trims spaces and tabs only (RFC 9110, 5.6.3); `trim` removes more. */
function valueOf(text: string, start: number, end: number): string {
  let from = start
  let to = end
  while (from < to && isBlank(text.charCodeAt(from))) from++
  while (to > from && isBlank(text.charCodeAt(to - 1))) to--
  return text.slice(from, to)
}

const isBlank = (code: number): boolean => code === 32 || code === 9
