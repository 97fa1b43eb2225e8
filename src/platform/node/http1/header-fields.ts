/** The lines of a head behind its first, read the same for requests and answers: what two parsers could read differently is refused (RFC 9112, 2.2, 5 and 11.2). */

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/
// oxlint-disable-next-line no-control-regex -- control bytes are what it looks for
const FORBIDDEN = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)|(?<!\r)\n/

/**
 * Hands each header of a head over, name in lower case. `text` is the head without its closing blank line, in Latin-1.
 * false: the head is malformed, or `take` refused a header.
 */
export function readHeadFields(text: string, take: (name: string, value: string) => boolean): boolean {
  if (FORBIDDEN.test(text)) return false
  let at = text.indexOf('\r\n')
  while (at >= 0) {
    const from = at + 2
    at = text.indexOf('\r\n', from)
    const line = at < 0 ? text.slice(from) : text.slice(from, at)
    const colon = line.indexOf(':')
    const name = line.slice(0, Math.max(0, colon)).toLowerCase()
    // Folded lines begin with a blank, blanks before the colon smuggle: neither is a token.
    if (!TOKEN.test(name) || !take(name, valueOf(line, colon + 1))) return false
  }
  return true
}

/** Without the blanks around it: spaces and tabs, where `trim` would take more (RFC 9110, 5.6.3). */
function valueOf(line: string, from: number): string {
  let to = line.length
  while (from < to && isBlank(line.charCodeAt(from))) from++
  while (to > from && isBlank(line.charCodeAt(to - 1))) to--
  return line.slice(from, to)
}

const isBlank = (code: number): boolean => code === 32 || code === 9
